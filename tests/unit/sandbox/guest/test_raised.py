"""The record of an exception: what is kept of its texts, and what it claims by its class."""

from __future__ import annotations

import errno

import pytest
import torch

from cuassay.errors import LaunchError, MissingToolError, UncoveredError
from cuassay.model.trace import Claim, StepRaised
from cuassay.sandbox.guest.callers.autograd import BackwardError
from cuassay.sandbox.guest.interface import InputChangedError, RankRaisedError, RanksStuckError
from cuassay.sandbox.guest.raised import raised


@pytest.mark.parametrize(
    ("error", "claim"),
    [
        (MemoryError(), Claim.NO_MEMORY),
        (torch.OutOfMemoryError("CUDA out of memory"), Claim.NO_MEMORY),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), Claim.NO_MEMORY),
        (OSError(errno.ENOENT, "No such file"), None),
        (UncoveredError("a kernel"), Claim.UNCOVERED),
        (MissingToolError("nvcc"), Claim.NO_TOOL),
        (LaunchError("too many threads"), Claim.LAUNCH),
        (BackwardError("it raised"), Claim.BACKWARD),
        (InputChangedError("x"), Claim.INPUT_CHANGED),
        (ValueError("out of memory, says a kernel"), None),
        (KeyError("rows"), None),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_exception_claims_what_its_class_says(error: BaseException, claim: Claim | None) -> None:
    found = raised(3, error)
    assert (found.index, found.exception, found.claim) == (3, type(error).__name__, claim)


def test_texts_without_end_are_cut() -> None:
    found = raised(0, ValueError("x" * 100_000))
    assert len(found.message) == 4096
    assert len(found.traceback) <= 16384


def test_an_exception_that_raises_while_it_is_told_is_told_nevertheless() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not telling")

    found = raised(1, Silent())
    assert found.exception == "Silent"
    assert found.message == "(the exception's own __str__ raised)"


def test_of_a_deep_recursion_the_last_frames_are_kept() -> None:
    def deeper(depth: int) -> None:
        if not depth:
            raise ValueError("at the bottom")
        deeper(depth - 1)

    with pytest.raises(ValueError, match="at the bottom") as caught:
        deeper(500)
    text = raised(0, caught.value).traceback
    assert text.count("deeper(depth - 1)") <= 60
    assert "at the bottom" in text


def test_a_rank_hands_on_its_own_record_under_this_step() -> None:
    record = StepRaised(index=0, exception="KeyError", message="rows", traceback="there")
    found = raised(5, RankRaisedError(2, record))
    assert (found.index, found.exception, found.traceback) == (5, "KeyError", "there")
    assert found.message == "on rank 2: rows"
    stuck = raised(5, RanksStuckError("", ((0, "waits for 1"), (1, "waits for 0"))))
    assert stuck.ranks == ((0, "waits for 1"), (1, "waits for 0"))
    assert stuck.message == "rank 0 waits for 1; rank 1 waits for 0"
