"""A reader is told two numbers with as many digits as tell them apart."""

from __future__ import annotations

import pytest

from cuassay.model.told import told_apart


@pytest.mark.parametrize(
    ("got", "expected", "told"),
    [
        ("0.029998779296875", "0.030000000000000027", ("0.0299988", "0.03")),
        ("1.00000001", "1.0", ("1.00000001", "1")),
        ("nan", "0.25", ("nan", "0.25")),
        ("-0.0", "0.0", ("-0", "0")),
        ("2.5", "2.5", ("2.5", "2.5")),
        ("True", "False", ("True", "False")),
        ("9007199254740993", "9007199254740992", ("9007199254740993", "9007199254740992")),
    ],
)
def test_no_more_digits_than_tell_them_apart(
    got: str, expected: str, told: tuple[str, str]
) -> None:
    assert told_apart(got, expected) == told
