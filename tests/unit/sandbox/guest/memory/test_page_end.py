"""Tensors at the end of their memory: a read beyond them ends the process."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
import torch

from cuassay.sandbox.guest.memory.page_end import bytes_at_end

_READ = """
import ctypes, sys, torch
from cuassay.sandbox.guest.memory.page_end import bytes_at_end
held = bytes_at_end({size}, torch.device("cpu"))
print(ctypes.string_at(held.data_ptr(), {read})[-1:].hex(), flush=True)
"""


@pytest.mark.parametrize("size", [1, 64, 100, 4096, 4097, 70_000])
def test_the_bytes_begin_as_aligned_as_torch_would_have_them_and_hold_ones(size: int) -> None:
    held = bytes_at_end(size, torch.device("cpu"))
    assert held.numel() == size
    assert held.dtype is torch.uint8
    assert held.data_ptr() % 64 == 0
    assert bool((held == 0xFF).all())
    held.fill_(3)  # it may be written
    assert int(held.sum()) == 3 * size


def _read(size: int, read: int) -> subprocess.CompletedProcess[str]:
    text = _READ.format(size=size, read=read)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)


def test_a_read_up_to_the_last_byte_is_allowed_and_one_beyond_the_page_faults() -> None:
    within, beyond = _read(128, 128), _read(128, 129)
    assert within.returncode == 0, within.stderr
    assert within.stdout.strip() == "ff"
    assert beyond.returncode == -signal.SIGSEGV
