"""What checks of production conditions share: the same scalars under other values."""

from __future__ import annotations

import dataclasses

from cuassay.checks.plain_first import measured, on_cpu, other_values, with_scalars
from cuassay.model.case import Case
from cuassay.model.device import CUDA
from cuassay.oracle.compare.groups import Statistic
from cuassay.oracle.compare.outputs import Comparison
from tests.support.fake_trial import scaled_add


def test_scalars_are_written_out_so_that_other_seeds_keep_them() -> None:
    trial = scaled_add()
    case = dataclasses.replace(trial.cases("small")[0], scalars={})
    whole = with_scalars(trial, case)
    assert whole.scalars == {"gain": trial.inputs(case)["gain"]}
    assert with_scalars(trial, dataclasses.replace(case, scalars={"gain": 3.0})).scalars == {
        "gain": 3.0
    }


def test_other_values_are_other_seeds_for_each_purpose() -> None:
    trial = scaled_add()
    case = trial.cases("small")[0]
    found = other_values(trial, case, 3, purpose="A")
    assert len({one.seed for one in (case, *found)}) == 4
    assert other_values(trial, case, 1, purpose="B")[0].seed != found[0].seed
    assert {tuple(one.axes.items()) for one in found} == {tuple(case.axes.items())}


def test_a_failed_comparison_says_what_was_measured_where() -> None:
    case = Case(label="c", axes={"rows": 2})
    statistic = Statistic(name="W", value=9.0, limit=6.0, group="whole tensor")
    found = measured(
        Comparison(output="y", passed=False, share=1.5, statistics=(statistic,), worst_index=(1,)),
        case,
    )
    assert (found["measured"], found["allowed"], found["where"].index) == (9.0, 6.0, (1,))
    shape = measured(Comparison(output="y", passed=False, share=1.0, mismatch="shape"), case)
    assert (shape["measured"], shape["where"].axes) == (None, {"rows": 2})


def test_a_trial_on_a_cpu_has_no_streams() -> None:
    trial = scaled_add()
    assert on_cpu(trial)
    trial.device = CUDA
    assert not on_cpu(trial)
