"""Problems: which axes are open, where a module's state comes from, and sizes it is built for."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.model.domain import Choice, Real
from cuassay.model.dtype import DType
from cuassay.model.problem import (
    LISTED,
    STATE_SOURCE,
    Problem,
    ScalarSpec,
    StateSource,
    TensorSpec,
    VarAxis,
    Workload,
)
from tests.support import fake_trial
from tests.support.fake_trial import axis, tensor


def _module(default: StateSource | None = StateSource.GIVEN) -> Problem:
    source = ScalarSpec(
        name=STATE_SOURCE,
        dtype=DType.INT64,
        domain=Choice(values=tuple(int(one) for one in StateSource)),
        default=default,
    )
    made = fake_trial.problem(
        "module",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols"), tensor("weight", "cols"), source],
        outputs=[tensor("y", "rows")],
        workloads=[{"rows": 4, "cols": 64}, {"rows": 8, "cols": 32}, {"rows": 8, "cols": 64}],
    )
    return dataclasses.replace(made, state=("weight",), built=("cols", "rows"))


@pytest.mark.parametrize(
    ("made", "is_open"),
    [
        (VarAxis(name="n"), True),
        (VarAxis(name="n", maximum=512, bounds_source=LISTED), True),
        (VarAxis(name="n", maximum=512), False),
        (VarAxis(name="n", declared=True), False),
    ],
)
def test_experiments_look_for_sizes_where_nobody_stated_them(made: VarAxis, is_open: bool) -> None:
    assert made.is_open is is_open


def test_an_input_is_had_by_name() -> None:
    module = _module()
    assert module.input("weight") is module.inputs[1]
    with pytest.raises(KeyError, match="bias"):
        module.input("bias")


def test_a_state_is_the_constructors_where_calls_take_it_as_it_was_built() -> None:
    assert _module(None).usual_state == {}
    assert fake_trial.row_sum().problem.usual_state == {}
    assert _module().usual_state == {STATE_SOURCE: StateSource.GIVEN}
    for source in StateSource:
        initial = source in (StateSource.INITIAL, StateSource.INITIAL_EVALUATION)
        assert _module(source).built_state == (("weight",) if initial else ()), source


def test_a_state_that_is_always_the_constructors_is_not_for_a_case_to_change() -> None:
    built = _module().with_state_from(StateSource.INITIAL)
    x, weight, source = built.inputs
    assert isinstance(x, TensorSpec)
    assert isinstance(weight, TensorSpec)
    assert isinstance(source, ScalarSpec)
    assert (x.domain_source, weight.domain_source) == ("default", "declared")
    assert (source.default, source.domain) == (1, Choice(values=(1,)))
    assert built.built_state == ("weight",)
    loaded = _module().with_state_from(StateSource.GIVEN_EVALUATION)
    assert loaded.inputs[1] == _module().inputs[1]


def test_a_module_that_is_built_once_has_the_listed_sizes_alone() -> None:
    module = _module()
    one = module.as_built(("cols",))
    assert {axis.name: axis.sizes for axis in one.var_axes()} == {"rows": (), "cols": (32, 64)}
    assert one.built == ("rows",)
    both = module.as_built()
    assert [axis.sizes for axis in both.var_axes()] == [(4, 8), (32, 64)]
    assert both.built == ()


def test_a_recorded_call_is_known_by_its_id() -> None:
    assert Workload(id="recorded/calls/0", axes={}).recorded
    assert not Workload(id="0", axes={}).recorded


def test_the_low_type_is_the_16_bit_type_of_outputs_and_inputs() -> None:
    made = fake_trial.row_sum().problem
    half = TensorSpec(name="y", dtype=DType.FLOAT16, shape=("rows",), domain=Real())
    assert dataclasses.replace(made, outputs=(half,)).low_type is DType.FLOAT16
