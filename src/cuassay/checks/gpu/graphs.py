"""GRAPH001: captured in a CUDA graph and replayed on other values."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.endings.findings import exception_text, first_raised, termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split
from cuassay.checks.plain_first import measured, other_values, with_scalars
from cuassay.checks.state.answers import Read, placed, reads_of
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import (
    Call,
    PoisonFreed,
    ReadResult,
    Refill,
    Scenario,
    Step,
    call_steps,
)
from cuassay.model.steps import Capture, Replay

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

_REPLAYS = 3
_MOVED = 4  # scalars changed, each below a graph of its own


class GraphTrying(enum.StrEnum):
    """What a scenario tries."""

    VALUES = "graphs: captured once, replayed on other values"
    SHAPES = "graphs: two shapes captured, replayed in turn"
    SCALARS = "graphs: scalars changed after the capture"


class Graph001(Check):
    """Captured and replayed in a CUDA graph

    What it does
        Warms up on a side stream, captures one call in a CUDA graph, and replays it three
        times while the inputs are refilled in place, the captured outputs and all freed memory
        are filled with 0xFF, and plain calls come between. A second graph at another shape is
        captured beside it and both are replayed in turn; scalars are changed below a graph.

    Why it matters
        Servers and training loops capture their steps. Work on another stream is missing from
        the graph, which then replays nothing; values read on the host are frozen; workspace
        that is freed after the capture belongs to somebody else at the replay.

    How it decides
        Each replay must give the right answer for the values that the inputs hold then. A
        wrong replay, a call that cannot be captured, and a plain call that fails after a
        capture was refused are conditions of use. Scalars that a replay keeps as they were at
        capture are a condition of their own, `graph-scalars`: every launch freezes its
        arguments, the reference's too, and callers have to know.

    Can it be wrong?
        An operator whose reference synchronises cannot be captured by anybody; the reference
        goes through the same scenario and then nothing is reported.

    Example
        `cudaMemcpy` of one index to the host: "cannot be captured: operation not permitted
        when stream is capturing".

    Options
        --require graphs makes the condition binding, --require graph-scalars the one on
        scalars.
    """

    code = "GRAPH001"
    title = "Captured and replayed in a CUDA graph"
    cause = Cause.GRAPH
    classes = ("S7", "A10", "L8")
    needs = Needs(split=Split.ANY_SIDE, group=Group.NONE, gpu=True)
    finding_class = FindingClass.UNSAFE
    severity = Severity.HIGH
    judges_failures = True

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one shape, then two shapes in turn, then other scalars."""
        base = with_scalars(trial, trial.cases("small")[0])
        others = other_values(trial, base, _REPLAYS - 1, purpose=self.code)
        steps: list[Step] = [
            *call_steps("a", 0, "plain"),
            Capture(slot="a", graph="g"),
            Call(slot="a", result="after"),
            ReadResult(result="after"),
        ]
        for number in range(1 + len(others)):
            steps += [
                Refill(slot="a", case=number),
                PoisonFreed(),
                Replay(graph="g", result=f"replay{number}"),
                ReadResult(result=f"replay{number}"),
            ]
        steps += [Call(slot="a", result="last"), ReadResult(result="last")]
        yield Scenario(
            label=GraphTrying.VALUES, cases=(base, *others), steps=tuple(steps), fresh=True
        )
        for case in trial.cases("shapes"):
            if case.in_domain and dict(case.axes) != dict(base.axes) and min(case.axes.values()):
                yield _two(base, placed(others[0], case.axes))
                break
        # A pair of cases for each scalar, at most four, in which all else holds the same values
        pairs: dict[str, tuple[Case, Case]] = {}
        cases = trial.cases("arguments")
        for plain, moved in zip(cases[::2], cases[1::2], strict=False):
            names = [k for k, v in moved.scalars.items() if plain.scalars.get(k) != v]
            if len(names) == 1 and len(pairs) < _MOVED:
                pairs.setdefault(names[0], (plain, moved))
        if pairs:
            yield _other_scalars(list(pairs.values()))

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame the first replay that is wrong, or the capture that failed."""
        refused = first_raised(run)
        if refused is None:
            ended = termination_finding(scenario, run, problem=trial.problem)
            if ended is not None:
                yield ended
                return
        elif not isinstance(scenario.steps[refused.index], Capture | Replay):
            return  # a plain call that raises is RUN001's or SHP001's
        reads = reads_of(scenario, run)
        if not reads or answers.first_wrong(reads[0]):
            return
        if refused is not None:
            if scenario.label == GraphTrying.SCALARS:
                return  # the other scenarios have said so
            after = next(
                (
                    n
                    for n, s in enumerate(scenario.steps)
                    if n > refused.index and isinstance(s, Call)
                ),
                None,
            )
            text = f"cannot be captured in a CUDA graph: {exception_text(refused)}"
            if after is not None and done(run, after) is None:
                text += "; after the refused capture the next plain call fails as well"
            yield self.finding(
                text,
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes)),
                condition="graphs: not captured in CUDA graphs",
                evidence=refused.traceback[-4000:],
            )
            return
        if scenario.label == GraphTrying.SCALARS:
            yield from self._frozen(scenario, answers, reads=reads)
            return
        for read in reads[1:]:
            found = answers.first_wrong(read)
            if found is not None:
                yield self._wrong(scenario, answers, read=read, found=found)
                return

    def _frozen(
        self, scenario: Scenario, answers: Answers, *, reads: Sequence[Read]
    ) -> Iterator[Finding]:
        """Name the scalars whose change a replay does not follow; cases come in pairs."""
        names = []
        for read in reads:
            place = scenario.cases.index(read.case)
            if place % 2 == 0 or not answers.first_wrong(read):
                continue
            before = scenario.cases[place - 1]
            if answers.is_right_for(before, read):
                names += [k for k, v in read.case.scalars.items() if before.scalars.get(k) != v]
        if names:
            kept = ", ".join(dict.fromkeys(names))
            yield self.finding(
                f"a replayed graph keeps the scalars of its capture ({kept})",
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes)),
                severity=Severity.LOW,
                condition=f"graph-scalars: {kept} as at capture; capture anew for other values",
            )

    def _wrong(
        self, scenario: Scenario, answers: Answers, *, read: Read, found: Comparison
    ) -> Finding:
        replayed = read.result.startswith("replay")
        text = "a replayed graph gives a wrong answer" if replayed else "is wrong after a capture"
        if answers.answer_to(read, scenario.cases) is not None:
            text += ": the one to values that the inputs no longer hold"
        return self.finding(
            f"{text} ({found.output})",
            scenario=scenario,
            condition="graphs: not captured in CUDA graphs",
            **measured(found, read.case),
        )


def _other_scalars(pairs: Sequence[tuple[Case, Case]]) -> Scenario:
    steps: list[Step] = []
    for number in range(len(pairs)):
        slot = f"s{number}"
        steps += [
            *call_steps(slot, 2 * number, f"plain{number}"),
            Capture(slot=slot, graph=slot),
            Refill(slot=slot, case=2 * number + 1),
            Replay(graph=slot, result=f"replay{number}"),
            ReadResult(result=f"replay{number}"),
        ]
    cases = tuple(case for pair in pairs for case in pair)
    return Scenario(label=GraphTrying.SCALARS, cases=cases, steps=tuple(steps), fresh=True)


def _two(base: Case, other: Case) -> Scenario:
    steps: list[Step] = []
    for number, slot in enumerate("ab"):
        steps += [
            *call_steps(slot, number, f"plain {slot}"),
            Capture(slot=slot, graph=slot),
        ]
    for turn, slot in enumerate("abab"):
        steps += [
            PoisonFreed(),
            Replay(graph=slot, result=f"replay{turn}"),
            ReadResult(result=f"replay{turn}"),
        ]
    return Scenario(label=GraphTrying.SHAPES, cases=(base, other), steps=tuple(steps), fresh=True)
