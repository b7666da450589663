"""PROC001: what importing and calling a kernel leaves behind in its process."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process
from cuassay.checks.numeric.listed_sizes import elements_of, settings
from cuassay.checks.plain_first import measured
from cuassay.checks.state.answers import placed, reads_of, same_bits
from cuassay.checks.state.histories import odd_layouts
from cuassay.checks.state.process_kinds import StateChange, StateKind, changes_of, kind_of
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.reports import Holding, Holdings
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario, Step
from cuassay.model.steps import Arrange, CallOften, Mode, ReadState
from cuassay.model.trace import StepDone, StepRaised, done_steps
from cuassay.model.verdict import Profile

_SHOWN = 4
_PURPOSES = ("small", "numeric")
_LEAK_BYTES = 128 * 1024  # that memory grows by in each of two long spans of calls
_GARBAGE = 100.0  # objects in circles a call: 7 calls then make the collector look at all new ones
# Objects that each call leaves in each of two spans of so many calls. The first two dozen calls of
# a kernel leave some for good (what Python and torch keep of a call site), and a history that ends
# at a hundred or 128 calls grows until then: the last span lies behind that.
_OBJECTS, _SPAN = 0.9, 64
_LEAK_ELEMENTS = 1 << 18  # of a case on which calls are repeated, at most


class StateTrying(enum.StrEnum):
    """What a scenario tries."""

    STATE = "process: after the import and after calls"
    GENERATORS = "process: random numbers"
    REFUSED = "process: after a call that may be refused"
    KEPT = "process: what calls keep"
    MANY = "process: after thousands of calls"
    UNWATCHED = "process: where nothing of cuassay is"


class Proc001(Check):
    """The process stays as it was

    What it does
        Reads some 200 process-wide settings before the kernel is imported, after its import and
        after each of several calls, one of them on tensors in unusual layouts that it may refuse;
        then, on a GPU from `standard` on, once more in another process, which holds nothing of
        cuassay until the calls are over. What is read: precision flags of torch, default dtype and
        device, gradient and autocast modes, threads, rounding and denormal numbers, random
        generators and their seeds, environment, working directory, umask, signal handlers, hooks,
        the current CUDA device and stream, and whether functions that measure, compare and compute
        are the same, and which files of `/proc/self` the kernel's own Python code has opened, and
        whether it has made a socket, or has asked for frames of its callers, objects of the
        process, its limits or functions of the C library. It counts threads, child processes, open
        files, objects of Python and memory while the same call is repeated, in 0.4 seconds at
        `quick` and two above. The smallest call is made 6,000 times in a row at `quick`, 30,000
        times at `standard`, unless that takes longer than 1.5 or 6 seconds; its last result is
        judged.

    Why it matters
        A kernel that switches TF32 on for the whole process changes every other float32 matmul
        of the model, and a reference in the same process with it, so that both agree. A seed
        set in a call makes every later dropout mask the same. A patched timer or
        synchronisation makes any measurement worthless. A thread, a file or a tensor that each
        call keeps ends a server after days.

    How it decides
        Replaced functions that measure or compare are wrong. Numeric flags, seeds, replaced
        library functions, signal handlers, hooks, working directory, umask, CUDA device
        and stream, and variables that CUDA libraries read make the kernel unsafe to embed,
        a condition of use. So does a question about its own process: what the answers are
        for is not known, and one that is right under a judge alone begins with them.
        Random numbers drawn by a deterministic operator, other variables and a stopped
        garbage collector are advice. Threads, processes, open files, objects or memory that
        grow with the number of calls, in two spans of equal length alike, are the condition
        `resources`: one thread, process or file in two calls, an object in each, 100 in each that
        only the garbage collector frees, or 128 KiB of memory in each span. What the reference
        does too is not reported, nor what importing Triton or compiling with torch leaves behind.

    Can it be wrong?
        The kernel shares the process in which this is read. One that restores everything where
        it finds cuassay is seen in the process without it. What it keeps is not seen where a call
        takes long, or where little is kept (less than 250 bytes a call). Memory of the host is
        looked at where nothing of cuassay is: for Python kernels without a GPU. State that is
        changed and put back within a call is not seen, unless the call raises in between. What
        torch, Triton and other installed packages read of `/proc/self` counts for nobody. Of
        native code the functions that it links to are seen, without a GPU: clocks, limits, file
        streams.

    Example
        `torch.set_float32_matmul_precision("high")` at import: "importing it sets
        torch.float32_matmul_precision from highest to high".

    Options
        --require process-state makes the conditions and most of the advice binding.
    """

    code = "PROC001"
    title = "The process stays as it was"
    cause = Cause.PROCESS_STATE
    classes = ("S9", "H2", "H9")
    needs = Needs(process=Process.UNTOUCHED, group=Group.HOST)
    severity = Severity.MEDIUM
    judges_failures = True  # a call that raises is another check's business

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the reads around import and calls, around draws, and around a refusal."""
        small = trial.cases("small")
        axes = settings(trial)[-1:]
        if not small or not axes:
            return
        cases = tuple(placed(case, axes[0]) for case in small[:2])
        steps: list[Step] = [ReadState()]
        for number in range(len(cases)):
            slot = f"s{number}"
            steps += [
                Allocate(slot=slot, case=number),
                Call(slot=slot, result=f"r{number}"),
                ReadState(),
            ]
        yield Scenario(label=StateTrying.STATE, cases=cases, steps=tuple(steps), fresh=True)
        # In the same process: what is drawn once, at a first call, was drawn before.
        yield Scenario(label=StateTrying.GENERATORS, cases=cases, steps=tuple(steps))
        layouts = odd_layouts(trial.problem, cases[0])
        if layouts:
            refused = (
                Allocate(slot="a", case=0),
                Arrange(slot="a", layouts=layouts),
                ReadState(),
                Call(slot="a", result="r"),
                ReadState(),
            )
            yield Scenario(label=StateTrying.REFUSED, cases=cases[:1], steps=refused)
        sizes = [*axes, *(case.axes for what in _PURPOSES for case in trial.cases(what))]
        fits = [of for of in sizes if elements_of(trial.problem, of) <= _LEAK_ELEMENTS]
        largest = max(fits or axes, key=lambda of: elements_of(trial.problem, of))
        often = (
            Allocate(slot="a", case=0),
            Call(slot="a", result="first"),
            ReadResult(result="first"),
            CallOften(slot="a", budget_s=trial.effort.leak_s, result="last"),
            ReadResult(result="first"),
            ReadResult(result="last"),
        )
        yield Scenario(
            label=StateTrying.KEPT, cases=(placed(small[0], dict(largest)),), steps=often
        )
        effort = trial.effort
        many = CallOften(
            slot="a",
            budget_s=effort.many_s,
            most=effort.many_calls,
            looks=False,
            result="last",
        )
        steps_of_many = (*often[:3], many, *often[4:])
        yield Scenario(label=StateTrying.MANY, cases=small[:1], steps=steps_of_many)
        calls = [step for step in steps if not isinstance(step, ReadState)]
        if trial.device.on_gpu and trial.profile is Profile.QUICK:
            return  # another CUDA context, and all that Triton compiles once more
        yield Scenario(
            label=StateTrying.UNWATCHED,
            cases=cases,
            steps=(*calls, ReadState()),
            mode=Mode.APART,
            fresh=True,
        )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report each kind of change once, with what brought it about."""
        if any(isinstance(step, CallOften) for step in scenario.steps):
            for record in run.result.records:
                if isinstance(record, StepDone) and isinstance(record.report, Holdings):
                    for what in _kept(record.report.found):
                        yield self.finding(
                            f"each call keeps {what}",
                            scenario=scenario,
                            finding_class=FindingClass.UNSAFE,
                            severity=Severity.HIGH,
                            condition=f"resources: each call keeps {what}",
                        )
            yield from self._served(scenario, run, answers)
            return
        seen: dict[StateKind, list[_Seen]] = {}
        wanted = (StateKind.DRAWS,) if scenario.label == StateTrying.GENERATORS else ()
        for event, change in _changes(scenario, run):
            kind = kind_of(change.name)
            if (
                kind is StateKind.DRAWS
                and scenario.label != StateTrying.GENERATORS
                and event != _IMPORT
            ):
                continue  # judged where a first call's draws are past
            if kind is not StateKind.NONE and (not wanted or kind in wanted):
                seen.setdefault(kind, []).append(_Seen(event, change))
        for kind, found in seen.items():
            names = list(dict.fromkeys(seen.change.name for seen in found))
            first = {seen.change.name: seen for seen in reversed(found)}
            shown = ", ".join(first[name].change.words for name in names[:_SHOWN])
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            what = f"{kind.verb} {shown}{more}"
            finding_class, severity = kind.verdict
            condition = f"process-state: it {what}" if kind.binds else ""
            details = tuple(
                (f"{first[name].event}: {first[name].change.plain}", first[name].change.full)
                for name in names[:12]
            )
            reach = "" if kind is StateKind.ASKS else ", for the whole process"
            yield self.finding(
                f"{found[0].event} {what}{reach}",
                scenario=scenario,
                finding_class=finding_class,
                severity=severity,
                condition=condition if finding_class is not FindingClass.WRONG else "",
                details=details,
            )

    def _served(self, scenario: Scenario, run: Run, answers: Answers) -> Iterator[Finding]:
        """Yield what the calls in between did to the first result, or to the last one."""
        reads = reads_of(scenario, run)
        if len(reads) != len(_READS):
            return
        first, held, last = reads
        reports = [done.report for _, done in done_steps(scenario, run.result, CallOften)]
        calls = sum(one.found[-1].calls for one in reports if isinstance(one, Holdings))
        wrong: dict[str, Any] = {"finding_class": FindingClass.WRONG, "severity": Severity.CRITICAL}
        if not same_bits(run, first.items, held.items) and not any(
            item.aliases for item in first.items
        ):
            text = (
                f"a result that the caller holds changes within {calls} calls on the same tensors"
            )
            yield self.finding(text, scenario=scenario, cause=Cause.OUTPUT_REUSED, **wrong)
        elif not same_bits(run, first.items, last.items) and not answers.wrong(first):
            for comparison in answers.wrong(last)[:1]:
                text = f"right at first, wrong after {calls} calls on the same tensors"
                yield self.finding(
                    f"{text} ({comparison.output})",
                    scenario=scenario,
                    cause=Cause.CALL_HISTORY,
                    **wrong,
                    **measured(comparison, last.case),
                )


_READS = ("first", "first", "last")  # of the scenario that calls the same again and again


def _kept(found: Sequence[Holding]) -> Iterator[str]:
    """Yield what grows with the number of calls, in each of two spans of as many calls.

    Memory is looked at where the spans are long.
    """
    for number, name in enumerate(("a thread", "a child process", "an open file")):
        counts = [(one.threads, one.processes, one.files)[number] for one in found]
        rises = [
            _rise(found[end - 3 : end], counts[end - 3 : end]) for end in range(3, len(found) + 1)
        ]
        if any(rise is not None and rise >= 0.5 for rise in rises):
            yield name
    rise = _rise(found[-3:], [one.objects for one in found[-3:]])
    long = len(found) > 1 and found[-1].calls - found[-2].calls >= _SPAN
    if rise is not None and long and rise >= _OBJECTS:
        yield "an object of Python"
    rise = _rise(found[-3:], [one.garbage for one in found[-3:]])
    if rise is not None and rise >= _GARBAGE:
        yield f"{rise:,.0f} objects in circles until the collector stops the process"
    for sizes, where in (
        ([one.host_bytes for one in found], "memory of the host"),
        ([one.device_bytes for one in found], "memory of the GPU"),
    ):
        rise = _rise(found[-3:], sizes[-3:])
        calls = found[-1].calls - found[-2].calls if len(found) > 1 else 0
        if rise is not None and rise * calls >= _LEAK_BYTES:
            yield f"{rise:,.0f} bytes of {where}"


def _rise(found: Sequence[Holding], values: Sequence[int]) -> float | None:
    """Return how much a value rises a call, in two spans of calls alike; None where it does not."""
    if len(found) != 3:
        return None
    (a, b), (x, y) = (
        [later - earlier for earlier, later in pairwise(of)]
        for of in ([one.calls for one in found], list(values))
    )
    if min(a, b) <= 0:
        return None
    first, second = x / a, y / b
    return min(first, second) if 0 < first <= 2 * second and second <= 2 * first else None


@dataclass(frozen=True, slots=True)
class _Seen:
    """One change and what had happened since the read before."""

    event: str
    change: StateChange


_IMPORT, _BOTH = "importing it", "importing and calling it"


def _changes(scenario: Scenario, run: Run) -> Iterator[tuple[str, StateChange]]:
    """Yield what each read shows that the one before did not, with what lies between.

    The first read of a process that is not fresh shows what earlier scenarios reported.
    """
    event = _IMPORT if scenario.fresh else ""
    before: dict[str, str] = {}
    calls = 0
    for step, record in zip(scenario.steps, run.result.records, strict=False):
        if isinstance(step, Call):
            calls += 1
            event = f"call {calls}" if scenario.label != StateTrying.UNWATCHED else _BOTH
            if isinstance(record, StepRaised):
                event += f", which raised {record.exception[:60]},"
        if not isinstance(step, ReadState) or isinstance(record, StepRaised):
            continue
        now = dict(record.facts)
        for change in changes_of(before, now) if event else ():
            yield event, change
        before = now
