"""DET001: run-to-run spread on identical inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import message, where, worst_statistic
from cuassay.checks.state.answers import Read, reads_of, same_bits
from cuassay.inputs.geometry import tensor_bytes
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Call, HashResult, ReadResult, Release, Scenario, Step

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

_BYTES = 1 << 28  # read back in one scenario; beyond it later results are only hashed
_ELEMENTS = 1 << 24


class Det001(Check):
    """Run-to-run spread

    What it does
        Calls the kernel many times on the same input tensors and compares the bits of the
        results: 5 times at `quick`, 20 at `standard`, 100 at `deep`.

    Why it matters
        A missing barrier or an unguarded read-modify-write shows as a result that is wrong
        once in a while. Float atomics show as results that differ in the last bits, which
        makes training runs impossible to repeat.

    How it decides
        Equal bits pass. Where bits differ, every differing result is measured against truth:
        if some are right and some are not, the kernel is wrong. If all are within the
        achievable error it is advice, and not even that where the reference differs from
        run to run as well. If all are wrong, NUM001 reports the numbers.

    Can it be wrong?
        A race that needs more calls, another load or another GPU may stay unseen: equal bits
        prove nothing about races. Results beyond 256 MiB a scenario are hashed, not measured.

    Example
        A split reduction without a barrier: "3 of 20 results are wrong, 17 are right".

    Options
        --profile sets the number of calls; --require deterministic makes equal bits binding.
    """

    code = "DET001"
    title = "Run-to-run spread"
    cause = Cause.NOT_DETERMINISTIC
    classes = ("C1", "C2", "C7", "C9")
    ranks = True
    needs = Needs(group=Group.REPEAT, alone=True)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the repeats on an ordinary case and on one with hot keys."""
        cases = [*_largest(trial, trial.cases("numeric")), *_largest(trial, trial.cases("hot"))]
        for case in cases:
            yield repeats(trial, case)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare digests, then measure what differs against truth."""
        digests = [
            record.digest
            for index, step in enumerate(scenario.steps)
            if isinstance(step, HashResult) and (record := done(run, index)) is not None
        ]
        if len(set(digests)) == 1 or trial.truth(scenario.cases[0]).ill_conditioned:
            return
        if not digests:
            # Judge a scenario of another check whose failure did not show on every run
            worst = [_worst(answers, read) for read in reads_of(scenario, run)]
            failed = [comparison for comparison in worst if comparison and not comparison.passed]
            if failed:
                yield self._wrong(scenario, failed, len(worst))
            return
        reads = reads_of(scenario, run)
        kept: list[Read] = []
        for read in reads:
            if not any(same_bits(run, read.items, other.items) for other in kept):
                kept.append(read)
        reads = kept
        worst = [_worst(answers, read) for read in reads]
        failed = [comparison for comparison in worst if comparison and not comparison.passed]
        if failed and len(failed) < len(worst):
            yield self._wrong(scenario, failed, len(worst))
        elif not failed and trial.deterministic_reference:
            distinct = len(set(digests))
            calls = len(digests)
            share = max((comparison.share for comparison in worst if comparison), default=0.0)
            yield self.finding(
                f"results differ from run to run within the budget: {distinct} different results "
                f"in {calls} calls, as float atomics give; the worst uses {share:.0%} of it",
                scenario=scenario,
                measured=share,
                allowed=1.0,
                statistic="share of the achievable error used by the worst repeat",
                where=Where(axes=dict(scenario.cases[0].axes)),
                finding_class=FindingClass.ADVICE,
                severity=Severity.LOW,
                condition="deterministic: results may differ in their last bits from run to run",
            )

    def _wrong(self, scenario: Scenario, failed: list[Comparison], measured: int) -> Finding:
        first = failed[0]
        statistic = worst_statistic(first)
        lead = (
            f"the same call gives right and wrong results: {len(failed)} of {measured} different "
            "results are wrong"
            if len(failed) < measured
            else "wrong on inputs on which other runs are right"
        )
        return self.finding(
            f"{lead}; {message(first, statistic)}",
            scenario=scenario,
            measured=statistic.value if statistic else None,
            allowed=statistic.limit if statistic else None,
            statistic="worst of the repeats",
            where=Where() if first.mismatch else where(first, scenario.cases[0], statistic),
        )


def _worst(answers: Answers, read: Read) -> Comparison | None:
    """Return the comparison of a read that fails, or uses most of its budget."""
    compared = answers.compare(read.case, read.items)
    return max(compared, key=lambda c: (not c.passed, c.share), default=None)


def _largest(trial: Trial, cases: tuple[Case, ...]) -> list[Case]:
    """Return the case with the most output elements that is cheap enough to repeat."""
    legal = [case for case in cases if case.in_domain]
    cheap = [case for case in legal if _elements(trial, case) <= _ELEMENTS]
    if cheap:
        return [max(cheap, key=lambda case: _elements(trial, case))]
    return [min(legal, key=lambda case: _elements(trial, case))] if legal else []


def _elements(trial: Trial, case: Case) -> int:
    return sum(prod(shape_of(spec.shape, case.axes)) for spec in trial.problem.outputs)


def repeats(trial: Trial, case: Case) -> Scenario:
    """Return the scenario of many calls on one case, every result hashed, the first ones read."""
    calls = trial.effort.same_calls
    outputs = trial.problem.outputs
    size = tensor_bytes(outputs, case.axes)
    reads = max(2, min(calls, _BYTES // max(size, 1)))
    steps: list[Step] = [Allocate(slot="a", case=0)]
    for number in range(calls):
        steps += [Call(slot="a", result="r"), HashResult(result="r")]
        if number < reads:
            steps.append(ReadResult(result="r"))
        steps.append(Release(name="r"))
    return Scenario(label=f"repeats: {case.label}", cases=(case,), steps=tuple(steps))
