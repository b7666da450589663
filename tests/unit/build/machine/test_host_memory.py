"""Memory that host code asks CUDA for: known in each call, written byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from cuassay.build.machine.host_memory import HostMemory
from cuassay.build.machine.memory import StorageArena

pytest.importorskip("numba")


def test_memory_is_put_into_every_call_until_it_is_freed() -> None:
    data, held, arena = np.arange(8, dtype=np.uint8), HostMemory(), StorageArena()
    base = data.ctypes.data
    held.add(base, 8, initialised=True)
    for _ in range(2):  # a call forgets its memory when it ends
        held.provide(arena)
        found = arena.pointer(base + 3)
        assert found is not None
        assert (found.offset, found.buffer.initialised) == (3, None)
        assert bytes(found.buffer.data) == bytes(range(8))
        arena.clear()
    held.drop(base)
    held.provide(arena)
    assert arena.pointer(base) is None


def test_bytes_that_host_code_writes_are_written_and_no_others() -> None:
    data, held, arena = np.zeros(8, np.uint8), HostMemory(), StorageArena()
    base = data.ctypes.data
    held.add(base, 8, initialised=False)
    held.mark(arena, base + 2, 3, source=None)
    held.provide(arena)
    found = arena.pointer(base)
    assert found is not None
    assert found.buffer.initialised is not None
    assert found.buffer.initialised.tolist() == [False, False, True, True, True, *[False] * 3]
