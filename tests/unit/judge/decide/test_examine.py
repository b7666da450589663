"""What an examination makes of outputs that a case cannot decide: set aside, said, never passed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from cuassay.checks.base import Trial
from cuassay.checks.gradients.backward import Grad001
from cuassay.checks.memory.unwritten_outputs import Mem001
from cuassay.checks.numeric.values import Num001
from cuassay.checks.state.apart import Apart001
from cuassay.errors import MissingToolError
from cuassay.judge.assemble import plan_conditions
from cuassay.judge.decide.tally import Tally
from cuassay.judge.run.budget import BudgetSpentError
from cuassay.model.case import Case, Fill
from cuassay.model.dtype import DType
from cuassay.model.outcome import CheckReport, Failed, Inconclusive, Passed, Skipped
from cuassay.model.scenario import Scenario
from cuassay.oracle.compare.outputs import Comparison
from tests.support.fake_trial import FakeTrial, Function, axis, problem, tensor
from tests.support.judging import Bench, bench


def route(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's two largest weights, normalised, and their places."""
    weights, chosen = torch.topk(torch.softmax(logits, -1), 2, -1)
    return weights / weights.sum(-1, keepdim=True), chosen


def distorted(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights that are wrong, and right places."""
    weights, chosen = route(logits)
    return weights * 1.01, chosen


def router() -> FakeTrial:
    made = problem(
        "router",
        axes=[axis("rows"), axis("experts", minimum=2)],
        inputs=[tensor("logits", "rows", "experts")],
        outputs=[tensor("weights", "rows", "2"), tensor("places", "rows", "2", dtype=DType.INT64)],
        workloads=[{"rows": 32, "experts": 8}],
    )
    return FakeTrial(made, route)


def reported(call: Function, *fills: Fill) -> CheckReport:
    """Return what the numeric check reports of `call` on one case a fill."""
    judged: Bench = bench(router(), call)
    plain = judged.trial.cases("numeric")[0]
    cases: tuple[Case, ...] = tuple(
        dataclasses.replace(plain, label=fill.kind, fills={"logits": fill}) for fill in fills
    )
    judged.trial.planned.preset("numeric", cases)
    judged.trial.planned.preset("ends", ())
    judged.trial.planned.preset("small", ())
    return judged.examine(Num001())[0]


TIES, PLAIN = Fill(kind="small_integers"), Fill(kind="normal")


def test_a_wrong_output_is_found_beside_one_that_cannot_be_judged() -> None:
    outcome = reported(distorted, TIES).outcome
    assert isinstance(outcome, Failed)
    assert {finding.where.output for finding in outcome.findings} == {"weights"}


def test_answers_as_near_as_the_references_need_no_truth_to_know_that_a_case_decides() -> None:
    def doubled(x: Tensor) -> Tensor:
        return x.float().mul(2.0).exp()

    def trial() -> FakeTrial:
        made = problem(
            "doubled",
            axes=[axis("n")],
            inputs=[tensor("x", "n")],
            outputs=[tensor("y", "n")],
            workloads=[{"n": 40}],
        )
        return FakeTrial(made, doubled)

    right, wrong = bench(trial(), doubled), bench(trial(), lambda x: doubled(x) * 1.01)
    for judged, truths in ((right, 0), (wrong, 1)):
        judged.examine(Mem001())
        assert min(len(judged.trial.truths.cache), 1) == truths


class _Interrupted(Num001):
    """Numbers of some cases, and then no time to plan the next."""

    most = 0

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield `most` scenarios before the time is over."""
        yield from itertools.islice(super().propose(trial), self.most)
        raise BudgetSpentError("not run: the 60 s of this trial are over")


@pytest.mark.parametrize("most", [0, 2])
def test_what_ran_before_the_time_ended_in_planning_counts(most: int) -> None:
    check = _Interrupted()
    check.most = most
    judged = bench(router(), route)
    (examined,) = judged.examined(check)
    outcome = examined.report.outcome
    assert examined.report.scenarios == most
    if not most:
        assert isinstance(outcome, Inconclusive)
        return
    assert isinstance(outcome, Passed)
    assert "no time for the others" in outcome.summary
    assert examined.cut_short


def test_an_output_that_some_case_judged_is_passed_with_the_reason() -> None:
    outcome = reported(route, PLAIN, TIES).outcome
    assert isinstance(outcome, Passed)
    assert "output 'places' was set aside in some" in outcome.summary
    assert "flips under honest rounding errors" in outcome.summary


def test_an_output_that_no_case_judged_is_never_passed() -> None:
    outcome = reported(route, TIES).outcome
    assert isinstance(outcome, Inconclusive)
    assert "set aside in every case" in outcome.reason


def test_rounding_alone_beside_what_is_judged_passes_under_a_condition() -> None:
    judged = _on_plain_numbers(_bias_trial(), lambda x: (_bias(x)[0], 8.0 * _bias(x)[1]))
    (examined,) = judged.examined(Num001())
    outcome = examined.report.outcome
    assert isinstance(outcome, Passed)
    assert "output 'bias' was set aside in every case" in outcome.summary
    (condition,) = plan_conditions(judged.trial, never_judged=examined.never_judged)
    assert condition.startswith("ill-conditioned: output 'bias' was judged for gross errors alone")

    one_output = _on_plain_numbers(_bias_trial(outputs=1), lambda x: 8.0 * _bias(x)[1])
    (alone,) = one_output.examine(Num001())
    assert isinstance(alone.outcome, Inconclusive)


def test_an_error_beyond_reason_is_wrong_where_all_is_rounding() -> None:
    (report,) = bench(_bias_trial(), lambda x: (_bias(x)[0], x.sum(0))).examine(Num001())
    assert isinstance(report.outcome, Failed)
    assert {finding.where.output for finding in report.outcome.findings} == {"bias"}


def _on_plain_numbers(trial: FakeTrial, call: Function) -> Bench:
    judged = bench(trial, call)
    plain = dataclasses.replace(judged.trial.cases("numeric")[0], fills={"x": PLAIN})
    judged.trial.planned.preset("numeric", (plain,))
    judged.trial.planned.preset("ends", ())
    return judged


def _bias(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a third of rows less their mean, and its sums: zero but for rounding."""
    centered = (x - x.mean(-1, keepdim=True)) / 3
    return centered, centered.sum(-1)


def _bias_trial(*, outputs: int = 2) -> FakeTrial:
    given = [tensor("centered", "rows", "columns"), tensor("bias", "rows")]
    made = problem(
        "center",
        axes=[axis("rows"), axis("columns", minimum=2)],
        inputs=[tensor("x", "rows", "columns")],
        outputs=given[-outputs:],
        workloads=[{"rows": 32, "columns": 32}],
    )
    return FakeTrial(made, _bias if outputs == 2 else lambda x: _bias(x)[1])


def test_several_cases_together_say_so_without_deciding() -> None:
    tally = Tally(clean=1)
    aside = Comparison(output="y", passed=True, share=0.0, undecided="too noisy")
    tally.weigh([aside], cases=32)
    outcome = tally.outcome()
    assert isinstance(outcome, Passed)
    assert "too noisy" in outcome.summary


def test_a_check_that_a_run_shows_not_to_apply_is_skipped_and_lacks_nothing() -> None:
    def constant(logits: Tensor) -> tuple[Tensor, Tensor]:
        weights, places = route(logits.detach())
        return weights.detach(), places

    (report,) = bench(router(), constant).examine(Grad001())
    assert report.outcome == Skipped(reason="no output carries a gradient", applicable=False)
    assert Tally(inapplicable="nothing", undecided=["something"]).outcome() == Inconclusive(
        reason="something"
    )


def test_a_process_apart_is_no_evidence_where_no_other_check_could_run_the_kernel() -> None:
    def needs_a_gpu(logits: Tensor) -> tuple[Tensor, Tensor]:
        raise MissingToolError("the candidate needs an NVIDIA GPU")

    numbers, apart = bench(router(), needs_a_gpu).examine(Num001(), Apart001())
    assert isinstance(numbers.outcome, Inconclusive)
    assert isinstance(apart.outcome, Skipped)
    assert apart.outcome.reason == "no other check could run the kernel"
    numbers, apart = bench(router(), route).examine(Num001(), Apart001())
    assert isinstance(numbers.outcome, Passed)
    assert not isinstance(apart.outcome, Skipped)
