"""PERF001: timed calls give right answers, and take no less time than moving the bytes does."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process, When
from cuassay.checks.plain_first import measured, on_cpu
from cuassay.checks.state.answers import reads_of
from cuassay.inputs.geometry import all_bytes, elements
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import ReadResult, Scenario, Step, call_steps
from cuassay.model.steps import Time
from cuassay.model.trace import ScenarioResult, done_steps
from cuassay.model.verdict import Profile

_SHORT = (1, 3)  # calls of the shorter row, drawn for each round
_LONGER = {"cpu": (1, 3), "cuda": (16, 48)}  # calls that the longer row has more
_PLAUSIBLE = 0.7  # of the floor: clocks and bandwidths are not known better
_BANDWIDTH = 4.8e12  # bytes/s: above what any GPU of 2024 moves to and from its memory
_ELEMENTS = {"cpu": 1 << 15, "cuda": 1 << 28}  # a CPU may have to interpret


class Perf001(Check):
    """Timed calls are real calls

    What it does
        Times rows of calls by the judge's clock, the caches overwritten before each call: two
        rows of secret lengths a round, and the same rows without calls. The difference is what
        a call takes. The last result of every round is read back.

    Why it matters
        A candidate that knows it is timed can skip work: do all of it in one call of many,
        return the last answer, or patch the clock. A benchmark accepted 11 microseconds so.

    How it decides
        A timed answer that is wrong where the plain one is right rejects. A call that takes
        less than 0.7 of the time in which 4.8 TB/s move its inputs and outputs once is
        reported as implausible; the verdict states the time beside those of the reference.

    Can it be wrong?
        The worker's process shares nothing with the judge's clock, but a noisy machine makes
        times uncertain. Implausible speed alone is advice: a small tensor can stay in a cache.

    Example
        A kernel that returns its last output from the third call on: "timed calls give a wrong
        answer where the plain call is right".

    Options
        --profile sets the rounds: 2, 7 or 25.
    """

    code = "PERF001"
    title = "Timed calls are real calls"
    cause = Cause.SLOW_HOST
    classes = ("H2", "H5", "H10", "H11")
    needs = Needs(process=Process.UNTOUCHED, when=When.LATE, group=Group.NONE, alone=True)
    severity = Severity.CRITICAL

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the rows on the largest planned case that fits the device."""
        yield timed(trial)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the timed answers, then the time."""
        reads = reads_of(scenario, run)
        if not reads or answers.first_wrong(reads[0]):
            return
        for read in reads[1:]:
            found = answers.first_wrong(read)
            if found is not None:
                text = f"timed calls give a wrong answer ({found.output}), a plain call a right one"
                extra = measured(found, read.case)
                yield self.finding(text, scenario=scenario, statistic="timed answer", **extra)
                return
        seconds = per_call_s(scenario, run.result)
        least = all_bytes(trial.problem, scenario.cases[0].axes) / _BANDWIDTH
        if seconds is not None and not on_cpu(trial) and seconds < _PLAUSIBLE * least:
            yield self.finding(
                f"a call takes {1e6 * seconds:.3g} us, and moving its inputs and outputs once at "
                f"4.8 TB/s takes {1e6 * least:.3g} us",
                scenario=scenario,
                measured=least / max(seconds, 1e-12),
                allowed=1.0 / _PLAUSIBLE,
                statistic="floor over time",
                where=Where(axes=dict(scenario.cases[0].axes)),
                finding_class=FindingClass.ADVICE,
                severity=Severity.HIGH,
            )


def timed(trial: Trial) -> Scenario:
    """Return the scenario that times a candidate: a plain call, then rounds of four rows."""
    most = _ELEMENTS["cpu" if on_cpu(trial) else "cuda"]
    legal = [case for case in trial.cases("numeric") if case.in_domain]
    fitting = [case for case in legal if elements(trial.problem, case.axes) <= most]
    if not fitting:
        case = trial.cases("small")[0]
    else:
        case = max(fitting, key=lambda case: elements(trial.problem, case.axes))
    draw = random.Random(trial.seed("PERF001", "rows"))
    longer = _LONGER["cpu" if on_cpu(trial) else "cuda"]
    # A CPU's times decide nothing and `quick` shows none there: only the answers count then.
    cold = trial.profile is not Profile.QUICK or not on_cpu(trial)
    steps: list[Step] = [
        *call_steps("a", 0, "plain"),
        Time(slot="a", count=1, flush=cold),
    ]
    for number in range(trial.effort.timing_rounds):
        short = draw.randint(*_SHORT)
        for count in (short, short + draw.randint(*longer)):
            steps.append(Time(slot="a", count=count, idle=True, flush=cold))
            steps.append(Time(slot="a", count=count, result=f"r{number}", flush=cold))
        steps.append(ReadResult(result=f"r{number}"))
    return Scenario(label="timed calls", cases=(case,), steps=tuple(steps))


def per_call_s(scenario: Scenario, result: ScenarioResult) -> float | None:
    """Return the median over rounds of what one call takes, in seconds; None if unknown."""
    times = done_steps(scenario, result, Time)
    if len(times) < sum(isinstance(step, Time) for step in scenario.steps):
        return None
    idle_s = 0.0
    rounds: dict[str, list[tuple[int, float]]] = {}  # by result: calls, seconds beyond idle ones
    for step, record in times:
        if step.idle:
            idle_s = record.duration_s
        elif step.result:
            rounds.setdefault(step.result, []).append((step.count, record.duration_s - idle_s))
    slopes = [
        (long_s - short_s) / (long - short) for (short, short_s), (long, long_s) in rounds.values()
    ]
    found = statistics.median(slopes) if slopes else 0.0
    return found if found > 0 else None
