"""Axis expressions and resolution."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuassay.errors import ProblemError
from cuassay.model.axes import evaluate, resolve, shape_of
from cuassay.model.problem import Axis, ConstAxis, ExprAxis, VarAxis

_AXES: tuple[Axis, ...] = (
    ConstAxis(name="heads", value=8),
    VarAxis(name="tokens"),
    ExprAxis(name="half", expression="tokens // 2"),
    ExprAxis(name="flat", expression="half * heads + 1"),
)


def test_expressions_follow_in_order() -> None:
    sizes = resolve(_AXES, {"tokens": 10})
    assert sizes == {"heads": 8, "tokens": 10, "half": 5, "flat": 41}
    assert list(sizes) == ["heads", "tokens", "half", "flat"]


def test_a_workload_may_override_a_constant() -> None:
    assert resolve(_AXES, {"tokens": 2, "heads": 4})["flat"] == 5


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({}, "'tokens' has no size"),
        ({"tokens": 4, "token": 1}, "'token' is not declared"),
        ({"tokens": -4}, "has size -4"),
    ],
)
def test_bad_bindings_name_the_axis(bound: dict[str, int], words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        resolve(_AXES, bound)


@pytest.mark.parametrize(
    "expression",
    [
        "n.real",
        "f(n)",
        "n if 1 else 2",
        "n / 3",
        "1 / 0",
        "2 ** n ** n",
        "m",
        "",
        "'n'",
        "9**64",
        "1e308 * 10",
        "1e999 - 1e999",
        "(0 - 8) ** 0.5",
        "(((9**64)**64)**64)**64",
        "+".join("n" * 5000),
    ],
)
def test_only_integer_arithmetic_is_allowed(expression: str) -> None:
    with pytest.raises(ProblemError, match="axis expression"):
        evaluate(expression, {"n": 100})


@given(st.integers(0, 10**6), st.integers(1, 10**3))
def test_arithmetic_is_pythons(a: int, b: int) -> None:
    names = {"a": a, "b": b}
    assert evaluate("(a + b) * 2 - -a // b % 7", names) == (a + b) * 2 - -a // b % 7
    assert evaluate("a * b / b", names) == a


def test_shapes_mix_names_and_literals() -> None:
    assert shape_of(("heads", "1", "heads + 2"), {"heads": 8}) == (8, 1, 10)
