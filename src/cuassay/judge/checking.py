"""Runs a trial's checks: which come first, which run beside others, which come alone at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.checks.needs import Split, When
from cuassay.errors import CuassayError
from cuassay.judge.decide.gross import PLAIN
from cuassay.judge.domain import KnownCases
from cuassay.judge.kept import failures
from cuassay.judge.lanes import CheckLane, Lanes, Teller, Work
from cuassay.judge.measure import power
from cuassay.judge.run.reference import ReferenceRunner
from cuassay.judge.schedule import begins_ahead, needs_new_process, schedule
from cuassay.model import serial
from cuassay.model.jobs import Stop
from cuassay.model.outcome import CheckReport, Finding
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ScenarioResult
from cuassay.model.verdict import Lane, Power
from cuassay.sandbox.host.waits import first_of_group

if TYPE_CHECKING:
    from cuassay.checks.base import Check
    from cuassay.judge.bench import Bench
    from cuassay.judge.decide.tried import SizeLog
    from cuassay.judge.run.executor import Executor
    from cuassay.oracle.compare.outputs import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What the checks said, and which numbers grade the arithmetic; `built`: whether it builds.

    `gross`: the plain call is wrong on every input, which ended the trial.

    `never_judged` are outputs whose numbers decided nothing in any numeric case, and why;
    `cut_short` the codes of checks that had no time for every scenario. `power` is that of the
    inputs where it was measured beside the last checks. `right` are the scenarios that were judged
    and showed nothing, each with its check; `timed` are the timed calls and what came back, if they
    are among them and nothing else used the device. `with_id` gives a later finding its id.
    """

    reports: tuple[CheckReport, ...]
    graded: tuple[Comparison, ...] = ()
    never_judged: dict[str, str]
    cut_short: tuple[str, ...] = ()
    built: bool = True
    gross: bool = False
    power: Power | None = None
    right: tuple[tuple[Check, Scenario], ...] = ()
    timed: tuple[Scenario, ScenarioResult] | None = None
    with_id: Callable[[Finding], Finding]


