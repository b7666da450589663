"""Scales lie where tensor cores look for them, and come back from there."""

from __future__ import annotations

import pytest
import torch

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.formats.native.scale_layouts import padded, swizzled, unswizzled

SIZES = [(1, 1), (128, 4), (129, 5), (300, 13), (8, 4), (31, 8)]


def place(row: int, column: int, wide: int, layout: str) -> int:
    """The formula of the PTX manual, one element at a time."""
    tall = 128 if layout == "128x4" else 8
    tile = row // tall * (wide // 4) + column // 4
    row, column = row % tall, column % 4
    inside = row % 32 * 16 + row // 32 * 4 + column if tall == 128 else row * 4 + column
    return tile * tall * 4 + inside


@pytest.mark.parametrize("layout", ["128x4", "8x4"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_every_scale_lies_at_its_place(rows: int, columns: int, layout: str) -> None:
    shape = padded(rows, columns, layout)
    plain = torch.arange(shape[0] * shape[1]).reshape(shape)
    stored = swizzled(plain, layout)
    flat = stored.flatten()
    for row, column in [(0, 0), (rows - 1, columns - 1), (rows // 2, columns // 2), (rows - 1, 0)]:
        assert flat[place(row, column, shape[1], layout)] == plain[row, column]
    assert torch.equal(unswizzled(stored, rows, columns, layout=layout), plain[:rows, :columns])


def test_scales_of_8_bits_come_back_bit_for_bit() -> None:
    plain = torch.randn(128, 8).to(torch.float8_e4m3fn)
    back = unswizzled(swizzled(plain), 100, 7)
    assert torch.equal(back.view(torch.uint8), plain[:100, :7].view(torch.uint8))


def test_tensors_without_whole_tiles_are_refused() -> None:
    with pytest.raises(ProblemError, match=r"\[100, 4\] holds no whole tiles of layout 128x4; pad"):
        swizzled(torch.zeros(100, 4))
    with pytest.raises(
        ProblemError, match=r"take \[256, 4\] in layout 128x4, got a tensor of \[12"
    ):
        unswizzled(torch.zeros(128, 4), 129, 4)
    with pytest.raises(UnknownNameError, match="layout of scales"):
        padded(1, 1, "4x128")
