"""Where tensor cores want the scales of blocks: tiles of 128 x 4 or 8 x 4, one after another.

The tiles lie row by row, padded to whole ones. In a tile of 128 x 4 the scale of row r and column c
lies at (r % 32) * 16 + (r // 32) * 4 + c (PTX ISA, tcgen05.mma block scaling, and cuBLAS's layout
of block scaling factors), in one of 8 x 4 at r * 4 + c. Tensors are used through their methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuassay.errors import ProblemError, UnknownNameError
from cuassay.model.domain import SCALE_TILES

if TYPE_CHECKING:
    import torch


def padded(rows: int, columns: int, layout: str) -> tuple[int, int]:
    """Return the rows and columns of whole tiles. Raises UnknownNameError for the layout."""
    if layout not in SCALE_TILES:
        raise UnknownNameError("layout of scales", layout, SCALE_TILES)
    tall, wide = SCALE_TILES[layout]
    return -(-rows // tall) * tall, -(-columns // wide) * wide


def swizzled(scales: torch.Tensor, layout: str = "128x4") -> torch.Tensor:
    """Return scales of whole tiles, (rows, columns) of any dtype, in the layout's order.

    The shape stays. Raises ProblemError for a tile that is not whole.
    """
    rows, columns = _whole(scales, layout)
    if layout == "8x4":
        tiles = scales.reshape(rows // 8, 8, columns // 4, 4).permute(0, 2, 1, 3)
    else:
        tiles = scales.reshape(rows // 128, 4, 32, columns // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.reshape(rows, columns)


def unswizzled(
    stored: torch.Tensor, rows: int, columns: int, *, layout: str = "128x4"
) -> torch.Tensor:
    """Return the scales, (rows, columns), that a tensor holds in the layout's order.

    `stored` has whole tiles, what pads them is left out. Raises ProblemError for another shape.
    """
    tall, wide = _whole(stored, layout)
    if (tall, wide) != padded(rows, columns, layout):
        expected = list(padded(rows, columns, layout))
        raise ProblemError(
            f"scales of {rows} rows and {columns} columns take {expected} in layout {layout}, got "
            f"a tensor of {[tall, wide]}"
        )
    if layout == "8x4":
        plain = stored.reshape(tall // 8, wide // 4, 8, 4).permute(0, 2, 1, 3)
    else:
        plain = stored.reshape(tall // 128, wide // 4, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return plain.reshape(tall, wide)[:rows, :columns]


def _whole(scales: torch.Tensor, layout: str) -> tuple[int, int]:
    """Return the rows and columns of a tensor of whole tiles. Raises ProblemError for others."""
    rows, columns = scales.shape
    if (rows, columns) != padded(rows, columns, layout):
        raise ProblemError(
            f"a tensor of {[rows, columns]} holds no whole tiles of layout {layout}; pad it to "
            f"{list(padded(rows, columns, layout))}"
        )
    return rows, columns
