"""Memory of a program: what points where, who wrote it, what is gone."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ptxsan.host.memory import Memory, may_be_padding


def _base(nbytes: int) -> tuple[int, object]:
    block = (ctypes.c_uint8 * nbytes)()
    return ctypes.addressof(block), block


def test_a_pointer_into_freed_memory_leads_to_what_is_gone() -> None:
    memory = Memory()
    base, _kept = _base(64)
    memory.add(base, 64, initialised=True)
    assert memory.pointer(base + 63) is not None
    memory.remove(base, "freed by cudaFree at a.cu:3")
    found = memory.pointer(base + 8)
    assert found is not None
    assert (found.offset, found.buffer.data.nbytes) == (8, 0)
    assert memory.is_gone(found.buffer.name)
    assert "freed by cudaFree at a.cu:3" in found.buffer.name


def test_memory_that_is_given_out_again_lives() -> None:
    memory = Memory()
    base, _kept = _base(64)
    memory.add(base, 64, initialised=True)
    memory.remove(base)
    again = memory.add(base, 32, initialised=True)
    found = memory.pointer(base)
    assert found is not None
    assert found.buffer is again


def test_which_bytes_nobody_wrote() -> None:
    memory = Memory()
    base, _kept = _base(64)
    memory.add(base, 64, initialised=False)
    memory.mark_written(base, 32, None)
    assert memory.unwritten(base, 32) is None
    found = memory.unwritten(base + 16, 32)
    assert found is not None
    assert np.flatnonzero(found).tolist() == list(range(16, 32))


@pytest.mark.parametrize(
    ("size", "period", "start", "gap", "padding"),
    [
        (128, 16, 12, 4, True),  # {double, float}
        (64, 8, 4, 4, False),  # every second float
        (64, 8, 5, 3, True),  # {int, char}
        (64, 4, 1, 3, False),  # a byte of each word
        (64, 64, 60, 4, False),  # the last float
        (256, 128, 64, 64, False),  # half of each row
        (64, 32, 24, 8, True),  # {16 aligned bytes, 8 more}
    ],
)
def test_what_may_be_padding(size: int, period: int, start: int, gap: int, padding: bool) -> None:
    flags = np.zeros(size, np.bool_)
    for first in range(start, size, period):
        flags[first : first + gap] = True
    assert may_be_padding(flags) == padding
