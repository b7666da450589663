"""The memory that a judge and its workers share."""

from __future__ import annotations

import errno
import fcntl

import pytest
import torch

from cuassay.model.device import Device
from cuassay.sandbox.host.segments import Segments, _rounded

_GIB = 1 << 30


@pytest.mark.parametrize(
    "size", [0, 1, 3 << 20, _GIB, _GIB + 1, 12 * _GIB + 1, 24 * _GIB, 33 * _GIB]
)
def test_a_large_arena_takes_little_more_than_it_holds(size: int) -> None:
    taken = _rounded(size)
    assert size <= taken
    assert size <= _GIB or taken <= size + size // 8 + 1


def test_a_page_that_linux_holds_for_a_moment_does_not_end_a_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, refusals = fcntl.fcntl, [OSError(errno.EBUSY, "Device or resource busy")] * 2

    def busy_at_first(fd: int, command: int, *rest: int) -> int:
        if command == fcntl.F_ADD_SEALS and rest[0] & fcntl.F_SEAL_WRITE and refusals:
            raise refusals.pop()
        return real(fd, command, *rest)

    monkeypatch.setattr(fcntl, "fcntl", busy_at_first)
    package = Segments(Device("cpu")).pack({"x": torch.ones(3)})
    assert not refusals
    assert real(package.fds[0], fcntl.F_GET_SEALS) & fcntl.F_SEAL_WRITE
    package.close()
