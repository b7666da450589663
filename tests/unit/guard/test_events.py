"""A violation: how far it is from what is allowed, and the exception that carries it."""

from __future__ import annotations

from typing import Any

import pytest

from cuassay.errors import CuassayError
from cuassay_guard.events import GuardViolationError, Violation


def _violation(**changes: Any) -> Violation:
    given: dict[str, Any] = {
        "kernel": "norm",
        "kind": "forward",
        "signature": "(8, 8)",
        "output": "y",
        "statistic": "bias",
        "measured": 2.0,
        "allowed": 1.0,
        "group": "rows",
        "judge": "oracle",
        "message": "output y is 2 times the allowed error off",
        "call": 7,
        "unix_s": 0.0,
    }
    return Violation(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({}, "numeric"),
        ({"measured": 100.0}, "numeric"),
        ({"measured": 100.1}, "gross"),
        ({"kind": "contract"}, "gross"),
        ({"kind": "raised"}, "gross"),
        ({"statistic": "class"}, "gross"),
        ({"kind": "drift", "measured": 99.0}, "numeric"),
    ],
)
def test_an_answer_of_another_kind_or_far_outside_is_gross(
    changes: dict[str, Any], severity: str
) -> None:
    assert _violation(**changes).severity == severity


def test_the_exception_says_the_message_and_has_the_violation() -> None:
    violation = _violation()
    error = GuardViolationError(violation)
    assert isinstance(error, CuassayError)
    assert (str(error), error.violation) == (violation.message, violation)
