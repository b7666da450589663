"""The last step of shrinking: few and simple elements, and only those that still fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
import torch

from cuassay.inputs.elements import minimal_subset, peak, simplest_elements
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Index, Positive
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, TensorSpec
from tests.support.fake_trial import tensor


@pytest.mark.parametrize("culprits", [{3}, {0, 7}, {2, 3, 11}, set(range(12))])
def test_what_is_left_fails_and_no_single_item_of_it_can_go(culprits: set[int]) -> None:
    def fails(some: Sequence[int]) -> bool:
        return culprits <= set(some)

    assert set(minimal_subset(range(12), fails)) == culprits


def test_a_failure_of_nothing_needs_no_item() -> None:
    assert minimal_subset(range(5), lambda some: True) == ()


def _shrunk(
    values: Sequence[float], fails: Mapping[int, object] | None = None, *,
    spec: TensorSpec | None = None, kind: str = "normal",
) -> tuple[Case, list[tuple[float, ...]]]:  # fmt: skip
    """Shrink a tensor that fails where each element of `fails` passes its test."""
    spec = spec or tensor("x", "n")
    case = Case(label="c", axes={"n": len(values)}, fills={"x": Fill(kind=kind)})
    asked: list[tuple[float, ...]] = []

    def of(changed: Case) -> tuple[float, ...]:
        fill = changed.fills["x"]
        match fill.kind:
            case "zeros":
                return (0.0,) * len(values)
            case "ones":
                return (1.0,) * len(values)
        given = fill.parameters["values"]
        assert isinstance(given, tuple)
        return tuple(map(float, given))

    def accept(changed: Case) -> bool:
        asked.append(of(changed))
        tests = fails or {}
        return all(test(asked[-1][index]) for index, test in tests.items())  # type: ignore[operator]

    def inputs(_: Case) -> dict[str, torch.Tensor | Scalar]:
        return {"x": torch.tensor(values, dtype=torch.float64)}

    return simplest_elements(case, spec, accept=accept, inputs=inputs), asked


def test_one_element_is_left_and_is_the_least_integer_that_fails() -> None:
    shrunk, _ = _shrunk([0.3, 77.7, -2.0, 5.0], {1: lambda value: value > 40})
    assert shrunk.fills["x"] == Fill(kind="explicit", parameters={"values": (0.0, 41.0, 0.0, 0.0)})


def test_a_value_that_is_no_integer_keeps_few_digits() -> None:
    shrunk, _ = _shrunk([0.123456], {0: lambda value: 0.11 < value < 0.13})
    assert shrunk.fills["x"].parameters["values"] == (0.12,)


def test_a_negative_element_stays_negative_where_it_must() -> None:
    shrunk, _ = _shrunk([-6.5, 1.0], {0: lambda value: value <= -3})
    assert shrunk.fills["x"].parameters["values"] == (-3.0, 0.0)


def test_all_ones_and_all_zeros_have_a_fill_of_their_own() -> None:
    assert _shrunk([4.0, 2.0], {0: bool, 1: bool})[0].fills["x"] == Fill(kind="ones")
    assert _shrunk([4.0, 2.0])[0].fills["x"] == Fill(kind="zeros")


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (tensor("x", "n"), "zeros"),
        (TensorSpec(name="x", dtype=DType.FLOAT32, shape=("n",), domain=Positive()), "normal"),
        (
            TensorSpec(
                name="x", dtype=DType.INT64, shape=("n",), domain=Index(axis="n", unique=True)
            ),
            "uniform",
        ),
    ],
)
def test_what_is_plain_or_may_not_be_chosen_stays(spec: TensorSpec, kind: str) -> None:
    shrunk, asked = _shrunk([3.0, 2.0], spec=spec, kind=kind)
    assert shrunk.fills["x"].kind == kind
    assert asked == []


def test_many_elements_and_infinite_ones_stay() -> None:
    for values in ([1.0] * 129, [1.0, math.inf]):
        shrunk, asked = _shrunk(values)
        assert (shrunk.fills["x"].kind, asked) == ("normal", [])


def test_a_peak_is_the_finite_element_of_the_largest_magnitude() -> None:
    assert peak(torch.tensor([1.0, -7.0, 3.0])) == -7.0
    assert peak(torch.tensor([1.0, -math.inf])) == 0.0
    assert peak(torch.empty(0)) == peak(3) == 0.0
