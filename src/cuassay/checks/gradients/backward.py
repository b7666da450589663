"""GRAD001: gradients through the kernel, as training code asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.gradients.cases import (
    float_inputs,
    float_outputs,
    large_calls,
    scenarios,
    tried_in,
)
from cuassay.checks.gradients.judging import BackwardJudge, Bad, ended, forward_fault, report_of
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import details, message, where, worst_statistic
from cuassay.errors import NothingToCheckError
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.reports import Differentiated
from cuassay.model.scenario import Scenario
from cuassay.model.trace import Flooded, Garbled


class Grad001(Check):
    """Gradients through the kernel

    What it does
        Calls the kernel on inputs that require gradients. Where its outputs carry one, the
        gradients are compared with the reference's, differentiated in float64. Where the
        kernel brings a derivative of its own, once more and with upstream gradients that are
        expanded, transposed or a slice, with other subsets of the inputs requiring gradients,
        with the same inputs used twice, with another call in between, a second time through one
        call, with activations recomputed, and in calls that are large along one axis. Inputs and
        upstream gradients must keep their bytes.

    Why it matters
        A wrong gradient trains, only worse. `.sum()` hands out a gradient of stride 0, a
        frozen weight leaves out what the backward pass wanted saved, and a test with a fresh
        upstream gradient of ones sees none of it.

    How it decides
        A kernel that nobody can differentiate has nothing to check. Wrong gradients of a
        derivative of its own, in the plain backward pass or its repetition, or inputs that it
        overwrites, reject. What only fails in a variant, a missing gradient, an exception,
        or a gradient that torch derives and is wrong is a condition of use.

    Can it be wrong?
        The error allowed comes from trusted runs of the reference's derivative; a wrong one
        must use twice of it, eight times where torch derives it from operations in low
        precision. Inputs whose gradient is not finite are left out. What the reference gets
        wrong too is not reported, and where the forward call is wrong nothing is said.

    Example
        A backward pass that indexes `grad_output` by row and column of a contiguous tensor:
        "grad_x is wrong with the upstream gradient transposed in memory".

    Options
        --require autograd makes the condition binding; --profile standard adds listed sizes
        and recomputation under every subset.
    """

    code = "GRAD001"
    title = "Gradients through the kernel"
    cause = Cause.GRADIENT
    classes = ("A2", "A4", "A11", "A13", "L3")
    needs = Needs(group=Group.LAYOUT)
    judges_failures = True

    def skip(self, trial: Trial) -> str:
        """Return why there is nothing to differentiate, or an empty string."""
        if not float_inputs(trial.problem):
            return "no input is of floating numbers: nothing requires a gradient"
        if not float_outputs(trial.problem):
            return "no output is of floating numbers: nothing carries a gradient"
        return ""

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario per case."""
        yield from scenarios(trial)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare every backward pass with truth; a wrong plain one outranks its variants.

        Raises NothingToCheckError where nothing is differentiable.
        """
        if isinstance(run.result.termination, Garbled | Flooded):
            tampered = termination_finding(scenario, run, problem=trial.problem)
            return [tampered] if tampered else []
        plain, *variants = tried_in(scenario)
        fault = ended(plain, run, first=True)
        if fault is not None:
            return [self._unsafe(scenario, [fault])]
        report = report_of(plain, run) or Differentiated()
        outputs = [name for name in report.carries if name in float_outputs(trial.problem)]
        if not outputs:
            raise NothingToCheckError(report.passed_over or "no output carries a gradient")
        own = report.own
        if not own and scenario.cases[0] in [one.case for one in large_calls(trial)]:
            return []  # torch's derivatives of its own operations know no size
        forward = forward_fault(answers, scenario, run, plain, variants, own=own)
        if forward is not None:
            return [self._wrong(scenario, forward)]
        judged = BackwardJudge(trial=trial, scenario=scenario, run=run, outputs=outputs, own=own)
        first = list(judged.bad(plain))
        first = first or [b for tried in variants if tried.again for b in judged.bad(tried)]
        fatal = [bad for bad in first if bad.silent and own]
        # A generator may make one input from others (a saved rstd): a kernel that computes it
        # anew is right, and its gradients are others.
        anew = scenario.cases[0].generator and any(bad.missing for bad in first)
        if fatal and not anew:
            return [self._wrong(scenario, fatal[0])]
        known = {bad.output for bad in first if bad.output}
        rest = [b for tried in variants for b in judged.bad(tried) if b.output not in known]
        return [self._unsafe(scenario, [*first, *rest])] if first or rest else []

    def _wrong(self, scenario: Scenario, bad: Bad) -> Finding:
        right = ", where the forward call is right" if bad.comparison and not bad.forward else ""
        return self._finding(scenario, bad, text=_line(bad) + right)

    def _unsafe(self, scenario: Scenario, bad: Sequence[Bad]) -> Finding:
        """Return one finding on the most telling of them that names the others.

        What the plain backward pass shows comes first, then what is silent.
        """
        first, *_ = bad = sorted(bad, key=lambda each: (each.tried.words != "", not each.silent))
        others = "; ".join(dict.fromkeys(map(_line, bad[1:])))
        rows = (("so do others", others[:1000]),) if others else ()
        return self._finding(
            scenario,
            first,
            text=_line(first),
            rows=rows,
            finding_class=FindingClass.UNSAFE,
            severity=Severity.HIGH,
            condition=f"autograd: {_line(first)[:300]}",
        )

    def _finding(
        self,
        scenario: Scenario,
        bad: Bad,
        *,
        text: str,
        rows: tuple[tuple[str, str], ...] = (),
        **extra: object,
    ) -> Finding:
        case, found = scenario.cases[0], bad.comparison
        statistic = worst_statistic(found) if found else None
        place = Where(output=bad.output, axes=dict(case.axes))
        if found is not None and not found.mismatch:
            place = where(found, case, statistic)
        if found is not None:
            text += f": {message(found, statistic)}"
        return self.finding(
            text,
            scenario=scenario,
            measured=statistic.value if statistic else None,
            allowed=statistic.limit if statistic else None,
            statistic="against the reference's gradient in float64",
            where=place,
            details=(*rows, *(details(found) if found else ())),
            evidence=bad.evidence,
            **extra,
        )


def _line(bad: Bad) -> str:
    """Return what went wrong and where, such as `grad_x is wrong with x alone`."""
    return f"{bad.what} with {bad.tried.words}" if bad.tried.words else bad.what
