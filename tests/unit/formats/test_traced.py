"""Numbers that remember how code computed them: sums, quotients, limits, and what ends them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cuassay.formats.traced import Traced, traced_limits, untraced
from cuassay.model.axes import evaluate


def _traced(value: int, name: str = "a") -> tuple[Any, dict[str, int]]:
    seen: dict[str, int] = {}
    return Traced.of(value, name, seen), seen


@pytest.mark.parametrize(
    ("compute", "value"),
    [
        (lambda a: 2 * a + 1, 27),
        (lambda a: 100 - a, 87),
        (lambda a: (a + 15) // 16, 1),
        (lambda a: 100 // a, 7),
        (lambda a: a % 5, 3),
        (lambda a: 30 % a, 4),
        (lambda a: -(-a // 4), 4),
        (lambda a: math.ceil(a / 4), 4),
        (lambda a: a - (-3), 16),
    ],
)
def test_an_expression_gives_the_value_that_the_code_computed(compute: Any, value: int) -> None:
    a, seen = _traced(13)
    found = compute(a)
    assert found == value
    assert isinstance(found, Traced)
    assert evaluate(found.text, {"a": 13}) == value
    assert seen[found.text] == value


def test_numbers_that_are_no_sizes_any_more_are_plain() -> None:
    a, _ = _traced(13)
    for found in (a * 0.5, a / 4, a**2, float(a), int(a), a == 13, a & 3):
        assert not isinstance(found, Traced)
    assert repr(a) == "13"
    assert f"{a}" == "13"


def test_limits_of_a_module_keep_expressions_meanwhile() -> None:
    a, _ = _traced(13)
    names: dict[str, Any] = {}
    with traced_limits(names):
        assert names["max"](a, 64).text == "max(a, 64)"
        assert names["min"](2 * a, 64).text == "min((2 * a), 64)"
        assert names["max"]([3, 5]) == 5
        assert names["max"](a, 20, key=lambda one: -one) == 13
        assert names["max"](a, 0.5) == 13
        assert not isinstance(names["max"](3, 5), Traced)
    assert names == {}
    own = {"max": len}
    with traced_limits(own):
        assert own["max"] is len


def test_a_long_expression_becomes_a_plain_number() -> None:
    a, seen = _traced(1)
    total: Any = a
    while isinstance(total, Traced):
        before, total = total, total + a
    assert total == before + 1
    assert len(before.text) <= 200
    assert all(len(text) <= 200 for text in seen)


def test_numbers_that_leave_a_generator_are_plain() -> None:
    number, _ = _traced(12, "N")
    plain = untraced([number, number / 5, {"n": (number, 1)}, "text", None])
    assert plain == [12, 2.4, {"n": (12, 1)}, "text", None]
    assert type(plain[0]) is int
    assert type(plain[1]) is float
    assert type(plain[2]["n"][0]) is int
