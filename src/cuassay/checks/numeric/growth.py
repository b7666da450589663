"""NUM002: low-precision accumulation, on hot keys and over the length of a reduction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Needs, Split
from cuassay.checks.numeric.common import comparison_finding, one_by_one, single_call
from cuassay.checks.state.answers import reads_of
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, GrowthPoint, Where
from cuassay.model.policy import policy_of
from cuassay.model.precision import CONDITION, Precision
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    from cuassay.model.case import Case
    from cuassay.model.problem import Problem
    from cuassay.oracle.compare.outputs import Comparison

_DEFAULT_TARGET = 1_000_000
_PARTS = f"{CONDITION}: parts of sums rounded to 16 bits, which shows where they cancel"


class Num002(Check):
    """Low-precision accumulation: hot keys, bias and growth

    What it does
        Feeds the inputs on which a sum kept in bfloat16 or float16 loses terms: index inputs
        with natural (Zipf) frequencies, one hot id, two hot ids; gradients that share a sign
        and gradients that cancel; a sum whose second half takes the first one back. Then
        lengthens each reduction axis and fits how the error grows with its length.

    Why it matters
        A bfloat16 counter of ones stops at 256. Uniform token ids, a quota of matching
        elements and AdamW all hide it; real text with SGD diverges.

    How it decides
        Rows are judged in groups by how often an index hits them (1, 2-15, 16-255, 256 or
        more), with the statistics of NUM001. Over 3 to 5 lengths the relative error is fitted
        as length**a. float32 accumulation with one final cast gives an exponent near 0,
        bfloat16 accumulation 0.5 or more; the error is projected to the production length.

    Can it be wrong?
        Growth is judged against the trusted implementation's own growth on the same inputs,
        so an ill-conditioned sum does not reject an honest kernel. Kernels that pre-sum tiles
        in float32 and add few tiles in bfloat16 stay within one output rounding, but for the
        sum that takes itself back: there the first tiles' rounding is most of what is left.
        Under the policy `mixed` that is a condition of use, `precision`: cuBLAS adds the parts of
        a split product in 16 bits as well, by torch's default
        (`allow_bf16_reduced_precision_reduction`). On a CPU constant axes may leave room for one
        tile alone.

    Example
        A fused embedding-gradient kernel that adds into a bfloat16 table is rejected: rows
        with 256 hits or more are off by tens of percent, exponent near 1.

    Options
        --profile sets lengths and number of cases; a problem's `growth_target` names the
        production length per axis (1 000 000 by default).
    """

    code = "NUM002"
    worth = 4.0  # of heavy references too
    title = "Low-precision accumulation: hot keys, bias and growth"
    classes = ("N1", "N2", "N3", "N5", "N9", "L1")
    ranks = True
    needs = Needs(split=Split.ANY_SIDE)
    grades = True

    def skip(self, trial: Trial) -> str:
        """Return why nothing can accumulate here, or an empty string."""
        if trial.cases("hot") or trial.cases("growth"):
            return ""
        return "no input is an index and no axis is reduced"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the first hot-key case, one growth scenario per axis and fill, then the rest.

        Growth comes early so that a kernel that fails everything still shows its exponent.
        """
        hot = [single_call(case, label=f"hot: {case.label}") for case in trial.cases("hot")]
        yield from hot[:1]
        for group in growth_groups(trial.cases("growth")):
            axis = growth_axis(trial.problem, group)
            ordered = tuple(sorted(group, key=lambda case: case.axes[axis]))
            # The label of a growth case without its length: equal along one series.
            series_name = re.sub(r"=\d+", "", ordered[0].label).removeprefix("growth ")
            label = f"growth: {series_name}"
            steps = one_by_one(range(len(ordered)), numbered=False)
            yield Scenario(label=label, cases=ordered, steps=steps)
        yield from hot[1:]

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge a hot-key call by group, or the growth of the error over lengths."""
        if len(scenario.cases) > 1:
            yield from self._growth(trial, scenario, run, answers)
            return
        for read in reads_of(scenario, run):
            for comparison in answers.compare(read.case, read.items):
                if comparison.passed:
                    continue
                found = comparison_finding(self, trial, scenario, read.case, comparison)
                if any("mirror" in fill.parameters for fill in read.case.fills.values()):
                    # Tensor cores cut off partial sums instead of rounding them: of a sum that
                    # takes itself back little is left, and that shows as a gain or bias alone. A
                    # rounding to 16 bits on the way makes a random error besides.
                    beyond = [one.name for one in comparison.statistics if one.share > 1.0]
                    if not comparison.mismatch and set(beyond) == {"P"}:
                        continue
                    if Precision.MIXED in policy_of(trial.problem).families:
                        found = found.as_condition(_PARTS)
                yield found

    def _growth(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the growth of each output by the least family that the policy accepts."""
        reads = reads_of(scenario, run)
        if len(reads) < len(scenario.cases):
            return
        for read in reads:  # what single cases say of the kernel's precision
            answers.compare(read.case, read.items)
        left = {spec.name: number for number, spec in enumerate(trial.problem.outputs)}
        findings: dict[str, Finding] = {}
        for family in policy_of(trial.problem).families:
            rows = [trial.compare(r.case, run, r.items, precision=family) for r in reads]
            for name, number in tuple(left.items()):
                finding = self._series(trial, scenario, name, [row[number] for row in rows])
                if finding is None:
                    del left[name]
                else:  # the first says how far the error is from the reference's own
                    findings.setdefault(name, finding)
            if not left:
                return
        yield from (findings[name] for name in left)

    def _series(
        self, trial: Trial, scenario: Scenario, output: str, series: list[Comparison]
    ) -> Finding | None:
        """Return the finding of an output whose error grows, None where it does not."""
        from cuassay.oracle import growth

        if any(comparison.mismatch for comparison in series):
            return None
        axis = growth_axis(trial.problem, scenario.cases)
        points = [
            GrowthPoint(
                length=case.axes[axis],
                error=comparison.relative_error,
                trusted=comparison.trusted_relative_error,
            )
            for case, comparison in zip(scenario.cases, series, strict=True)
        ]
        target = trial.problem.growth_target.get(axis, _DEFAULT_TARGET)
        fitted = growth.fit(points, axis=axis, target=target, output=output)
        statistic = growth.judge_growth(fitted)
        if statistic is None or statistic.value <= statistic.limit:
            return None
        last = points[-1]
        return self.finding(
            f"{output}: the error grows as {axis}^{fitted.exponent:.2f} "
            f"(trusted: ^{fitted.trusted_exponent:.2f}): {last.error:.2e} at "
            f"{last.length:,}, projected {fitted.projected:.2e} at {target:,}",
            scenario=scenario,
            measured=statistic.value,
            allowed=statistic.limit,
            statistic="growth exponent",
            where=Where(output=output, group=f"over {axis}", axes=dict(scenario.cases[-1].axes)),
            growth=fitted,
            cause=Cause.LOW_ACCUMULATION,
            error_map=series[-1].error_map,
        )


def growth_groups(cases: Iterable[Case]) -> list[tuple[Case, ...]]:
    """Return the growth cases grouped by everything but the length: one group a fill and axis.

    A reference may settle what was planned longer at a length that is there already.
    """
    groups: dict[object, list[Case]] = {}
    for case in cases:  # the planner gives each series a seed of its own
        group = groups.setdefault(case.seed, [])
        if all(dict(case.axes) != dict(other.axes) for other in group):
            group.append(case)
    return [tuple(group) for group in groups.values() if len(group) >= 3]


def growth_axis(problem: Problem, cases: tuple[Case, ...]) -> str:
    """Return the axis that a growth group lengthens; computed axes may have grown with it."""
    first, last = cases[0].axes, cases[-1].axes
    names = [axis.name for axis in problem.var_axes()]
    return next(name for name in names if first[name] != last[name])
