"""Products of operands with a scale for every block, against their definition."""

from __future__ import annotations

import pytest
import torch

from cuassay.block_scaled import (
    dequantized,
    has_blocks,
    is_missing_product,
    named_arguments,
    product,
)


def _place(row: int, column: int, across: int) -> int:
    """Where the scale of a row and a block lies, by the layout's definition."""
    tile = row // 128 * across + column // 4
    return tile * 512 + (row % 32) * 16 + (row % 128 // 32) * 4 + column % 4


@pytest.mark.parametrize("rows", [5, 128, 200])
def test_each_number_is_multiplied_by_the_scale_of_its_row_and_block(rows: int) -> None:
    depth, block = 160, 32  # five blocks: two tiles across
    values = torch.randn(rows, depth, generator=torch.Generator().manual_seed(1))
    values = values.to(torch.float8_e4m3fn)
    tiles = -(-rows // 128) * 2
    scales = torch.rand(tiles * 512, generator=torch.Generator().manual_seed(2)) + 0.5
    found = dequantized(values, scales, block, torch.float64)
    for row, column in ((0, 0), (rows - 1, 159), (4, 31), (4, 32), (min(rows - 1, 130), 130)):
        scale = float(scales[_place(row, column // block, 2)])
        expected = float(values[row, column].double()) * scale
        assert float(found[row, column]) == pytest.approx(expected, rel=1e-6), (row, column)


def test_packed_codes_are_unpacked_low_half_first() -> None:
    packed = torch.tensor([[0x21, 0xF7]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    found = dequantized(packed, torch.ones(512), 16, torch.float64)
    assert found.tolist() == [[0.5, 1.0, 6.0, -6.0]]


def test_a_product_is_that_of_the_dequantized_operands() -> None:
    a = torch.randn(16, 32).to(torch.float8_e4m3fn)
    b = torch.randn(8, 32).to(torch.float8_e4m3fn)
    scales = torch.full((512,), 2.0).to(torch.float8_e8m0fnu)
    named = named_arguments((a, b.t(), scales, scales), {"out_dtype": torch.bfloat16})
    assert has_blocks(named)
    found = product(named, (scales.double(), scales.double()), torch.float64)
    assert torch.allclose(found, 4.0 * a.double() @ b.double().T)


def test_scales_of_another_number_or_type_are_not_of_blocks() -> None:
    a = torch.zeros(16, 32).to(torch.float8_e4m3fn)
    for scales in (torch.ones(512), torch.ones(16).to(torch.float8_e8m0fnu)):
        assert not has_blocks(named_arguments((a, a.t(), scales, scales), {}))


def test_a_missing_product_is_told_by_the_call_that_raised() -> None:
    a = torch.zeros(16, 32).to(torch.float8_e4m3fn)
    scales = torch.ones(512).to(torch.float8_e8m0fnu)
    with pytest.raises((RuntimeError, ValueError)) as raised:
        torch._scaled_mm(a, a.t(), scales, scales, out_dtype=torch.bfloat16)
    assert is_missing_product(raised.value)
    with pytest.raises(RuntimeError) as other:
        torch.ones(2, 3) @ torch.ones(2, 3)
    assert not is_missing_product(other.value)
