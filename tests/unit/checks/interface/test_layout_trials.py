"""Which layouts are tried of which inputs, and that a plain call begins and ends it."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.checks.interface.layout_calls import layout_words, tried_calls
from cuassay.checks.interface.layout_trials import (
    AGAIN,
    PLAIN,
    by_telling,
    equal_slices,
    expandable_axes,
    fitting,
    is_gradient,
    layout_scenarios,
    packable,
    shared_scenarios,
)
from cuassay.model.case import Case
from cuassay.model.domain import Domain, Index, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.model.profile import Profile
from cuassay.model.scenario import Call
from cuassay.model.steps import Layout
from tests.support.fake_trial import scaled_add, tensor

_CASE = Case(label="c", axes={"rows": 4, "cols": 8})


@pytest.mark.parametrize("name", ["grad_output", "dout", "dy", "d_loss", "x_grad", "y_bar"])
def test_upstream_gradients_are_known_by_their_names(name: str) -> None:
    assert is_gradient(tensor(name, "rows"))
    assert not is_gradient(tensor("data", "rows"))


def test_layouts_are_those_that_a_shape_can_have() -> None:
    def layouts(*shape: str) -> list[Layout]:
        return fitting(tensor("x", *shape), _CASE)

    assert layouts("rows") == [Layout.STEPPED, Layout.OFFSET]
    assert Layout.CHANNELS_LAST not in layouts("rows", "cols")
    assert Layout.CHANNELS_LAST in layouts("2", "3", "rows", "cols")


@pytest.mark.parametrize(
    ("domain", "dtype", "shape", "name", "axes"),
    [
        (Real(), DType.FLOAT32, ("rows", "cols"), "x", ("rows", "cols")),
        (Real(), DType.FLOAT32, ("rows",), "x", ()),
        (Real(), DType.FLOAT32, ("rows",), "grad_output", ("rows",)),
        (Index(axis="cols"), DType.INT64, ("rows", "cols"), "i", ("rows",)),
        (Index(axis="cols", unique=True), DType.INT64, ("rows", "cols"), "i", ()),
        (Real(), DType.FLOAT32, ("3", "cols"), "x", ("cols",)),
    ],
)
def test_equal_slices_must_be_legal_and_along_an_axis_of_the_call(
    domain: Domain, dtype: DType, shape: tuple[str, ...], name: str, axes: tuple[str, ...]
) -> None:
    spec = TensorSpec(name=name, dtype=dtype, shape=shape, domain=domain)
    assert expandable_axes(spec, _CASE) == axes


def test_equal_slices_are_the_first_one_of_the_same_values() -> None:
    made = equal_slices(_CASE, tensor("x", "rows", "cols"), "rows")
    fill = made.fills["x"]
    assert fill.kind == "normal"
    assert fill.parameters == {"take": (0,), "take_axis": "rows", "take_of": 4}


def test_gradients_and_inputs_of_many_axes_come_first() -> None:
    made = scaled_add().problem
    grad = tensor("grad_y", "rows", "cols")
    made = dataclasses.replace(made, inputs=(*made.inputs, grad))
    assert [spec.name for spec in by_telling(made)] == ["grad_y", "x", "bias"]
    assert packable(made, _CASE) == [{"x": Layout.PACKED, "grad_y": Layout.PACKED}]


@pytest.mark.parametrize("profile", Profile)
def test_every_scenario_has_a_plain_call_at_both_ends(profile: Profile) -> None:
    trial = scaled_add()
    trial.profile = profile
    found = [*layout_scenarios(trial), *shared_scenarios(trial)]
    assert found
    for scenario in found:
        calls = [step.result for step in scenario.steps if isinstance(step, Call)]
        assert (calls[0], calls[-1]) == (PLAIN, AGAIN)
        tried = list(tried_calls(scenario))
        assert tried
        assert all(one.arranged <= one.call < one.read for one in tried)
    assert any(one.shared for scenario in found for one in tried_calls(scenario))


def test_layouts_in_words_name_their_inputs_together() -> None:
    layouts = {"q": Layout.PACKED, "k": Layout.PACKED, "x": Layout.TRANSPOSED}
    assert layout_words(layouts) == "q, k packed in a wider buffer and x transposed"
    assert all(layout_words({"x": one}) for one in Layout)
