"""LAYOUT001: inputs in every memory layout, outputs in the memory of inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.endings.findings import (
    exception_text,
    memory_fault,
    signal_name,
    termination_finding,
)
from cuassay.checks.follow import lies_elsewhere
from cuassay.checks.interface.layout_calls import LayoutCall, reads_by_result, tried_calls
from cuassay.checks.interface.layout_trials import (
    AGAIN,
    PLAIN,
    large_scenarios,
    layout_scenarios,
    one_tensor_scenarios,
    shared_scenarios,
)
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split
from cuassay.checks.numeric.common import details, message, where, worst_statistic
from cuassay.checks.one_call import copies_explain
from cuassay.errors import CannotJudgeError
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Scenario
from cuassay.model.trace import Claim, Exited, Flooded, Garbled, Killed, StepRaised, TimedOut

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

_CLEAR = 2.0  # how much more of the budget than the plain answer a wrong one must use


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bad:
    """What went wrong in one of them."""

    tried: LayoutCall
    what: str  # "gives wrong numbers" or how the process ended
    comparison: Comparison | None = None
    evidence: str = ""


class Layout001(Check):
    """Inputs in every memory layout

    What it does
        Lays the same values out differently in memory, one input at a time: transposed, every
        second element of a longer buffer, offset by one element, a view into a buffer that
        holds other inputs, channels-last, and expanded with stride 0 where the values allow
        it; and all inputs of a large case at once, but for kernels that the PTX machine executes.
        Then passes the memory of inputs as outputs to kernels that write into outputs given to
        them, and one tensor, or a transposed view of it, for two inputs that are only read. Gaps
        between elements hold NaN.

    Why it matters
        Fused projections hand out views, autograd hands out expanded and transposed gradients,
        slices begin at any element. A kernel that takes strides for granted reads other
        elements, and no test with fresh contiguous tensors sees it.

    How it decides
        A right answer or an explicit exception is fine. Numbers that are wrong where the plain
        call before and after is right, a crash or an illegal or misaligned address make the
        kernel unsafe: its acceptance then depends on contiguous, aligned inputs (or on inputs
        and outputs in memory of their own). A wrong answer must use twice the budget of the
        plain one at least.

    Can it be wrong?
        What the reference gets wrong in the same layout is not reported. Where the plain call
        fails already nothing is said. A layout that needs a compilation of more than a minute
        decides nothing. Raw CUDA kernels are given contiguous copies and pass.

    Example
        A Triton kernel that addresses `row * hidden + column`: "x transposed gives wrong
        numbers".

    Options
        --profile quick tries six layouts, most inputs in one, the others all that fit each
        input; --require layouts or aliasing makes the condition binding.
    """

    code = "LAYOUT001"
    title = "Inputs in every memory layout"
    cause = Cause.LAYOUT
    classes = ("A1", "A2", "A5", "M10")
    needs = Needs(split=Split.ANY_SIDE, group=Group.LAYOUT)
    finding_class = FindingClass.UNSAFE
    severity = Severity.HIGH
    judges_failures = True

    def skip(self, trial: Trial) -> str:
        """Return why no layout can be tried, or an empty string."""
        specs = [spec for spec in tensor_inputs(trial.problem) if spec.shape]
        return "" if specs else "no input is a tensor with an axis"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield layouts, all inputs of a large case anew, and tensors that share their memory."""
        yield from layout_scenarios(trial)
        yield from large_scenarios(trial)
        yield from shared_scenarios(trial)
        yield from one_tensor_scenarios(trial)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare each call with truth; blame what the plain calls do not show.

        Raises CannotJudgeError where the plain call fails: that is another check's to report.
        """
        reads = reads_by_result(scenario)
        plain = _compared(trial, scenario, run, answers, read=reads[PLAIN])
        if plain is None or isinstance(run.result.termination, Garbled | Flooded):
            # A size that was refused and nobody promised, or tampering; else decide nothing.
            ended = termination_finding(scenario, run, problem=trial.problem)
            tampered = isinstance(run.result.termination, Garbled | Flooded)
            if ended is None or (ended.finding_class is FindingClass.WRONG and not tampered):
                raise CannotJudgeError("the plain call fails already")
            return [ended]
        again = _compared(trial, scenario, run, answers, read=reads[AGAIN])
        if not all(c.passed for found in (plain, again or {}) for c in found.values()):
            raise CannotJudgeError("the plain call is wrong already")
        found = (
            _bad(trial, scenario, run, answers, tried, plain) for tried in tried_calls(scenario)
        )
        bad = [each for each in found if each is not None]
        kinds = dict.fromkeys(one.tried.apart for one in bad)
        return [self._unsafe(scenario, [b for b in bad if b.tried.apart == k]) for k in kinds]

    def _unsafe(self, scenario: Scenario, bad: list[_Bad]) -> Finding:
        """Return one finding on the first of them that names the others."""
        first = bad[0]
        others = "; ".join(f"{b.tried.words} {b.what}" for b in bad[1:])
        case = scenario.cases[0]
        found = first.comparison
        statistic = worst_statistic(found) if found else None
        shared = first.tried.apart
        text = f"{first.tried.words} {first.what}"
        if found is not None:
            alone = "right in memory of its own" if shared else "right where it is contiguous"
            text += f", {alone}: {message(found, statistic)}"
        condition = (
            f"aliasing: {shared}"
            if shared
            else f"layouts: contiguous, aligned inputs only ({first.tried.words} {first.what})"
        )
        rows = (("so do others", others[:1000]),) if others else ()
        place = Where(axes=dict(case.axes))
        if found is not None and not found.mismatch:
            place = where(found, case, statistic)
        elif found is not None:
            place = Where(output=found.output, axes=dict(case.axes))
        return self.finding(
            text,
            scenario=scenario,
            measured=statistic.value if statistic else None,
            allowed=statistic.limit if statistic else None,
            statistic="against truth, in another layout",
            where=place,
            condition=condition,
            severity=Severity.MEDIUM if shared else self.severity,
            details=(*rows, *(details(found) if found else ())),
            evidence=first.evidence,
        )


def _bad(
    trial: Trial,
    scenario: Scenario,
    run: Run,
    answers: Answers,
    tried: LayoutCall,
    plain: Mapping[str, Comparison],
) -> _Bad | None:
    """Return what one call did wrong; an exception of its own choice is nothing wrong.

    Raises CannotJudgeError where it did not end in time: compilers are slow, not wrong.
    """
    records, end = run.result.records, run.result.termination
    record = records[tried.call] if tried.call < len(records) else None
    if isinstance(record, StepRaised):
        silent = record.claim is Claim.LAUNCH or memory_fault(record)
        what = f"ends in {exception_text(record)}"
        return _Bad(tried=tried, what=what, evidence=record.traceback) if silent else None
    if record is None:
        printed = run.result.output_text[-2000:]
        match end:
            case Killed(index=index, signal=number) if index == tried.call:
                what = f"ends the process by {signal_name(number)}"
            case Exited(index=index, exit_code=code) if index == tried.call:
                what = f"ends the process with exit code {code}"
            case TimedOut(index=index, limit_s=limit_s) if index == tried.call:
                raise CannotJudgeError(f"{tried.words}: no end within {limit_s:g} s")
            case _:
                return None
        return _Bad(tried=tried, what=what, evidence=printed)
    arranged = done(run, tried.arranged)
    if arranged is None or lies_elsewhere(arranged):
        return None  # that layout was not had, so nothing was tried
    found = _compared(trial, scenario, run, answers, read=tried.read)
    worst = max(
        (c for c in (found or {}).values() if _clearly_wrong(trial, scenario, c, plain)),
        key=lambda comparison: comparison.share,
        default=None,
    )
    return _Bad(tried=tried, what="gives wrong numbers", comparison=worst) if worst else None


def _compared(
    trial: Trial, scenario: Scenario, run: Run, answers: Answers, *, read: int
) -> dict[str, Comparison] | None:
    """Return the comparisons of a read by output; None where there was nothing to read."""
    record = done(run, read)
    if record is None:
        return None
    case = scenario.cases[0]
    if trial.truth(case).ill_conditioned:
        raise CannotJudgeError(trial.truth(case).ill_conditioned)
    return {c.output: c for c in answers.compare(case, record.items)}


def _clearly_wrong(
    trial: Trial, scenario: Scenario, found: Comparison, plain: Mapping[str, Comparison]
) -> bool:
    """Whether an answer is wrong beyond what another order of its sums may do to the plain one."""
    before = plain.get(found.output)
    if found.passed or (before is not None and found.share <= _CLEAR * before.share):
        return False
    truths = {output.name: output for output in trial.truth(scenario.cases[0]).outputs}
    truth = truths.get(found.output)
    return truth is None or not copies_explain(truth.value, found)
