"""Which layouts are tried of which inputs, and that a plain call begins and ends it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

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
    one_tensor_scenarios,
    packable,
    shared_scenarios,
    sizes_alike,
)
from cuassay.model.case import Case
from cuassay.model.domain import Domain, Index, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.model.profile import Profile
from cuassay.model.scenario import Call
from cuassay.model.steps import Layout
from tests.support.fake_trial import FakeTrial, axis, problem, scaled_add, tensor

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
    assert any(one.apart for scenario in found for one in tried_calls(scenario))


def test_layouts_in_words_name_their_inputs_together() -> None:
    layouts = {"q": Layout.PACKED, "k": Layout.PACKED, "x": Layout.TRANSPOSED}
    assert layout_words(layouts) == "q, k packed in a wider buffer and x transposed"
    assert all(layout_words({"x": one}) for one in Layout)


def products() -> FakeTrial:
    """Return the product of two matrices, of inputs that may have one shape or each other's."""
    made = problem(
        "product",
        axes=[axis("m"), axis("k"), axis("n")],
        inputs=[tensor("a", "m", "k"), tensor("b", "k", "n")],
        outputs=[tensor("y", "m", "n")],
        workloads=[{"m": 8, "k": 12, "n": 10}],
    )
    return FakeTrial(made, lambda a, b: a @ b)


def test_one_tensor_is_passed_as_both_inputs_and_seen_by_columns() -> None:
    trial = products()
    both, turned = one_tensor_scenarios(trial)
    for scenario, square in ((both, True), (turned, False)):
        (case,) = scenario.cases
        values = trial.inputs(case)
        a, b = values["a"], values["b"]
        assert isinstance(a, torch.Tensor)
        assert isinstance(b, torch.Tensor)
        assert torch.equal(b, a if square else a.mT)
        assert (a.shape[0] == a.shape[1]) is square
        (one,) = tried_calls(scenario)
        assert one.words == "one tensor as a and b"


def test_sizes_at_which_two_inputs_have_one_shape() -> None:
    made = products().problem
    a, b = made.inputs
    assert isinstance(a, TensorSpec)
    assert isinstance(b, TensorSpec)
    sizes = {"m": 8, "k": 12, "n": 10}
    square = sizes_alike(made, sizes, (a, b), turned=False)
    assert square is not None
    assert len(set(square.values())) == 1
    turned = sizes_alike(made, sizes, (a, b), turned=True)
    assert turned is not None
    assert turned["m"] == turned["n"] != turned["k"]
    wide = dataclasses.replace(b, shape=("2*k", "n"))
    assert sizes_alike(made, sizes, (a, wide), turned=False) is None


def test_inputs_of_other_domains_or_that_are_written_are_never_one_tensor() -> None:
    trial = products()
    made = trial.problem
    trial.problem = dataclasses.replace(made, updated=("a",))
    assert list(one_tensor_scenarios(trial)) == []
    b = dataclasses.replace(made.inputs[1], domain=Real(low=0.0))
    trial.problem = dataclasses.replace(made, inputs=(made.inputs[0], b))
    assert list(one_tensor_scenarios(trial)) == []
