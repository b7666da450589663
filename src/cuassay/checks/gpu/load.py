"""RACE001: many calls under load and with pauses, on an idle GPU and on a crowded one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.gpu.chances import meets, unseen_bound, wilson
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.numeric.common import message, worst_statistic
from cuassay.checks.plain_first import measured
from cuassay.checks.state.answers import placed, reads_of
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.inputs.geometry import elements, fitted_sizes
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, Severity
from cuassay.model.reports import Repeats
from cuassay.model.scenario import Scenario, call_steps
from cuassay.model.steps import Load, Repeat
from cuassay.model.trace import ScenarioResult, StepDone, done_steps

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

# Elements of inputs and outputs together, and the least size of an axis that is made smaller.
_LEAST = 16
_SHOWN = 4  # kernels named
_Repeated = tuple[Repeat, Repeats, StepDone]
_BESIDE = "another process on the GPU"
_WORDS = {
    Load.NONE: "an idle GPU",
    Load.BANDWIDTH: "large copies on another stream",
    Load.MULTIPROCESSORS: "few multiprocessors free",
    Load.DELAYS: "random pauses in its kernels",
}
# Seconds of calls under one load, and with one variant of the pauses.


class Race001(Check):
    """Repeated under load

    What it does
        Calls the kernel on the same inputs many times in bursts: on an idle GPU, beside large
        copies, beside blocks that leave eight multiprocessors free, and beside another process.
        Triton and raw CUDA kernels are also rebuilt from their PTX with random pauses before
        memory operations and barriers, several variants of them. Every result is hashed; those
        that differ are measured against truth.

    Why it matters
        A missing barrier, a flag read before the data behind it, a read of another block's
        half-written sum show once in a thousand launches on an idle GPU and daily in a busy
        server. A home-made grid barrier waits for ever when its blocks are not all resident.

    How it decides
        Results of which some are right and some wrong reject, the plain call among them;
        results that are wrong every time are left to NUM001. Equal answers in other bits are
        DET001's subject. A call that never returns is RUN004.

    Can it be wrong?
        A race that needs another schedule, size or GPU stays unseen: n launches meet a fault
        that occurs in one launch of n / 4.6 with 99 %, and the report says the number. A
        finding says how often the fault came, with its 95 % interval. A pause is no fault: any
        thread may be late. Kernels of C++ extensions get none. Results are compared with
        truth, so float atomics are no race.

    Example
        A reduction without its second `__syncthreads`: "3 of 400 calls beside large copies
        give a wrong answer".

    Options
        --profile sets the calls a load (64, 400 or 5000), as many of them as fit 2, 4 or 25
        seconds, and the variants of the pauses that share them (2, 6 or 32).
    """

    code = "RACE001"
    title = "Repeated under load"
    cause = Cause.RACE
    classes = ("C1", "C2", "C3", "C4", "C5", "C7")
    needs = Needs(when=When.EARLY, split=Split.ANY_SIDE, group=Group.NONE, gpu=True)
    severity = Severity.CRITICAL

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a load on the largest case that can be repeated often."""
        case = _crowded(trial)
        calls, limit_s = trial.effort.load_calls, trial.effort.load_s
        for load in (Load.NONE, Load.BANDWIDTH, Load.MULTIPROCESSORS):
            step = Repeat(slot="a", count=calls, load=load, budget_s=limit_s)
            yield _repeats(case, load, [step])
        variants = trial.effort.pause_variants
        seeds = [trial.seed(self.code, "pauses", number) for number in range(variants)]
        each = -(-calls // variants)
        yield _repeats(
            case,
            Load.DELAYS,
            [
                Repeat(
                    slot="a",
                    count=each,
                    load=Load.DELAYS,
                    seed=seed,
                    budget_s=trial.effort.paused_s,
                )
                for seed in seeds
            ],
        )
        beside = _repeats(case, Load.NONE, [Repeat(slot="a", count=calls, budget_s=limit_s)])
        yield dataclasses.replace(beside, label=_label(case, _BESIDE), busy=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Measure every different result against truth; blame what is wrong beside right ones."""
        reads = reads_of(scenario, run)
        records = _repeated(scenario, run.result)
        if not records or not reads:
            return
        calls = sum(_calls(step, report) for step, report, _ in records)
        if not calls:
            refused = next((report.refused for _, report, _ in records if report.refused), "")
            if refused:
                raise CannotJudgeError(f"pauses could not be put into its kernels: {refused[:200]}")
            raise NothingToCheckError("no kernel of its own whose PTX is known")
        wrong: list[tuple[Comparison, int]] = []
        right = answers.first_wrong(reads[0]) is None
        for _, report, record in records:
            # The items of each different result: they come one result after another
            count = len(report.counts)
            each = len(record.items) // count if count else 0
            results = [tuple(record.items[k * each : (k + 1) * each]) for k in range(count)]
            for items, count in zip(results, report.counts, strict=True):
                compared = answers.compare(scenario.cases[0], items)
                failed = next((c for c in compared if not c.passed), None)
                if failed is not None:
                    wrong.append((failed, count))
                else:
                    right = True
        if wrong and right:  # wrong every time is NUM001's to report
            yield self._wrong(scenario, wrong, calls=calls, slowed=_slowed(records))

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Return how many launches were made and what they could have shown."""
        found = [pair for scenario, result in seen for pair in _repeated(scenario, result)]
        calls = sum(_calls(step, report) for step, report, _ in found)
        if not calls:
            return ""
        paused = [one for one in found if one[0].load is Load.DELAYS]
        text = f"{calls} launches under {len(seen)} loads"
        if paused:
            slowed = sum(_calls(step, report) for step, report, _ in paused)
            text += f", {slowed} of them with random pauses in {_slowed(paused)}"
        return f"{text}: 99 % sure to meet a fault of one launch in {1 / unseen_bound(calls):.0f}"

    def _wrong(
        self,
        scenario: Scenario,
        wrong: Sequence[tuple[Comparison, int]],
        *,
        calls: int,
        slowed: str,
    ) -> Finding:
        first = wrong[0][0]
        times = min(sum(count for _, count in wrong), max(calls, 1))
        (step, *_) = (step for step in scenario.steps if isinstance(step, Repeat))
        load = _BESIDE if scenario.busy else _WORDS[step.load]
        extra = measured(first, scenario.cases[0])
        rate: tuple[tuple[str, str], ...] = ()
        if calls >= 1:
            low, high = wilson(times, calls)
            rate = (
                (
                    "how often",
                    f"{times} of {calls} launches, 95 % interval {low:.2%} to {high:.2%} a launch; "
                    f"{calls} launches meet a fault as rare as {low:.2%} with "
                    f"{meets(low, calls):.1%}",
                ),
            )
        extra["details"] = (*extra["details"], *rate)
        if slowed:
            extra["details"] += (("pauses", slowed),)
        return self.finding(
            f"{times} of {calls} calls with {load} give a wrong answer where other calls give the "
            f"right one; {message(first, worst_statistic(first))}",
            scenario=scenario,
            statistic="worst of the repeats",
            **extra,
        )


def _repeated(scenario: Scenario, result: ScenarioResult) -> list[_Repeated]:
    """Return the Repeat steps that ended normally with their reports and records."""
    return [
        (step, record.report, record)
        for step, record in done_steps(scenario, result, Repeat)
        if isinstance(record.report, Repeats)
    ]


def _calls(step: Repeat, report: Repeats) -> int:
    """Return the calls that a step made, as far as it was asked for them."""
    return max(0, min(report.calls, step.count + 1))


def _slowed(records: Sequence[_Repeated]) -> str:
    """Return which kernels had pauses in how many places, at most; nothing where none had."""
    most: dict[str, int] = {}
    for _, report, _ in records:
        for name, places in report.pauses.items():
            name = "".join(c for c in name if c.isprintable())[:80]
            most[name] = max(most.get(name, 0), places)
    shown = list(most.items())[:_SHOWN]
    return ", ".join(f"'{name}' at {places} places" for name, places in shown)


def _crowded(trial: Trial) -> Case:
    """Return the largest numeric case, made smaller until it can be repeated often.

    Production sizes scaled down keep many blocks and long rows, which the smallest workload
    has not. Sizes that nobody declared are not made up: then the largest case that fits.
    """
    problem = trial.problem
    legal = [case for case in trial.cases("numeric") if case.in_domain]
    if not legal:
        return trial.cases("small")[0]
    by_size = sorted(legal, key=lambda case: elements(problem, case.axes))
    largest = by_size[-1]
    # A constant axis may be long: no case need be smaller than the smallest planned one.
    most = max(trial.effort.load_elements, elements(problem, by_size[0].axes))
    if all(axis.declared for axis in problem.var_axes()) and not largest.generator:
        sizes = fitted_sizes(problem, largest.axes, budget=most, floor=_LEAST)
        if elements(problem, sizes) <= most:
            smaller = dataclasses.replace(largest, label=f"{largest.label}, scaled down")
            return largest if sizes == dict(largest.axes) else placed(smaller, sizes)
    return [case for case in by_size if elements(problem, case.axes) <= most][-1]


def _label(case: Case, load: str) -> str:
    return f"load: {load}: {case.label}"


def _repeats(case: Case, load: Load, repeats: Sequence[Repeat]) -> Scenario:
    return Scenario(
        label=_label(case, _WORDS[load]),
        cases=(case,),
        steps=(
            *call_steps("a", 0, "plain"),
            *repeats,
        ),
    )
