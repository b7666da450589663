"""What the checks on the PTX machine share: which launches are executed, and how faults read.

The candidate is called once a case, on sizes small enough for a CPU; its launches are recorded
where they happen, on the GPU if there is one, and executed again by the machine
(`Trial.machine`). Block shapes are the candidate's own; grids follow from the sizes, which are
chosen so that tails are hit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cuassay.checks.base import Check, Machine, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.kernels.facts import cleaned_text
from cuassay.checks.memory.masked_values import with_anything
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.listed_sizes import elements_of, settings
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.inputs.geometry import shrunk_sizes
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.machine import WRAPPED, LaunchEvidence, MachineEvidence, MachineFault
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Call, Poison, ReadResult, Scenario
from cuassay.model.steps import Configurations, ReadRecording, RecordLaunches
from cuassay.model.trace import ScenarioResult, done_steps

if TYPE_CHECKING:
    import torch

_ELEMENTS = 1 << 18  # of inputs and outputs together: what a CPU executes in seconds
# Of one case where none is smaller: its launches may take too long, and are then not judged.
_LARGE_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 25}
_HOT_ELEMENTS = 1 << 19
_SHOWN = 3
_COVERS = "not covered: weak memory, what ptxas makes of the PTX, code paths of other architectures"


def recorded_call(
    case: Case, *, on_gpu: bool = False, outline: bool = False, operations: bool = False
) -> Scenario:
    """Return the scenario that records one call's launches, with `operations` torch's as well.

    With `outline` no kernel runs and no memory is kept.
    """
    return Scenario(
        label=f"launches: {case.label}",
        cases=(case,),
        steps=(
            Allocate(slot="a", case=0),
            RecordLaunches(on_gpu=on_gpu, outline=outline, operations=operations),
            Call(slot="a", result="r", poison=Poison.NAN),
            ReadRecording(result="r"),
            ReadResult(result="r"),
        ),
        timeout_s=120.0,
    )


def recorded_configurations(trial: Trial, case: Case) -> Scenario:
    """Return the scenario that records calls with other configurations of Triton's autotuners.

    So many that each value of each parameter occurs once, as far as there is time.
    """
    most, budget_s = trial.effort.other_configurations, trial.effort.other_configurations_s
    case = dataclasses.replace(case, label=f"{case.label}, other configurations of the autotuner")
    return Scenario(
        label=f"launches: {case.label}",
        cases=(case,),
        steps=(
            Allocate(slot="a", case=0),
            RecordLaunches(on_gpu=trial.device.on_gpu),
            Configurations(slot="a", most=most, budget_s=budget_s, covering=True),
            ReadRecording(),
        ),
        timeout_s=120.0,
    )


def recorded_calls(trial: Trial, cases: Iterable[Case]) -> Iterator[Scenario]:
    """Yield a call a case whose launches are recorded, on the trial's GPU where it has one.

    There a candidate may mix its kernels with any operator of torch; a CPU has none of those
    that torch keeps for a GPU.
    """
    on_gpu = trial.device.on_gpu
    yield from (recorded_call(case, on_gpu=on_gpu) for case in cases)


def machine_cases(trial: Trial) -> list[Case]:
    """Return the cases whose launches are executed: a small one, then neighbours with tails."""
    small = trial.cases("small")[:1]
    found = [placed(case, sizes) for sizes in settings(trial)[-1:] for case in small]
    near = sorted(trial.cases("shapes"), key=lambda case: elements_of(trial.problem, case.axes))
    found += [case for case in near if case.in_domain and elements_of(trial.problem, case.axes) > 1]
    found.sort(key=lambda case: elements_of(trial.problem, case.axes) > _ELEMENTS)
    fitting = [case for case in found if elements_of(trial.problem, case.axes) <= _ELEMENTS]
    # Constant axes may make every case large: one of them then, as far as the time allows.
    most = _LARGE_ELEMENTS[trial.device.kind]
    large = [c for c in found[:1] if elements_of(trial.problem, c.axes) <= most]
    return fitting[: trial.effort.machine_cases] or large


def hot_cases(trial: Trial) -> list[Case]:
    """Return a case with many additions into one place, as many as a CPU can execute."""

    def fits(sizes: Mapping[str, int]) -> bool:
        return elements_of(trial.problem, sizes) <= _HOT_ELEMENTS

    hot = trial.cases("hot")
    shorter = (
        placed(case, shrunk_sizes(trial.problem, case.axes, small_enough=fits)) for case in hot[:1]
    )
    return [case for case in (*hot, *shorter) if fits(case.axes)][:1]


class MachineCheck(Check):
    """Base of the checks on what the PTX machine sees: subclasses name their kinds of fault."""

    needs = Needs(when=When.EXECUTED, group=Group.MACHINE)
    least_decided = 0.0  # a candidate may keep a launch to itself, as it may launch none
    kinds: ClassVar[frozenset[str]]
    clean_words: ClassVar[str]  # what is said of launches without such a fault

    def skip(self, trial: Trial) -> str:
        """Only kernels whose PTX can be had are executed."""
        return trial.machine.absent if trial.machine is not None else "no PTX machine here"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one recorded call a case, then calls with other configurations of an autotuner."""
        # An address that is made of what may be anything is wrong nowhere else on a CPU.
        cases = [with_anything(trial, case) for case in machine_cases(trial)]
        yield from recorded_calls(trial, cases)
        if cases and trial.machine is not None and trial.machine.tunes:
            yield recorded_configurations(trial, cases[0])

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report the distinct faults of this check's kinds, worst first."""
        walks = tuple(_walks(scenario, run.result))
        if any(walk.total < 2 for walk in walks):
            raise NothingToCheckError("no autotuner of the candidate has another configuration")
        machine, evidence = _executed(trial, scenario, run)
        faults = [(launch, one) for launch, one in evidence.faults if self.reports(one)]
        others = tuple(("configuration", name) for walk in walks for name in walk.executed)
        for finding in self.found(machine, scenario, faults, case=scenario.cases[0]):
            yield dataclasses.replace(finding, details=(*finding.details, *others))
        if not faults:
            # Raise CannotJudgeError where a launch was not executed to its end: never a pass
            for launch in evidence.launches:
                if launch.inconclusive:
                    raise CannotJudgeError(
                        f"'{launch.kernel}' was not executed: {launch.inconclusive}"
                    )

    def found(
        self,
        machine: Machine,
        scenario: Scenario,
        faults: Sequence[tuple[LaunchEvidence, MachineFault]],
        *,
        case: Case,
    ) -> Iterator[Finding]:
        """Yield a finding for each distinct fault, the worst ones alone where there are many."""
        # Faults of which no two are of one kind on the same lines: one cause, one finding
        first: dict[object, tuple[LaunchEvidence, MachineFault]] = {}
        for launch, fault in faults:
            lines = frozenset((one.file, one.line or one.ptx_line) for one in fault.touches)
            first.setdefault((launch.kernel, fault.kind, lines), (launch, fault))
        distinct = list(first.values())
        ordered = sorted(distinct, key=lambda pair: pair[1].severity != "wrong")
        for launch, fault in ordered[:_SHOWN]:
            yield self._finding_of(machine, scenario, launch, fault, case)

    def reports(self, fault: MachineFault) -> bool:
        """Whether a fault is this check's business."""
        return fault.kind in self.kinds and fault.severity != "advice"

    def cause_of(self, fault: MachineFault) -> Cause | None:
        """Return what a fault is known to be caused by."""
        return self.cause

    def condition_of(self, fault: MachineFault) -> str:
        """Return the condition of use that a fault makes, empty where it makes none."""
        return ""

    def classed(self, fault: MachineFault) -> tuple[FindingClass, Severity]:
        """Return the class and severity of a fault's finding."""
        if self.condition_of(fault):
            return FindingClass.UNSAFE, Severity.MEDIUM
        if fault.severity == "wrong":
            return self.finding_class, self.severity
        return FindingClass.ADVICE, Severity.LOW

    def said(self, trial: Trial, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Say how far a pass reaches: all data at these shapes, or these inputs."""
        machine, scenarios = trial.machine, [scenario for scenario, _ in seen]
        if machine is None or not scenarios:
            return ""
        walks = [walk for scenario, result in seen for walk in _walks(scenario, result)]
        plain = [scenario for scenario, result in seen if not any(_walks(scenario, result))]
        shapes = "; ".join(_shape(trial, scenario.cases[0]) for scenario in plain)
        reach = f"holds for all data at {shapes}"
        if not machine.oblivious(scenarios):
            reach = f"for these inputs at {shapes}: branches or addresses depend on data"
        judged, made, why = machine.launches(scenarios)
        gap = f" ({why})" if why else ""
        counted = f"{judged} of {made} launches judged{gap}"
        for walk in walks:
            some = f"{1 + len(walk.executed)} of {walk.total}"
            counted += f"; {some} configurations of the autotuner executed"
        return f"{self.clean_words}; {counted}; {reach}; {_COVERS}"

    def _finding_of(
        self,
        machine: Machine,
        scenario: Scenario,
        launch: LaunchEvidence,
        fault: MachineFault,
        case: Case,
    ) -> Finding:
        kind, severity = self.classed(fault)
        name = launch.title or launch.kernel
        first = fault.touches[0] if fault.touches else None
        place = f" ({first.file}:{first.line})" if first and first.line else ""
        details: list[tuple[str, str]] = []
        for number, touch in enumerate(fault.touches):
            who = ""
            if touch.thread:
                who = f" by thread {_tuple(touch.thread)} of block {_tuple(touch.block)}"
            elif touch.block:
                who = f" in program {_tuple(touch.block)}"
            line = f", PTX line {touch.ptx_line}" if touch.ptx_line else ""
            made = bool(number) and fault.kind == WRAPPED
            access = "address made by" if made else "other access" if number else "access"
            details.append((access, f"{touch.what}{who}{line}"))
            text = machine.line(touch.file, touch.line)
            if text:
                details.append((f"{touch.file}:{touch.line}", text))
        if fault.allocation:
            offset = "" if fault.offset is None else f", byte {fault.offset}"
            details.append(("allocation", f"{fault.allocation}{offset}"))
        if fault.count > 1:
            details.append(("times", str(fault.count)))
        details.extend(((name, f"{value:.4g}") for name, value in fault.measures.items()))
        grid, block = (" x ".join(map(str, extent)) for extent in (launch.grid, launch.block))
        # What wrapped is to be repaired, where an access shows it.
        blamed = fault.touches[::-1] if fault.kind == WRAPPED else fault.touches
        details.append(("launch", f"{name}, {grid} blocks of {block} threads, {launch.target}"))
        return self.finding(
            f"{name}{place}: {fault.text}",
            scenario=scenario,
            where=Where(axes=dict(case.axes), group=name),
            details=tuple(details),
            finding_class=kind,
            severity=severity,
            cause=self.cause_of(fault),
            condition=self.condition_of(fault),
            evidence="\n".join(launch.printed),
            lines=tuple(
                SourceLine(
                    file=touch.file,
                    line=touch.line,
                    text=machine.line(touch.file, touch.line),
                    what=touch.what,
                )
                for touch in blamed
                if touch.line
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Which other configurations of an autotuner were executed, of how many in all."""

    total: int
    executed: tuple[str, ...]


def _walks(scenario: Scenario, result: ScenarioResult) -> Iterator[_Walk]:
    """Yield what the candidate's process says of a scenario that walks through configurations."""
    for _, record in done_steps(scenario, result, Configurations):
        facts = dict(record.facts)
        total = cleaned_text(facts.get("configurations", "0"), 6)
        yield _Walk(
            total=int(total) if total.isdecimal() else 0,
            executed=tuple(
                cleaned_text(name, 200)
                for key, name in facts.items()
                if key.startswith("configuration ") and name
                if f"refused {key.split()[-1]}" not in facts
            ),
        )


def recorded_evidence(trial: Trial, scenario: Scenario, run: Run) -> MachineEvidence:
    """Return what the machine saw in a run of `recorded_call`. Raises CannotJudgeError."""
    return _executed(trial, scenario, run)[1]


def recording_of(scenario: Scenario, run: Run) -> torch.Tensor | None:
    """Return the recording (uint8) that a run of `recorded_call` sent; None where it sent none."""
    for _, record in done_steps(scenario, run.result, ReadRecording):
        return run.tensor(record.items[0]) if record.items else None
    return None


def _executed(trial: Trial, scenario: Scenario, run: Run) -> tuple[Machine, MachineEvidence]:
    machine, recording = trial.machine, recording_of(scenario, run)
    if machine is None or recording is None:
        raise CannotJudgeError("the call's launches were not recorded")
    evidence = machine.execute(recording, scenario)
    if evidence.refused:
        raise CannotJudgeError(f"the launches cannot be executed: {evidence.refused}")
    if not evidence.launches and evidence.notes:
        raise CannotJudgeError(f"no launch could be recorded: {evidence.notes[0]}")
    if not evidence.launches:
        raise NothingToCheckError("the candidate launched no kernel of its own")
    return machine, evidence


def _tuple(numbers: Sequence[int]) -> str:
    return f"({', '.join(map(str, numbers))})"


def _shape(trial: Trial, case: Case) -> str:
    names = [axis.name for axis in trial.problem.var_axes()] or sorted(case.axes)
    return ", ".join(f"{name} = {case.axes[name]}" for name in names)
