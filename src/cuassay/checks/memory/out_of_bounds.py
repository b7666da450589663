"""MEM002: writes beyond tensors, and results that depend on memory that nobody wrote."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import exception_text, first_raised, memory_fault, signal_name
from cuassay.checks.judgement import Answers
from cuassay.checks.kernels.configurations import BUDGET_S, MOST
from cuassay.checks.memory.unwritten_outputs import calls_after_each
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.numeric.common import where as where_of
from cuassay.checks.numeric.common import worst_statistic
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import Read, placed, reads_of, same_bits
from cuassay.errors import CannotJudgeError
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, Where
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.scenario import Call, Poison, Scenario
from cuassay.model.steps import Configurations, Mode, ReadGuards
from cuassay.model.trace import Finished, Killed, StepDone, done_steps
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

_POISONS = (Poison.NAN, Poison.NAN, Poison.NEGATED)  # equal bits are asked of the first two
_NAN, _FINITE = "NaN", "a finite number"
_ZONES = ("before", "after", "freed")
_SHOWN = 3
_LIMIT_S, _TAIL_LIMIT_S = 60.0, 300.0  # of a step: a tail walks through configurations
_FAULT_SIGNALS = (4, 6, 7, 11)  # SIGILL, SIGABRT, SIGBUS, SIGSEGV


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A damaged zone as the worker reports it: untrusted, in bounds."""

    zone: str
    label: str
    size: int
    first: int
    changed: int


class Mem002(Check):
    """Guard zones and poison around every allocation

    What it does
        Runs the kernel in a process in which tensors lie between guard zones, and calls it
        three times on the same inputs: fresh memory and zones hold NaN twice, then a large
        finite number. Then every zone is looked at, and memory freed before the last calls.
        On CUDA an allocator below torch guards all that is asked of torch; on the CPU inputs,
        outputs and the fresh tensors that the kernel takes from torch are guarded.

    Why it matters
        A store past the end of a tensor lands in whatever the caching allocator put there: a
        weight, another request's cache. A load past the end, or of a workspace that nobody
        wrote, gives right numbers as long as the memory happens to be clean.

    How it decides
        A changed zone is memory corruption, and so is a device fault or a crash by a memory
        signal. An output that is wrong with a pattern, equal in bits when the memory holds
        the same and different when it does not, depends on memory that was never written or
        is not its own; so does one that is not finite with one pattern and right with the
        other. If all answers are wrong in the same way, the numbers are at fault, which
        NUM001 reports.

    Can it be wrong?
        Memory taken from the driver directly (cudaMalloc), accesses that jump over a zone
        (up to 64 KiB each), shared memory, and writes of the very bytes of a zone stay
        unseen. Where the kernel raises between guard zones alone, the condition `undecided` says
        so.

    Example
        "writes 52 bytes beyond the end of output 'y' (first 0 bytes after its last byte)".

    Options
        None.
    """

    code = "MEM002"
    title = "Guard zones and poison around every allocation"
    cause = Cause.OUT_OF_BOUNDS
    classes = ("M3", "M4", "M5", "M6", "M7", "L8")
    needs = Needs(when=When.DECISIVE, split=Split.ANY_SIDE, group=Group.MEMORY, mode=Mode.GUARDED)
    judges_failures = True
    least_decided = 0.0  # guard zones take memory of their own, and may run out of it

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario per shape: small, listed, later odd tails with every configuration."""
        small = trial.cases("small")[:1]
        cases: list[Case] = [placed(case, axes) for axes in settings(trial) for case in small]
        tails: list[Case] = []
        if trial.profile is not Profile.QUICK:
            beyond = [placed(c, k.axes) for k in trial.cases("beyond")[-1:] for c in small]
            for case in (*_tails(trial), *beyond):
                if all(dict(case.axes) != dict(known.axes) for known in (*cases, *tails)):
                    tails.append(case)
        for case in (*cases, *tails):
            steps = [*calls_after_each(_POISONS)]
            if case in tails:
                # What an autotuner would choose elsewhere writes beyond a tail that the chosen
                # block does not have.
                kind = trial.device.kind
                steps.append(Configurations(slot="a", most=MOST[kind], budget_s=BUDGET_S[kind]))
            label = f"guard zones: {case.label}"
            steps.append(ReadGuards())
            yield Scenario(
                label=label,
                cases=(case,),
                steps=tuple(steps),
                mode=Mode.GUARDED,
                timeout_s=_TAIL_LIMIT_S if case in tails else _LIMIT_S,
            )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report damaged zones, then faults, then outputs that follow what memory holds."""
        case = scenario.cases[0]
        looked = done_steps(scenario, run.result, ReadGuards)
        record = looked[0][1] if looked else None
        if record is not None and dict(record.facts).get("reach") == "nothing":
            raise CannotJudgeError("guard zones could not be put around this process's memory")
        damaged = damaged_zones(record)
        if damaged:
            shown = [_zone_text(zone, trial.problem) for zone in damaged[:_SHOWN]]
            for text, output in dict.fromkeys(shown):
                where = Where(output=output, axes=dict(case.axes))
                yield self.finding(f"{text} ({_sizes(case)})", scenario=scenario, where=where)
            return
        # Raises CannotJudgeError where the run ended in another way: other checks, in plain
        # processes, report that
        end = run.result.termination
        raised = first_raised(run)
        if raised is not None and not memory_fault(raised):
            raise CannotJudgeError(f"between guard zones it raised {exception_text(raised)}")
        if raised is not None:
            fault = "a device fault where tensors lie apart: an access outside of every allocation"
        elif (
            isinstance(end, Killed)
            and end.signal in _FAULT_SIGNALS
            and 0 <= end.index < len(scenario.steps)
            and isinstance(scenario.steps[end.index], Call)
        ):
            fault = f"the process died of {signal_name(end.signal)} where tensors lie between zones"
        else:
            if not isinstance(end, Finished):
                raise CannotJudgeError("it did not come to an end between guard zones")
            fault = ""
        if fault:
            where = Where(axes=dict(case.axes))
            yield self.finding(f"{fault} ({_sizes(case)})", scenario=scenario, where=where)
            return
        reads = reads_of(scenario, run)
        if len(reads) == len(_POISONS):
            compared = [answers.wrong(read) for read in reads]
            names = [{found.output for found in each} for each in compared]
            for spec in trial.problem.outputs:
                wrong = [spec.name in each for each in names]
                if wrong[0] != wrong[1] or not any(wrong):
                    continue  # a result that varies by itself is DET001's business
                worst = next(f for each in compared for f in each if f.output == spec.name)
                swallowed = not all(wrong) and not math.isfinite(worst.got)
                if swallowed or _follows(trial, run, reads, output=spec):
                    yield self._of_comparison(scenario, worst, wrong)

    def _of_comparison(
        self, scenario: Scenario, comparison: Comparison, wrong: Sequence[bool]
    ) -> Finding:
        case, worst = scenario.cases[0], worst_statistic(comparison)
        lead = (
            f"{comparison.output} depends on memory that the kernel never wrote, or "
            "that is not its own"
        )
        if all(wrong):
            dependence = f"{lead}: wrong, and otherwise when that memory holds other bytes"
        else:
            bad, good = (_NAN, _FINITE) if wrong[0] else (_FINITE, _NAN)
            dependence = f"{lead}: wrong where it holds {bad}, right where it holds {good}"
        return self.finding(
            dependence,
            scenario=scenario,
            measured=worst.value if worst else None,
            allowed=worst.limit if worst else None,
            where=where_of(comparison, case, worst),
            cause=Cause.UNINITIALISED,
        )


