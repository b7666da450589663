"""Learning replaces the domain in one place; plans follow from what they depend on."""

from __future__ import annotations

from pathlib import Path

from cuassay.contract.facts import Evidence, Known, Sorted, Source, StepOfSize
from cuassay.inputs.named_sizes import NamedSize, SizeUse
from cuassay.judge.domain import (
    Domain,
    KnownCases,
    Learnt,
    Named,
    OwnCasesAlone,
    Quieter,
    RefusedWithData,
    StateFrom,
    Varied,
    replan,
)
from cuassay.model.case import Case, Fill
from cuassay.model.problem import StateSource
from tests.support.fake_trial import scaled_add
from tests.unit.contract.problems import rotary, trial_of

DOMAIN = Domain(problem=scaled_add().problem)


def _known(fact: StepOfSize | Sorted, source: Source) -> Known:
    return Known(fact=fact, evidence=Evidence(source=source, count=1))


def test_what_runs_without_data_showed_of_sizes_is_given_up_alone() -> None:
    step = StepOfSize(axis="rows", multiple_of=2, minimum=2)
    by_trials, by_hand = _known(step, Source.TRIALS), _known(step, Source.INPUTS)
    other = _known(Sorted(input="ids"), Source.TRIALS)
    learnt = replan(DOMAIN, Learnt(problem=DOMAIN.problem, facts=(by_trials, by_hand, other)))
    assert replan(learnt, RefusedWithData()).facts == (by_hand, other)


def test_named_sizes_add_up_and_are_named_once() -> None:
    first, second = (NamedSize(value=n, kind=SizeUse.BOUND) for n in (8, 9))
    once = replan(DOMAIN, Named(sizes=(first,)))
    assert replan(once, Named(sizes=(second, first))).named == (first, second)


def test_a_reason_to_judge_own_cases_keeps_the_condition_that_was_known() -> None:
    refused = replan(DOMAIN, OwnCasesAlone(condition="sizes: listed alone"))
    again = replan(refused, OwnCasesAlone())
    assert again.own_alone
    assert again.listed_condition == "sizes: listed alone"


def test_cases_of_earlier_trials_follow_where_a_module_takes_its_state_from() -> None:
    case = Case(label="kept", axes={"rows": 2, "cols": 2}, seed=3, scalars={"gain": 2.0})
    known = replan(DOMAIN, KnownCases(cases=(case,)))
    (moved,) = replan(known, StateFrom(source=StateSource.INITIAL)).known
    assert moved.scalars["gain"] == 2.0
    assert set(moved.scalars) >= set(DOMAIN.problem.usual_state)


def test_a_plan_is_kept_until_something_that_it_follows_from_is_replaced(tmp_path: Path) -> None:
    trial = trial_of(rotary(tmp_path))
    small, shapes, numeric = (trial.cases(what) for what in ("small", "shapes", "numeric"))
    facts = trial.cases("facts")
    trial.planned.name_sizes([NamedSize(value=77, kind=SizeUse.BOUND)])
    assert trial.cases("small") is small
    assert trial.cases("numeric") is numeric
    assert trial.cases("shapes") is not shapes
    trial.planned.learning.replan(Quieter(case=small[0]))
    assert trial.cases("numeric") == (*numeric, small[0])
    trial.planned.learning.replan(Varied(fills={"x": Fill(kind="normal")}))
    assert trial.cases("small") is not small
    assert trial.cases("facts") is facts  # what is varied was found among them
    trial.planned.learning.replan(OwnCasesAlone())
    assert all(case.benchmark for case in trial.cases("small"))
