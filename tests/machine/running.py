"""Runs the corpus in the PTX machine and says what came out, in words and in kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from cuassay.errors import CuassayError
from cuassay.machine.findings import Kind, MachineReport, Severity
from tests.machine import faults_hopper as hopper
from tests.machine import faults_memory as memory
from tests.machine import faults_races as races
from tests.machine.case import Fault, Kernel
from tests.machine.corpus import mistakes, prepare, ptx
from tests.machine.triton_corpus import TritonCase

if TYPE_CHECKING:
    from cuassay.machine.launch import Launch
    from cuassay.machine.syntax import Module

Executor: TypeAlias = "Callable[[str, Module, Launch], MachineReport]"
_RACES = frozenset({Kind.RACE})
_KINDS: dict[str, frozenset[Kind]] = {
    memory.BOUNDS: frozenset({Kind.OUT_OF_BOUNDS}),
    memory.NEIGHBOUR: frozenset({Kind.OUT_OF_BOUNDS}),
    memory.ALIGNMENT: frozenset({Kind.MISALIGNED}),
    memory.UNWRITTEN: frozenset({Kind.UNINITIALISED}),
    memory.OVERFLOW: frozenset({Kind.OUT_OF_BOUNDS, Kind.ADDRESS_OVERFLOW}),
    races.SHARED: _RACES,
    races.GLOBAL: _RACES,
    races.WARP: _RACES,
    races.FENCE: _RACES,
    races.DIVERGENCE: frozenset({Kind.DIVERGENT_BARRIER, Kind.DIVERGENT_COLLECTIVE, Kind.DEADLOCK}),
    hopper.PHASE: frozenset({Kind.DEADLOCK}),
    hopper.FLIGHT: _RACES,
    hopper.OBJECT: frozenset({Kind.MBARRIER, Kind.RACE}),
    hopper.PROXY: frozenset({Kind.PROXY_FENCE}),
    hopper.CLUSTER: frozenset({Kind.RACE, Kind.EXITED_SHARED, Kind.OUT_OF_BOUNDS}),
    hopper.SHAPE: frozenset({Kind.BAD_COPY}),
    races.DEADLOCK: frozenset({Kind.DEADLOCK, Kind.DIVERGENT_BARRIER}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the machine said of one kernel: kinds seen, texts, whether its answer was right.

    `found` are the kinds that a correct kernel must not show; `refused` why it was not run.
    """

    kinds: frozenset[Kind] = frozenset()
    found: frozenset[Kind] = frozenset()
    texts: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    refused: str = ""
    oblivious: bool = False
    lane_instructions: int = 0
    reports: tuple[MachineReport, ...] = field(default=(), repr=False)


def expected_kinds(fault: Fault) -> frozenset[Kind]:
    """Return the kinds of which one has to be reported for a fault."""
    return _KINDS.get(fault.kind, frozenset({Kind.PRECISION}))


def executed(kernel: Kernel, *, schedule: str = "forward", seed: int = 0) -> Outcome:
    """Execute a CUDA kernel of the corpus with every check on."""
    from cuassay.machine.options import Options
    from cuassay.machine.run import run

    try:
        module = parsed(ptx(kernel.text(), kernel.arch))
        prepared = prepare(kernel, seed)
        report = run(module, prepared.launch, options=Options(schedule=schedule, limit_s=30.0))
    except CuassayError as error:
        return Outcome(refused=f"{type(error).__name__}: {error}")
    wrong = mistakes(kernel, prepared) if not report.inconclusive else []
    return outcome_of([report], wrong)


@lru_cache(maxsize=256)
def parsed(text: str) -> Any:
    """Return the module of a PTX text."""
    from cuassay.machine.parser import parse

    return parse(text)


def outcome_of(reports: list[MachineReport], wrong: list[str]) -> Outcome:
    """Return the outcome of launches: everything seen but advice."""
    seen = [f for report in reports for f in report.findings if f.severity is not Severity.ADVICE]
    serious = [f for f in seen if f.severity is Severity.WRONG or f.kind is Kind.PRECISION]
    refused = next((report.inconclusive for report in reports if report.inconclusive), "")
    return Outcome(
        kinds=frozenset(f.kind for f in seen),
        found=frozenset(f.kind for f in serious),
        texts=tuple(f.text for f in seen),
        mistakes=tuple(wrong),
        refused=refused or "",
        oblivious=all(report.oblivious for report in reports),
        lane_instructions=sum(report.statistics.lane_instructions for report in reports),
        reports=tuple(reports),
    )


def executed_triton(case: TritonCase) -> Outcome:
    """Execute a Triton wrapper of the corpus: its launches run in the machine, checks on."""
    reports: list[MachineReport] = []
    try:
        call = _wrapper(case, _checked(reports))
        torch.manual_seed(0)
        inputs = list(case.make())
        found = call(*inputs)
    except CuassayError as error:
        return Outcome(refused=f"{type(error).__name__}: {error}")
    wrong = []
    outputs = found if isinstance(found, tuple | list) else (found,)
    for number, (got, right) in enumerate(zip(outputs, case.expect(*inputs), strict=True)):
        limit = case.tolerance * max(1.0, float(right.abs().max()))
        error_ = float((got.double() - right.double()).abs().max())
        if not error_ <= limit:
            wrong.append(f"output {number}: off by {error_:.3g}, allowed {limit:.3g}")
    return outcome_of(reports, wrong)


def triton_launches(case: TritonCase) -> list[tuple[str, Launch]]:
    """Return every launch of a wrapper of the corpus, with its PTX. Raises CuassayError."""
    kept: list[tuple[str, Launch]] = []

    def keep(text: str, module: Module, launch: Launch) -> MachineReport:
        from cuassay.machine.options import Options
        from cuassay.machine.run import run

        kept.append((text, launch))
        return run(module, launch, options=Options(shadow=False, races=False, limit_s=60.0))

    torch.manual_seed(0)
    _wrapper(case, keep)(*case.make())
    return kept


def _checked(reports: list[MachineReport]) -> Executor:
    """Return what executes a launch with every check on and keeps its report."""

    def execute(text: str, module: Module, launch: Launch) -> MachineReport:
        from cuassay.machine.options import Options
        from cuassay.machine.run import run

        reports.append(run(module, launch, options=Options(limit_s=60.0)))
        return reports[-1]

    return execute


def _wrapper(case: TritonCase, execute: Executor) -> Callable[..., Any]:
    """Return a case's wrapper, whose launches go to `execute`."""
    import importlib

    from cuassay.build.cuda_facade import cuda_facade
    from cuassay.build.machine import triton_kernels as machine_triton
    from cuassay.build.machine.launch import MachineLauncher, prepared, raise_fault
    from cuassay.build.machine.memory import Arena

    class Handed(MachineLauncher):
        """Hands launches on."""

        def _run(self, ptx: str, launch: Any) -> MachineReport:
            report = execute(ptx, self._module(ptx), prepared(launch, self.arena))
            raise_fault(launch.kernel, report)
            return report

    launcher = Handed(arena=Arena())
    machine_triton.enable(launcher, arch=case.arch, multiprocessors=4)
    module = importlib.import_module(f"tests.machine.{case.module}")

    def call(*arguments: torch.Tensor) -> Any:
        named = {f"argument {number}": value for number, value in enumerate(arguments)}
        with cuda_facade(), launcher.arena.watching(named, ()):
            return getattr(module, case.function)(*arguments)

    return call
