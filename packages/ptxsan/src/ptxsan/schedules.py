"""One launch under several schedules: what is found in any of them, and what depends on the order.

A race needs no lucky schedule to be found, but a kernel that takes its order from atomics or from
named barriers can hide code paths in one order that another one shows; and sums by float atomics
come out differently. Both are deterministic here: a schedule and its seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ptxsan.findings import MachineFinding, MachineReport, connected, joined
from ptxsan.globals import module_memory
from ptxsan.heap import module_heap
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.records import buffers_of
from ptxsan.run import Meanwhile, load, run
from ptxsan.syntax import Module
from ptxsan.watching import Snapshot

SCHEDULES = (("forward", 0), ("reverse", 0), ("random", 1), ("random", 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDependence:
    """A buffer whose contents differ between two schedules.

    `offset` is the first byte that differs, `bytes` how many do.
    """

    buffer: str
    schedules: tuple[str, str]
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The reports of each schedule, every finding once, and what depended on the order."""

    reports: tuple[MachineReport, ...]
    findings: tuple[MachineFinding, ...]
    order_dependent: tuple[OrderDependence, ...]


def compare(
    module: Module,
    make: Callable[[], Launch],
    *,
    options: Options | None = None,
    schedules: Sequence[tuple[str, int]] = SCHEDULES,
) -> Comparison:
    """Run the launch that `make` returns (with the same contents each time) under each schedule.

    Raises MachineError as `run` does.
    """
    base = options or Options()
    reports: list[MachineReport] = []
    first: list[tuple[str, NDArray[np.uint8]]] = []
    differing: dict[str, OrderDependence] = {}
    for schedule, seed in schedules:
        launch = make()
        chosen = replace(base, schedule=schedule, seed=seed, predict=False)
        reports.append(run(module, launch, options=chosen))
        memory = [(one.name, one.data) for one in buffers_of(launch)]
        if not first:
            first = memory
            continue
        names = (reports[0].schedule, reports[-1].schedule)
        for (name, before), (_, after) in zip(first, memory, strict=True):
            if name not in differing and (found := _difference(name, names, before, after)):
                differing[name] = found
    return Comparison(
        reports=tuple(reports),
        findings=once(reports),
        order_dependent=tuple(differing.values()),
    )


def every(
    module: Module,
    launch: Launch,
    *,
    options: Options,
    schedules: Sequence[tuple[str, int]],
    meanwhile: Meanwhile | None = None,
) -> list[MachineReport]:
    """Run one launch under each schedule; memory is as the first one leaves it.

    The reports are in the order of `schedules`; a launch that waited for others (`meanwhile`) runs
    under the first one alone. Raises MachineError as `run` does.
    """
    (first, seed), *others = schedules
    chosen = replace(options, schedule=first, seed=seed)
    if not others:
        return [run(module, launch, options=chosen, meanwhile=meanwhile)]
    program = load(module, launch.kernel, options).program
    variables, heap = module_memory(module, program), module_heap(module, program)
    before = Snapshot(launch, variables, heap)
    chosen = replace(chosen, predict=False)
    found = [run(module, launch, options=chosen, meanwhile=meanwhile)]
    if meanwhile is not None and (meanwhile.waited or meanwhile.beside):
        return found
    after = Snapshot(launch, variables, heap)
    for schedule, number in others:
        before.restore()
        found.append(run(module, launch, options=replace(chosen, schedule=schedule, seed=number)))
    after.restore()
    return found


def _difference(
    name: str, schedules: tuple[str, str], before: NDArray[np.uint8], after: NDArray[np.uint8]
) -> OrderDependence | None:
    places = np.flatnonzero(before != after)
    if not places.size:
        return None
    return OrderDependence(
        buffer=name, schedules=schedules, offset=int(places[0]), bytes=int(places.size)
    )


def once(reports: Sequence[MachineReport]) -> tuple[MachineFinding, ...]:
    """Return what several runs of a launch found, each finding once."""
    return connected(joined(one for report in reports for one in report.findings))
