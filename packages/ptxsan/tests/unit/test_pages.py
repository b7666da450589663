"""Large tables cost nothing until they are touched, also where the C library may not map."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ptxsan import pages

# Workers forbid the C library to map large blocks: numpy then clears what it reuses.
_IN_A_WORKER = """
import ctypes, os, sys
import numpy as np
from ptxsan.pages import zeros

M_MMAP_MAX, M_TRIM_THRESHOLD = -4, -1
libc = ctypes.CDLL(None)
assert libc.mallopt(M_MMAP_MAX, 0) and libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

make = {"pages": zeros, "numpy": lambda size: np.zeros(size, np.uint8)}[sys.argv[1]]
for _ in range(2):  # what the first one leaves behind, the second one would clear
    held = make(1 << 28)
    grown = resident()
    held[5] = 7
    held = None
base = resident()
held = make(1 << 28)
assert not held[:64].any()
print(resident() - base + grown)
"""


def _resident_after(way: str) -> int:
    asked = [sys.executable, "-c", _IN_A_WORKER, way]
    return int(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)


def test_a_table_takes_no_memory_before_it_is_touched_in_a_worker() -> None:
    assert _resident_after("pages") < 1 << 27 < _resident_after("numpy")


@pytest.mark.parametrize("shape", [3, (4, 5), 1 << 20, (1 << 10, 1 << 9)])
def test_a_table_is_writable_zeros_of_its_shape(shape: int | tuple[int, ...]) -> None:
    table = pages.zeros(shape, np.uint32)
    assert table.shape == (shape if isinstance(shape, tuple) else (shape,))
    assert table.dtype == np.uint32
    assert not table.any()
    table[-1] = 9
    assert table.reshape(-1)[-1] == 9


def test_a_table_that_nothing_can_hold_says_its_size() -> None:
    with pytest.raises(MemoryError, match=str(1 << 60)):
        pages.zeros(1 << 60)


def test_a_mirror_shows_the_same_megabytes_over_and_over() -> None:
    held = pages.mirror(3 << 30, 1)
    assert held.nbytes == 3 << 30
    assert held[0] == held[1 << 30] == held[-1] == 1
    held[5] = 7
    assert held[5 + (1 << 28)] == 7
    assert pages.mirror(10).tolist() == [0] * 10


def test_what_is_not_reserved_is_beyond_a_workers_limit() -> None:
    code = (
        "import resource; from ptxsan import pages\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "held = [pages.zeros(3 << 30, reserved=False) for _ in range(3)]\n"
        "held[2][-1] = 7; print(held[2][-1], held[0][-1])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["7", "0"]