def _tails(trial: Trial) -> list[Case]:
    """Return the first planned shape of which every size may be odd and is."""
    axes = [axis.name for axis in trial.problem.var_axes()]
    shapes = [case for case in trial.cases("shapes") if case.in_domain]
    odd = [c for c in shapes if all(c.axes[name] % 2 and c.axes[name] > 2 for name in axes)]
    small = trial.cases("small")[:1]
    return [placed(case, found.axes) for found in odd[:1] for case in small]


def damaged_zones(record: StepDone | None) -> list[Zone]:
    """Return what a ReadGuards reports, leaving out whatever is not plausible."""
    found = []
    for name, text in record.facts if record is not None else ():
        zone = _zone(text) if name == "damage" else None
        if zone is not None:
            found.append(zone)
    return found


def _zone(text: str) -> Zone | None:
    try:
        held = json.loads(text)
        numbers = {name: int(held[name]) for name in ("size", "first", "changed")}
        zone, label = str(held["zone"]), str(held["label"])[:80]
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None
    if zone not in _ZONES or not all(0 <= number < 1 << 48 for number in numbers.values()):
        return None
    return Zone(zone=zone, label=label, **numbers)


def _zone_text(zone: Zone, problem: Problem) -> tuple[str, str]:
    """Return a sentence about a damaged zone, and the output it belongs to."""
    inputs = {spec.name for spec in problem.inputs if isinstance(spec, TensorSpec)}
    outputs = {spec.name for spec in problem.outputs}
    owner = f"an allocation of {zone.size:,} bytes"
    if zone.label in inputs:
        owner = f"input '{zone.label}' ({zone.size:,} bytes)"
    elif zone.label in outputs:
        owner = f"output '{zone.label}' ({zone.size:,} bytes)"
    output = zone.label if zone.label in outputs else ""
    count = f"writes {zone.changed:,} byte{'s' if zone.changed != 1 else ''}"
    match zone.zone:
        case "before":
            text = f"{count} before the start of {owner}, the nearest {zone.first:,} bytes from it"
        case "after":
            text = f"{count} beyond the end of {owner}, the first {zone.first:,} bytes after it"
        case _:
            text = f"{count} into {owner} that was freed by an earlier call, at {zone.first:,}"
    return text, output


def _sizes(case: Case) -> str:
    return ", ".join(f"{name} = {size}" for name, size in case.axes.items()) or "its only shape"


def _follows(trial: Trial, run: Run, reads: Sequence[Read], *, output: TensorSpec) -> bool:
    """Whether an output has the same bits where memory holds the same, and others elsewhere."""
    position = [spec.name for spec in trial.problem.outputs].index(output.name)
    if any(len(read.items) != len(trial.problem.outputs) for read in reads):
        return False
    first, second, third = (
        dataclasses.replace(read, items=read.items[position : position + 1]) for read in reads
    )
    equal = same_bits(run, first.items, second.items)
    return equal and not same_bits(run, first.items, third.items)
