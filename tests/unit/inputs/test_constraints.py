"""Constraints on sizes: comparisons are judged, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from cuassay.inputs.constraints import constraint_holds

_SIZES = {"hidden": 64, "heads": 8, "n": 3}


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("hidden % 8 == 0", True),
        ("hidden % heads == 1", False),
        ("1 <= n < heads <= hidden", True),
        ("1 <= n < heads < 8", False),
        ("n > 4 or hidden == 64", True),
        ("not (n > 4) and heads != 8", False),
        (" n == 3 ", True),
        ("hidden // heads == 8", True),
        ("other == 3", None),  # no axis of the problem
        ("x.shape[0] == 3", None),
        ("n in (1, 2)", None),
        ("n is 3", None),
        ("the rows are sorted", None),
        ("hidden", None),
        ("", None),
        ("n ==", None),
        ("__import__('os')", None),
        ("n % 0 == 1", None),
    ],
)
def test_what_a_constraint_says_of_sizes(constraint: str, expected: bool | None) -> None:
    assert constraint_holds(constraint, _SIZES) is expected
