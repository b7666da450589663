"""RACE001: many calls under load, on an idle GPU and on a crowded one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from cuassay.checks.answers import reads_of
from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.numeric import message, worst_statistic
from cuassay.checks.plain_first import NEEDS_GPU, measured, on_cpu, wrong_read
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.outcome import Finding, Severity
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import Load, Repeat
from cuassay.model.trace import ResultItem
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.oracle.compare import Comparison

_CALLS = {Profile.QUICK: 64, Profile.STANDARD: 400, Profile.DEEP: 5000}
_ELEMENTS = {Profile.QUICK: 1 << 20, Profile.STANDARD: 1 << 22, Profile.DEEP: 1 << 24}
_BESIDE = "another process on the GPU"
_WORDS = {
    Load.NONE: "an idle GPU",
    Load.BANDWIDTH: "large copies on another stream",
    Load.MULTIPROCESSORS: "few multiprocessors free",
}
_SURE = 4.605  # -ln 0.01: n launches show a fault of chance 4.6 / n with 99 %


class Race001(Check):
    """Repeated under load

    What it does
        Calls the kernel on the same inputs many times in bursts: on an idle GPU, beside large
        copies, beside blocks that leave eight multiprocessors free, and beside another process.
        Every result is hashed; those that differ are measured against truth.

    Why it matters
        A missing barrier, a flag read before the data behind it, a read of another block's
        half-written sum show once in a thousand launches on an idle GPU and daily in a busy
        server. A home-made grid barrier waits for ever when its blocks are not all resident.

    How it decides
        Results of which some are right and some wrong reject, as do wrong results under load
        where the plain call is right. Equal answers in other bits are DET001's subject. A call
        that never returns is RUN004.

    Can it be wrong?
        A race that needs another schedule, size or GPU stays unseen. n launches show a fault
        that occurs in one launch of n / 4.6 with 99 %; the report says the number. Results are
        compared with truth, so float atomics are no race.

    Example
        A reduction without its second `__syncthreads`: "3 of 400 calls beside large copies
        give a wrong answer".

    Options
        --profile sets the calls a load: 64, 400 or 5000.
    """

    code = "RACE001"
    title = "Repeated under load"
    classes = ("C1", "C2", "C3", "C4", "C5", "C7")
    group = "load"
    severity = Severity.CRITICAL

    def skip(self, trial: Trial) -> str:
        """Return why no load can be made, or an empty string."""
        return NEEDS_GPU if on_cpu(trial) else ""

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a load on the largest case that can be repeated often."""
        case = _crowded(trial)
        for load in Load:
            yield _repeats(case, load, calls=_CALLS[trial.profile])
        beside = _repeats(case, Load.NONE, calls=_CALLS[trial.profile])
        yield dataclasses.replace(beside, label=_label(case, _BESIDE), busy=True)

    def judge(self, trial: Trial, scenario: Scenario, run: Run) -> Iterable[Finding]:
        """Measure every different result against truth."""
        reads = reads_of(scenario, run)
        record = done(run, 3)
        if record is None or not reads or wrong_read(trial, run, reads[0]):
            return
        facts = dict(record.facts)
        counts = [_number(text) for text in facts.get("counts", "").split()]
        wrong: list[tuple[Comparison, int]] = []
        for items, count in zip(_results(record.items, len(counts)), counts, strict=True):
            compared = trial.compare(scenario.cases[0], run, items)
            failed = next((c for c in compared if not c.passed), None)
            if failed is not None:
                wrong.append((failed, count))
        if wrong:
            yield self._wrong(scenario, wrong, calls=_number(facts.get("calls", "0")))

    def remark(self, scenarios: Sequence[Scenario]) -> str:
        """Return how many launches were made and what they could have shown."""
        repeats = [s for scenario in scenarios for s in scenario.steps if isinstance(s, Repeat)]
        calls = sum(step.count for step in repeats)
        if not calls:
            return ""
        return (
            f"{calls} launches under {len(repeats)} loads: 99 % sure to meet a fault of one "
            f"launch in {calls / _SURE:.0f}"
        )

    def _wrong(
        self, scenario: Scenario, wrong: Sequence[tuple[Comparison, int]], *, calls: int
    ) -> Finding:
        first = wrong[0][0]
        times = sum(count for _, count in wrong)
        load = scenario.label.split(": ", 2)[1]
        return self.finding(
            f"{times} of {calls} calls with {load} give a wrong answer where other calls give the "
            f"right one; {message(first, worst_statistic(first))}",
            scenario=scenario,
            statistic="worst of the repeats",
            **measured(first, scenario.cases[0]),
        )


def _crowded(trial: Trial) -> Case:
    """Return the numeric case with most output elements that fits the profile."""
    most = _ELEMENTS[trial.profile]
    legal = [case for case in trial.cases("numeric") if case.in_domain]
    fitting = [case for case in legal if _elements(trial, case) <= most]
    if fitting:
        return max(fitting, key=lambda case: _elements(trial, case))
    return trial.cases("small")[0]


def _elements(trial: Trial, case: Case) -> int:
    return sum(prod(shape_of(spec.shape, case.axes)) for spec in trial.problem.outputs)


def _label(case: Case, load: str) -> str:
    return f"load: {load}: {case.label}"


def _repeats(case: Case, load: Load, *, calls: int) -> Scenario:
    return Scenario(
        label=_label(case, _WORDS[load]),
        cases=(case,),
        steps=(
            Allocate(slot="a", case=0),
            Call(slot="a", result="plain"),
            ReadResult(result="plain"),
            Repeat(slot="a", count=calls, load=load),
        ),
    )


def _results(items: Sequence[ResultItem], count: int) -> list[tuple[ResultItem, ...]]:
    """Return the items of each different result: they come one result after another."""
    each = len(items) // count if count else 0
    return [tuple(items[k * each : (k + 1) * each]) for k in range(count)]


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
