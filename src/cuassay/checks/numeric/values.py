"""NUM001: the numbers, on fresh secret seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Needs, Split, When
from cuassay.checks.numeric.common import comparison_finding, one_by_one, single_call
from cuassay.checks.state.answers import reads_of
from cuassay.model.outcome import Finding
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.scenario import Scenario


class Num001(Check):
    """Numerical parity on fresh secret seeds

    What it does
        Calls the kernel on inputs drawn after its digest was taken, in several value regimes
        (plain, offset, small, large, mixed scales) and at the ends of domains (uniform masks and
        indices, least and largest values, one input zero, rows of many kinds, gates nearly
        closed), and compares every output with a float64 truth. At `standard` and `deep` one
        small case is repeated over 32 or more seeds, so that a small constant bias adds up and
        shows.

    Why it matters
        A kernel tuned until a benchmark accepts it may fit that benchmark's seed, shapes or
        input distribution. A wrong epsilon passes 20 of 23 published comparison rules on
        standard normal data and none on data of size 1e-3.

    How it decides
        Per output, four statistics of error over achievable error must stay within their
        limits, over the whole tensor and every slice along every axis: W (worst element, 6),
        G (energy, 2.5), Z (normalised energy, 2.5) and P (projection on gain and bias, 5).
        Achievable error comes from Monte-Carlo draws of the reference in float64 with the
        rounding noise of the declared accumulation precision, and is never less than the
        error of the reference as written. Under the precision policy `tf32` or `mixed` the
        draws also round operands of products, or intermediates; NUM003 names what was needed.

    Can it be wrong?
        A kernel more accurate than the reference passes. One that keeps bfloat16 partial
        sums over long tiles and rounds once to bfloat16 is no worse than one output rounding
        in a single case; NUM002 looks at how its error grows. Where the reference's own noise
        exceeds what the output type can hold, the case decides nothing.

    Example
        An RMSNorm that divides by N - 1, or leaves the epsilon out, is rejected with the
        worst row, its measured and allowed error, and the seed.

    Options
        --profile quick|standard|deep sets the number of cases and seeds; --seed N replays.
    """

    code = "NUM001"
    worth = 4.0  # of heavy references too
    title = "Numerical parity on fresh secret seeds"
    classes = ("N4", "N8", "N10", "N11", "N13", "N14", "N15", "N16", "O1", "O3", "O4", "O6")
    ranks = True
    needs = Needs(when=When.DECISIVE, split=Split.ANY_SIDE)
    grades = True

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario per numeric case, then the many-seed scenario."""
        for purpose in ("numeric", "ends"):
            for case in trial.cases(purpose):
                yield single_call(case, label=f"numbers: {case.label}")
        count = trial.effort.further_seeds
        small = [case for case in trial.cases("small") if case.in_domain]
        if count and small:
            case = small[0]
            cases = tuple(
                dataclasses.replace(case, seed=trial.seed("NUM001", "seeds", index))
                for index in range(count)
            )
            steps = one_by_one(range(count), numbered=False)
            yield Scenario(label=f"numbers: bias over {count} seeds", cases=cases, steps=steps)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge one call, or the accumulated projection over many seeds."""
        if len(scenario.cases) > 1:
            yield from self._accumulated(trial, scenario, run, answers)
            return
        for read in reads_of(scenario, run):
            for comparison in answers.compare(read.case, read.items):
                if not comparison.passed:
                    yield comparison_finding(self, trial, scenario, read.case, comparison)

    def _accumulated(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the errors over all seeds by the least family that the policy accepts."""
        from cuassay.oracle.seeds import SeedAccumulator

        reads = reads_of(scenario, run)
        if len(reads) < len(scenario.cases):
            return
        left = {spec.name: number for number, spec in enumerate(trial.problem.outputs)}
        findings: dict[str, Finding] = {}
        for family in policy_of(trial.problem).families:
            accumulators = {name: SeedAccumulator() for name in left}
            for read in reads:
                if family is Precision.STRICT:
                    compared = answers.compare(read.case, read.items)
                else:
                    compared = trial.compare(read.case, run, read.items, precision=family)
                for name, number in left.items():
                    if not compared[number].mismatch:
                        accumulators[name].add(compared[number])
            for name, accumulator in accumulators.items():
                result = accumulator.result()
                if result.value <= result.limit:
                    del left[name]
                    continue
                found = self.finding(
                    f"{name}: over {len(scenario.cases)} seeds the error of the kernel "
                    f"keeps one sign ({result.group}): {result.value:.3g} standard errors, "
                    f"allowed {result.limit:.3g}",
                    scenario=scenario,
                    measured=result.value,
                    allowed=result.limit,
                    statistic="P over seeds",
                )
                findings.setdefault(name, found)
            if not left:
                return
        yield from (findings[name] for name in left)
