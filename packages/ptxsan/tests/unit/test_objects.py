"""Memory of a block for clocks, barriers and tensor memory: parts that do not overlap."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ptxsan.objects import Objects, fill_tables
from ptxsan.runtime import layout as L

_OFFSETS = (
    L.BLOCK_CLOCKS,
    L.NAMED_CLOCKS,
    L.CLUSTER_CLOCKS,
    L.REMOTE,
    L.MBARRIERS,
    L.ASYNC,
    L.TENSOR,
)


def _placed(objects: Objects, start: int) -> list[int]:
    blocks = np.zeros(2 * L.BLOCK_BYTES, np.uint8)
    objects.place(blocks, 1, start)
    assert not blocks[: L.BLOCK_BYTES].any()
    record = L.BLOCK_BYTES
    return [struct.unpack_from("<Q", blocks.data, record + offset)[0] for offset in _OFFSETS]


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("tables", [False, True])
@pytest.mark.parametrize("words", [0, 40])
def test_parts_lie_in_a_row_inside_the_block(words: int, tables: bool, tensor: bool) -> None:
    objects = Objects(words=words, threads=64, tables=tables, tensor=tensor)
    places = [place for place in _placed(objects, 1 << 20) if place]
    assert places == sorted(set(places))
    assert len(places) == 4 * bool(words) + 2 * tables + tensor
    assert all(1 << 20 <= place < (1 << 20) + objects.block_bytes for place in places)
    assert objects.block_bytes % 64 == 0


def test_what_needs_nothing_takes_nothing() -> None:
    objects = Objects(words=0, threads=1024, tables=False, tensor=False)
    assert objects.block_bytes == 0
    assert _placed(objects, 1 << 20) == [0] * len(_OFFSETS)


def test_every_barrier_of_every_block_knows_itself() -> None:
    objects = Objects(words=8, threads=32, tables=True, tensor=False)
    blocks = np.zeros(2 * L.BLOCK_BYTES, np.uint8)
    memory = np.zeros(2 * objects.block_bytes + 64, np.uint8)
    start = -(-memory.ctypes.data // 64) * 64
    for index in (0, 1):
        objects.place(blocks, index, start + index * objects.block_bytes)
    fill_tables(objects, blocks, memory)
    opened: list[int] = []
    for index in (0, 1):
        record = index * L.BLOCK_BYTES
        table = struct.unpack_from("<Q", blocks.data, record + L.MBARRIERS)[0] - memory.ctypes.data
        for number in range(L.MOST_MBARRIERS):
            at = table + number * L.M_RECORD
            assert struct.unpack_from("<I", memory.data, at + L.M_INDEX)[0] == number
            owner = struct.unpack_from("<Q", memory.data, at + L.M_BLOCK)[0]
            assert owner == blocks.ctypes.data + record
            opened += struct.unpack_from("<QQ", memory.data, at + L.M_OPEN)
    pairs = zip(opened[::2], opened[1::2], strict=True)
    assert all(after - before == 4 * objects.words for before, after in pairs)
    assert len(set(opened)) == len(opened)
