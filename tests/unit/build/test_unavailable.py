"""What a candidate went without, even where it goes on."""

from __future__ import annotations

import pytest

from cuassay.build import unavailable
from cuassay.errors import MissingToolError


@pytest.fixture(autouse=True)
def _nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unavailable, "_noted", [])


def test_a_missing_tool_is_remembered_though_the_candidate_catches_it() -> None:
    assert unavailable.went_without() == ""
    with pytest.raises(MissingToolError), unavailable.noted():
        raise MissingToolError("nvcc is missing")
    unavailable.note(MissingToolError("a later one"))
    assert (
        unavailable.went_without() == "nvcc is missing; the candidate went on without its kernels"
    )


def test_what_the_candidate_does_wrong_is_not_taken_for_a_missing_tool() -> None:
    with pytest.raises(ValueError, match="mine"), unavailable.noted():
        raise ValueError("mine")
    assert unavailable.went_without() == ""