async def run_checks(
    bench: Bench,
    executor: Executor,
    reference: ReferenceRunner,
    tried: SizeLog,
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
    order = schedule(bench.plan.checks, job.profile, bench.device)
    teller = Teller(
        [*order.first, *order.untouched, *order.others],
        bench.emit,
        label=job.run_label or Path(job.run_dir).name or "RUN",
    )
    lanes = Lanes(
        trial,
        reference.control,
        tried,
        teller,
        planned=[check.code for check in bench.plan.checks],
        executed=[
            check.code
            for check in bench.plan.checks
            if bench.on_gpu and check.needs.when is When.EXECUTED and not bench.machine.absent
        ],
        stop=job.stop,
        several=bool(beside),
        budget=bench.budget,
    )
    open_lane = partial(
        CheckLane,
        lanes,
        parts=lambda before, check: needs_new_process(check, before, job.profile),
    )
    main = open_lane(executor)
    # Others need not wait for what runs in the first process alone, once it has built.
    waited_for = () if beside and executor.pool.builds.done else order.untouched
    await main.run((*order.first, *waited_for))
    if job.stop is not Stop.GROSS:
        plain = None
    else:
        plain = next((check for check in order.others if check.code == PLAIN), None)

    async def begin() -> None:
        await main.run(() if waited_for else order.untouched)
        if bench.on_gpu and lanes.built and not lanes.over:
            with suppress(CuassayError):  # what fails here fails there again
                await _begin(bench, executor)

    measured: list[Power | None] = []

    async def measure() -> None:
        measured.append(await _measured(bench, lanes))

    async def side(one: Executor, work: Work, *, first: bool) -> None:
        lane = open_lane(one, lane=Lane.BESIDE, main=main)
        await lane.look_first(plain if first else None)
        if first:
            _begin_apart(bench, executor, lanes)
        await lane.take(work)

    if not beside:
        await main.look_first(plain)
        _begin_apart(bench, executor, lanes)
        await begin()
    elif lanes.built:
        work = Work(checks=deque(order.of_any_side), then=deque([measure]))
        with first_of_group():
            async with asyncio.TaskGroup() as group:
                for one in beside:
                    group.create_task(side(one, work, first=one is beside[0]))
                await begin()
                await main.run(order.of_first_side)
                await main.take(work, may=lambda check: check.needs.process.takes_any)
        # It imports a compiler for seconds, beside checks that take no time of a call.
        timed = bench.plan.extras and not bench.quick and bench.on_gpu and lanes.built
        if timed and bench.has_times(executor):
            bench.optional("", reference.compiled)
    await main.run(order.after_sides if beside else order.others)
    for one in (executor, *beside):
        await one.settle()
    return _checked(bench, lanes, measured[0] if measured else None)


async def _measured(bench: Bench, lanes: Lanes) -> Power | None:
    """Return the power of the inputs, measured beside the checks of other lanes."""
    if not bench.plan.extras:
        return None
    async with AsyncExitStack() as stack:
        # Mutants take memory as scenarios do: those that take much run beside nothing heavy
        if lanes.heavy is not None and not bench.optional(
            "",
            lambda: all(bench.trial.memory.is_light([c]) for c in power.planned(bench.trial)),
        ):
            await stack.enter_async_context(lanes.heavy)
        return power_of(bench)


def _checked(bench: Bench, lanes: Lanes, measured: Power | None) -> Checked:
    """Return what the lanes found, in the order of the registry."""
    place = {check.code: number for number, check in enumerate(bench.plan.checks)}
    by_code = {check.code: check for check in bench.plan.checks}
    grades = {check.code for check in bench.plan.checks if check.grades}
    told = lanes.teller.reports
    order = {report.code: number for number, report in enumerate(told)}
    examined = sorted(lanes.examined, key=lambda one: order.get(one.report.code, 0))
    plain = next((one for one in examined if one.report.code == "NUM001"), None)
    passed = {one.report.code: one.passed for one in examined}
    # Those that the trial's own end cut are told of by its budget.
    short = {one.report.code for one in examined if one.cut_short} - bench.budget.cut.keys()
    return Checked(
        reports=tuple(sorted(told, key=lambda report: place.get(report.code, 0))),
        # Others make answers wrong by design, with kernels disarmed say.
        graded=tuple(c for e in examined if e.report.code in grades for c in e.comparisons),
        never_judged=plain.never_judged if plain is not None else {},
        cut_short=tuple(sorted(short)),
        built=lanes.built,
        gross=bool(lanes.over) and lanes.gross,
        power=measured,
        right=tuple(
            (by_code[one.report.code], scenario) for one in examined for scenario, _ in one.passed
        ),
        timed=next(iter(passed.get("PERF001", ())), None) if "PERF001" in lanes.alone else None,
        with_id=lanes.teller.with_id,
    )


def power_of(bench: Bench) -> Power | None:
    """Return the power of the inputs, None where it could not be measured."""

    def measure() -> Power | None:
        known = bench.plan.powers
        if known is None:
            return power.power_of_inputs(bench.trial)
        # The reference's own affair: whichever candidate is on trial, it is the same.
        cases = serial.dumps(power.planned(bench.trial))
        made = known.get(cases) or power.power_of_inputs(bench.trial)
        if not bench.budget.is_spent:  # else another candidate may have the time
            known[cases] = made
        return made

    if bench.budget.is_spent:
        return None
    made = bench.optional("power of the inputs", measure)
    return None if bench.budget.is_spent else made  # mutants that had no time would count as alive


def _begin_apart(bench: Bench, executor: Executor, lanes: Lanes) -> None:
    """Let the candidate build and run in a process apart, beside all checks that follow.

    There it tunes itself and compiles one kernel after another, which may take as long as all
    other checks together. Not before plain calls were looked at, which may end the trial.
    """
    if not bench.on_gpu or not lanes.built or lanes.over or bench.budget.is_spent:
        return
    for check in bench.plan.checks:
        if check.needs.when is When.AFTER_CLEAN and not check.skip(bench.trial):
            with suppress(CuassayError):  # what fails here fails there again
                executor.ahead([*check.propose(bench.trial)][:1])


async def _begin(bench: Bench, executor: Executor) -> None:
    """Begin what takes a while and needs neither the GPU's worker nor this process.

    The PTX machine executes its first recordings, and the candidate runs once below each tool of
    compute-sanitizer, beside the checks that come before theirs. Raises BudgetSpentError.
    """
    machine_begins = False
    for check in bench.plan.checks:
        bench.budget.check()
        needs = check.needs
        if needs.when is When.EXECUTED and machine_begins:
            continue
        if not begins_ahead(check) or check.skip(bench.trial) or check.missing():
            continue
        if needs.split is Split.AT_ONCE:
            # Where the first wrong result ends all, it would wait for what was begun.
            ends = bench.job.stop is Stop.FIRST
            scenarios = () if ends else tuple(check.propose(bench.trial))
            if all(bench.trial.memory.is_light(one.cases) for one in scenarios):
                executor.ahead(scenarios)
        elif needs.when is not When.AFTER_CLEAN:
            for scenario in check.propose(bench.trial):
                machine_begins = True
                async with bench.budget.limited():
                    await executor.recordings.begin(scenario)
