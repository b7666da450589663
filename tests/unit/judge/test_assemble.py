"""Conditions of a plan: checks that ran out of time, and outputs that nothing decides."""

from __future__ import annotations

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.judge.assemble import plan_conditions
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile


def _trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )


def test_a_plan_in_which_all_ran_has_no_condition() -> None:
    assert plan_conditions(_trial()) == ()


def test_checks_that_were_cut_short_are_one_condition_that_names_them_and_the_time() -> None:
    trial = _trial()
    (found,) = plan_conditions(trial, cut_short=("FUZZ001", "META001"))
    assert found.startswith("time: FUZZ001, META001 did not run all scenarios")
    assert f"{trial.memory.room.check_s:g} s at quick" in found


def test_each_output_that_nothing_decides_is_a_condition_with_its_reason() -> None:
    found = plan_conditions(_trial(), never_judged={"y": "trusted runs differ", "z": "codes flip"})
    assert [text.partition(":")[0] for text in found] == ["ill-conditioned"] * 2
    assert "output 'y'" in found[0]
    assert found[1].endswith("everywhere codes flip")
