"""A full disk is the machine's fault, whoever says so: neither a pass nor a rejection follows."""

from __future__ import annotations

import errno
import os

import pytest

from cuassay.errors import BuildError
from cuassay.model.trace import Claim
from cuassay.sandbox.environment_failure import environment_failure
from cuassay.sandbox.guest.raised import raised

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x.o")


def _behind() -> BaseException:
    try:
        try:
            raise FULL
        except OSError as error:
            raise ImportError("the extension cannot be loaded") from error
    except ImportError as error:
        return error


@pytest.mark.parametrize(
    ("error", "log", "starts"),
    [
        (FULL, "", "the disk is full"),
        (OSError(errno.EDQUOT, "quota"), "", "the disk is full"),
        (OSError(errno.EIO, "input/output"), "", "the machine failed"),
        (_behind(), "", "the disk is full"),
        (RuntimeError("ptxas fatal: No space left on device"), "", "the disk is full"),
        (BuildError("nvcc failed"), "as: x.o\ncc1: No space left on device\n", "the disk is full"),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "", ""),
        (FileNotFoundError(errno.ENOENT, "no such file"), "", ""),
        (RuntimeError("wrong shape"), "error: expected ';'", ""),
    ],
)
def test_what_the_machine_failed_at_is_known(error: BaseException, log: str, starts: str) -> None:
    found = environment_failure(error, log=log)
    assert found.startswith(starts)
    assert bool(found) is bool(starts)


def test_a_call_that_meets_a_full_disk_claims_no_fault() -> None:
    assert raised(0, FULL).claim is Claim.NO_TOOL
    assert raised(0, _behind()).claim is Claim.NO_TOOL
    assert raised(0, OSError(errno.ENOMEM, "no memory")).claim is Claim.NO_MEMORY
    assert raised(0, RuntimeError("wrong shape")).claim is None
