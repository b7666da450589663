"""Runs the corpus in the PTX machine and says what came out, in words and in kinds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ptxsan.errors import PtxsanError
from ptxsan.findings import Kind, MachineReport, Severity
from ptxsan_corpus import faults_hopper as hopper
from ptxsan_corpus import faults_memory as memory
from ptxsan_corpus import faults_races as races
from ptxsan_corpus.case import Fault, Kernel
from ptxsan_corpus.corpus import mistakes, prepare, ptx

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
    from ptxsan.options import Options
    from ptxsan.run import run

    try:
        module = parsed(ptx(kernel.text(), kernel.arch))
        prepared = prepare(kernel, seed)
        report = run(module, prepared.launch, options=Options(schedule=schedule, limit_s=30.0))
    except PtxsanError as error:
        return Outcome(refused=f"{type(error).__name__}: {error}")
    wrong = mistakes(kernel, prepared) if not report.inconclusive else []
    return outcome_of([report], wrong)


@lru_cache(maxsize=256)
def parsed(text: str) -> Any:
    """Return the module of a PTX text."""
    from ptxsan.parser import parse

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
