"""Runs a trial's checks: which come first, which run beside others, which come alone at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.checks.machine.faults import MachineCheck
from cuassay.checks.state.apart import Apart001
from cuassay.errors import CuassayError
from cuassay.judge.domain import KnownCases
from cuassay.judge.kept import failures
from cuassay.judge.lanes import CheckLane, Lanes, Teller, Work
from cuassay.judge.measure import power
from cuassay.judge.run.reference import Reference
from cuassay.model.outcome import CheckReport
from cuassay.model.verdict import Lane, Power

if TYPE_CHECKING:
    from cuassay.checks.base import Check
    from cuassay.judge.bench import Bench
    from cuassay.judge.decide.tried import Tried
    from cuassay.judge.run.executor import Executor
    from cuassay.oracle.compare.outputs import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the checks said, and which numbers grade the arithmetic; `built`: whether it builds.

    `never_judged` are outputs whose numbers decided nothing in any numeric case, and why;
    `cut_short` the codes of checks that had no time for every scenario. `power` is that of the
    inputs where it was measured beside the last checks.
    """

    reports: tuple[CheckReport, ...]
    graded: tuple[Comparison, ...] = ()
    never_judged: dict[str, str]
    cut_short: tuple[str, ...] = ()
    built: bool = True
    power: Power | None = None


async def run_checks(
    bench: Bench,
    executor: Executor,
    reference: Reference,
    tried: Tried,
    beside: Sequence[Executor],
) -> Checked:
    """Run the checks in order, with the executors `beside` those that may run beside others.

    A lane that has no check left measures the power of the inputs, beside those that others still
    run: it needs no process.
    """
    job, trial = bench.job, bench.trial
    # A given seed asks for the same trial again: what others left must not change it.
    entry = bench.candidate.entry_file
    known = failures.known(trial.problem, entry) if job.seed is None else ()
    trial.planned.learning.replan(KnownCases(cases=known))
    checks = _in_turn(bench)
    leading = [check for check in checks if _leads(check, quick=bench.quick)]
    checks = [check for check in checks if check not in leading]
    teller = Teller(
        [*leading, *checks],
        bench.emit,
        label=job.run_label or Path(job.run_dir).name or "RUN",
    )
    lanes = Lanes(
        trial,
        reference.control,
        tried,
        teller,
        fail_fast=job.fail_fast,
        several=bool(beside),
    )
    open_lane = partial(CheckLane, lanes, parts=partial(_parts, quick=bench.quick))
    main = open_lane(executor)
    # Others need not wait for what comes first in the first process alone, once it has built.
    together = bool(beside) and executor.pool.built
    apart = [check for check in leading if together and not check.leads]
    await main.run([check for check in leading if check not in apart])

    async def begin() -> None:
        await main.run(apart)
        if bench.on_gpu and lanes.built:
            with suppress(CuassayError):  # what fails here fails there again
                await _begin(bench, executor)

    measured: list[Power | None] = []

    async def measure() -> None:
        if bench.plan.extras:
            async with AsyncExitStack() as stack:
                if lanes.heavy is not None:  # its mutants take memory as scenarios do
                    await stack.enter_async_context(lanes.heavy)
                measured.append(power_of(bench))

    def prepare() -> None:
        # At `quick` the time of a call is taken in a process that ran others.
        if bench.quick and bench.plan.extras and bench.has_times(executor):
            with suppress(CuassayError):  # it will say why it cannot be
                reference.begin()

    if not beside:
        await begin()
    elif lanes.built:
        alone = [c for c in checks if c.quiet or c.looks_back or _begun_ahead(c)]
        others = [check for check in checks if check not in alone]
        # What waits longest comes first.
        shared = sorted((c for c in others if c.concurrent), key=lambda check: not check.waits)
        work = Work(checks=deque(shared), then=deque([measure]), prepare=prepare)
        async with asyncio.TaskGroup() as group:
            for one in beside:
                group.create_task(open_lane(one, lane=Lane.BESIDE, main=main).take(work))
            await begin()
            await main.run([check for check in others if not check.concurrent])
            await main.take(work, may=lambda check: not check.own_process)
        checks = alone
        # It imports a compiler for seconds, beside checks that take no time of a call.
        timed = bench.plan.extras and not bench.quick and bench.on_gpu and lanes.built
        if timed and bench.has_times(executor):
            bench.optional("", reference.compiled)
    await main.run(checks)
    for one in (executor, *beside):
        await one.settle()
    return _checked(bench, lanes, measured[0] if measured else None)


