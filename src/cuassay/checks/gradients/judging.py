"""What each backward pass of a run did wrong, if anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.base import Run, Trial, done
from cuassay.checks.endings.findings import exception_text, memory_fault, signal_name
from cuassay.checks.gradients.cases import GradientCall
from cuassay.checks.judgement import Answers, is_wrong
from cuassay.checks.numeric.common import worst_statistic
from cuassay.checks.one_call import copies_explain
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.reports import Differentiated
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Use
from cuassay.model.trace import Claim, Exited, Killed, ResultItem, StepRaised

if TYPE_CHECKING:
    import torch

    from cuassay.oracle.compare.outputs import Comparison
    from cuassay.oracle.truth.make import OutputTruth, Truth

_CLEAR = 2.0  # of the budget that a derivative of the candidate's own must use to be wrong
_CLEAR_OF_TORCH = 8.0  # and one that torch derives from operations in low precision
_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """What one backward pass did wrong."""

    tried: GradientCall
    what: str
    output: str = ""
    comparison: Comparison | None = None
    evidence: str = ""
    silent: bool = False  # wrong numbers, rather than none or an exception
    forward: bool = False  # the outputs are wrong, not the gradients
    missing: bool = False  # there is no gradient where there should be one


@dataclass(frozen=True, slots=True, kw_only=True)
class BackwardJudge:
    """Judges the backward passes of one run."""

    trial: Trial
    scenario: Scenario
    run: Run
    outputs: Sequence[str]
    own: bool

    def bad(self, tried: GradientCall) -> Iterator[Bad]:
        """Yield what one backward pass did wrong; nothing where it was passed over."""
        if tried.step.use is Use.FORWARD:
            return
        fault = ended(tried, self.run)
        if fault is not None:
            yield fault
            return
        report = report_of(tried, self.run)
        read = done(self.run, tried.reads[0])
        if report is None or report.passed_over or read is None:
            return
        items = read.items if report.carries else ()
        truth = self._truth(tried)
        by_name = {item.name: item for item in items}
        for output in truth.outputs:
            name = output.name.removeprefix("grad_")
            if name not in tried.step.wanted or output.ill_conditioned:
                continue
            if not bool(output.value.isfinite().all()):
                continue
            item = by_name.get(output.name)
            if item is None or item.kind == "none":
                if bool((output.value != 0).any()):
                    what = f"{name} gets no gradient"
                    yield Bad(tried=tried, what=what, output=output.name, missing=True)
                continue
            found = self._least(tried, item, output)
            if found is not None and self._fails(found, output.value):
                what = f"{output.name} is wrong"
                yield Bad(tried=tried, what=what, output=output.name, comparison=found, silent=True)
        # What a derivative of the candidate's own wrote to; torch keeps count itself
        names = report.written if self.own else ()
        inputs = {spec.name for spec in self.trial.problem.inputs}
        for name in names[:_LISTED]:
            what = f"{name[:100]} is overwritten by the call or its backward pass"
            yield Bad(tried=tried, what=what, output=f"{name[:100]}", silent=name in inputs)

    def _fails(self, found: Comparison, truth: torch.Tensor) -> bool:
        if found.passed or found.undecided:
            return False
        statistic = worst_statistic(found)
        if found.mismatch or (
            statistic is not None and statistic.name in ("class", "exact", "codes")
        ):
            return True
        clear = _CLEAR if self.own else _CLEAR_OF_TORCH
        return found.share > clear and not copies_explain(truth, found)

    def _least(
        self, tried: GradientCall, item: ResultItem, output: OutputTruth
    ) -> Comparison | None:
        """Return a gradient's comparison in the least family that the policy accepts."""
        from cuassay.oracle.grade import least_family

        found = _compared(self.run, item, output)
        if found is None:
            return None

        def measured(family: Precision) -> Comparison:
            outputs = self._truth(tried, family).outputs
            wide = next(other for other in outputs if other.name == output.name)
            return _compared(self.run, item, wide) or found

        return least_family(found, measured, policy_of(self.trial.problem).families)

    def _truth(self, tried: GradientCall, precision: Precision = Precision.STRICT) -> Truth:
        step = tried.step
        return self.trial.gradients(
            self.scenario.cases[0],
            self.outputs,
            upstream=step.upstream,
            seed=step.seed,
            precision=precision,
        )


def report_of(tried: GradientCall, run: Run) -> Differentiated | None:
    """Return what the worker says of a backward pass, if it came to its end."""
    record = done(run, tried.index)
    report = record.report if record else None
    return report if isinstance(report, Differentiated) else None


def ended(tried: GradientCall, run: Run, *, first: bool = False) -> Bad | None:
    """Return how a backward pass failed to end, None where it ended or was never reached.

    Raises NothingToCheckError where the first call refuses inputs that require gradients.
    """
    record = tried.record(run)
    if isinstance(record, StepRaised):
        own = record.claim is Claim.BACKWARD
        if first and not own and record.claim is not Claim.LAUNCH and not memory_fault(record):
            raise NothingToCheckError(f"not differentiable: {exception_text(record)}")
        text = "the backward pass" if own else "the call"
        text = f"{text} raises {exception_text(record).removeprefix('BackwardError: ')}"
        return Bad(tried=tried, what=text, evidence=record.traceback or record.message)
    if record is not None:
        return None
    end = run.result.termination
    here = getattr(end, "index", -1) == tried.index
    printed = run.result.output_text
    match end:
        case Killed(signal=number) if here:
            what = f"the process dies of {signal_name(number)}"
            return Bad(tried=tried, what=what, evidence=printed)
        case Exited(exit_code=code) if here:
            what = f"the process ends with exit code {code}"
            return Bad(tried=tried, what=what, evidence=printed)
    if first:
        raise CannotJudgeError("the differentiated call did not end")
    return None


def forward_fault(
    answers: Answers,
    scenario: Scenario,
    run: Run,
    plain: GradientCall,
    variants: Sequence[GradientCall],
    *,
    own: bool,
) -> Bad | None:
    """Return the finding of a forward call that is wrong only where gradients are required.

    Raises CannotJudgeError where the plain call is wrong already.
    """
    case = scenario.cases[0]
    alone = next((t for t in variants if t.step.use is Use.FORWARD), None)
    reads = [done(run, t.reads[1]) for t in (alone, plain) if t is not None and t.reads[1] >= 0]
    failed: list[list[Comparison]] = []
    for read in reads:
        if read and read.items:
            compared = answers.compare(case, read.items)
            failed.append([found for found in compared if is_wrong(found)])
    if not failed or (own and failed[0]) or (not own and failed[-1]):
        raise CannotJudgeError("the plain call is wrong already")
    clear = [found for found in failed[-1] if found.mismatch or found.share > _CLEAR]
    if not own or not clear:
        return None
    worst = clear[0]
    what = f"{worst.output} is wrong as soon as an input requires a gradient, and right without"
    return Bad(tried=plain, what=what, output=worst.output, comparison=worst, forward=True)


def _compared(run: Run, item: ResultItem, truth: OutputTruth) -> Comparison | None:
    """Return a gradient's comparison with truth; None where it was not sent."""
    from cuassay.oracle.compare.outputs import compare

    try:
        return compare(run.tensor(item), truth)
    except KeyError:
        return None