def _checked(bench: Bench, lanes: Lanes, measured: Power | None) -> Checked:
    """Return what the lanes found, in the order of the registry."""
    place = {check.code: number for number, check in enumerate(bench.plan.checks)}
    grades = {check.code for check in bench.plan.checks if check.grades}
    told = lanes.teller.reports
    order = {report.code: number for number, report in enumerate(told)}
    examined = sorted(lanes.examined, key=lambda one: order.get(one.report.code, 0))
    plain = next((one for one in examined if one.report.code == "NUM001"), None)
    return Checked(
        reports=tuple(sorted(told, key=lambda report: place.get(report.code, 0))),
        # Others make answers wrong by design, with kernels disarmed say.
        graded=tuple(c for e in examined if e.report.code in grades for c in e.comparisons),
        never_judged=plain.never_judged if plain is not None else {},
        cut_short=tuple(sorted(one.report.code for one in examined if one.cut_short)),
        built=lanes.built,
        power=measured,
    )


def power_of(bench: Bench) -> Power | None:
    """Return the power of the inputs, None where it could not be measured."""
    return bench.optional("power of the inputs", lambda: power.power_of_inputs(bench.trial))


async def _begin(bench: Bench, executor: Executor) -> None:
    """Begin what takes a while and needs neither the GPU's worker nor this process.

    The PTX machine executes its first recordings, the candidate builds and runs in a process apart,
    and once below each tool of compute-sanitizer, beside the checks that come before theirs.
    """
    machine_begins = False
    for check in bench.plan.checks:
        if isinstance(check, MachineCheck) and machine_begins:
            continue
        if not (_begun_ahead(check) or check.side_by_side):
            continue
        if check.skip(bench.trial) or check.missing():
            continue
        if check.side_by_side:
            # With `fail_fast` the first wrong result ends all, and would wait for what was begun.
            scenarios = () if bench.job.fail_fast else tuple(check.propose(bench.trial))
            if all(bench.trial.memory.is_light(one.cases) for one in scenarios):
                executor.ahead(scenarios)
        elif isinstance(check, Apart001):
            executor.ahead([*check.propose(bench.trial)][:1])
        else:
            for scenario in check.propose(bench.trial):
                machine_begins = True
                await executor.begin_to_execute(scenario)


def _in_turn(bench: Bench) -> list[Check]:
    """Return the checks in the order of their runs.

    Last come those that wait for what was begun. Before them, at `quick`, come those that none can
    follow, and after these the ones that take whatever process is there.
    """

    def turn(check: Check) -> tuple[bool, bool, bool, bool]:
        spoils = bench.quick and check.own_process and not check.only_reads
        late = bench.quick and check.late
        return bench.on_gpu and _begun_ahead(check), late or spoils, spoils, late

    return sorted(bench.plan.checks, key=turn)


def _leads(check: Check, *, quick: bool) -> bool:
    """Whether a check runs before all others.

    At `quick` also what needs a process in which nothing ran, and leaves it to others as it is.
    """
    return check.leads or (quick and check.own_process and check.only_reads and not check.late)


def _begun_ahead(check: Check) -> bool:
    return isinstance(check, MachineCheck | Apart001)


def _parts(before: Check | None, check: Check, *, quick: bool) -> bool:
    """Whether a check needs another process than the one before it.

    Groups of checks have processes of their own. At `quick` they share one, unless a check
    changes or reads what is the whole process's: on a GPU each process costs a context. What is
    `late` takes the process at hand.
    """
    if quick and check.late:
        return False
    if before is None or check.own_process:
        return True
    if before.own_process and not before.only_reads:
        return True
    return not quick and before.group != check.group
