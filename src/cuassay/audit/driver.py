"""One audit from plan to result: what is left to do, run on an executor, kept as it ends.

Every verdict is on disk before the next one is awaited; a driver that was killed is started
again on the same folder and goes on with what is left. Seeds are derived from the audit's root
seed, a problem and the digests of all its candidates: neither the lane nor the order changes a
verdict, and the truths of a problem are made once for all its candidates.
"""

from __future__ import annotations

import datetime
import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cuassay.audit.condense import condense, of_verdict
from cuassay.audit.plan import Plan, Planned
from cuassay.engine.executors import Task, TaskExecutor
from cuassay.model.audit import Audit, AuditHeader, AuditItem, AuditResult, Ending
from cuassay.model.digest import sha256_fields
from cuassay.model.events import EngineFinished, Event
from cuassay.model.jobs import TrialJob
from cuassay.report.audit_json import finding_lines
from cuassay.store.audits import AuditFolder, results_of
from cuassay.store.files import locked
from cuassay.store.runs import RunFolder

Reporter = Callable[[AuditResult, int, int], None]
_SEED_BITS = 62
_AGAIN = frozenset({Ending.NOT_RUN, Ending.LOST})  # a resumed audit tries these again


def run_audit(
    plan: Plan,
    header: AuditHeader,
    folder: AuditFolder,
    *,
    executor: TaskExecutor,
    report: Reporter = lambda result, done, total: None,
    watch: Callable[[AuditItem, str, Event], None] = lambda item, lane, event: None,
) -> Audit:
    """Judge what of the plan has no result yet and return the whole audit.

    `report` hears each result with how many of how many are done, those of an earlier run
    first. Raises UsageError where another process works in the folder, OSError where it cannot
    be made.
    """
    started = time.monotonic()
    folder.path.mkdir(parents=True, exist_ok=True)
    with locked(folder.path):
        written = results_of(folder.path)
        kept = {}
        for item in plan.items:
            result = written.get(item.id)
            if result is not None and result.item.key == item.key and result.ending not in _AGAIN:
                kept[item.id] = replace(result, item=item)
                continue
            # The verdict of a trial that ended just before the driver was killed.
            found = None
            for attempt, path in reversed(folder.attempts(item)):
                ends = [e for e in RunFolder(path).events() if isinstance(e, EngineFinished)]
                if ends:
                    run = f"candidates/{path.name}"
                    found = of_verdict(item, ends[-1].verdict, run=run, attempt=attempt)
                    break
            if found is not None:
                folder.keep(found)
                kept[item.id] = found
        folder.begin(header, plan.items, plan.oddities)
        done = dict(kept)
        for number, result in enumerate(kept.values(), start=1):
            report(result, number, len(plan.items))
        left = [one for one in plan.planned if one.item.id not in kept]
        seeds = seeds_of(plan.planned, header.seed)
        by_id = {one.item.id: one.item for one in left}
        budget_s = header.budget_s
        ended = executor.run(
            [_task(one, header, folder, seed=seeds[one.problem_key]) for one in left],
            stop=_budget(budget_s, started),
            watch=lambda task, lane, event: watch(by_id[task.id], lane, event),
        )
        for end in ended:
            # The header names the versions and the device of the first verdict.
            if not header.environment and isinstance(end.event, EngineFinished):
                header = replace(header, environment=dict(end.event.verdict.environment))
            result = condense(by_id[end.task.id], end)
            folder.keep(result)
            done[result.item.id] = result
            report(result, len(done), len(plan.items))
        why = f"the budget of {budget_s:g} s was spent" if budget_s else "not run"
        audit = Audit(
            header=header,
            results=tuple(
                done.get(item.id)
                or AuditResult(item=item, ending=Ending.NOT_RUN, reason=why, attempts=0)
                for item in plan.items
            ),
            oddities=plan.oddities,
            finished_at=now(),
            wall_s=time.monotonic() - started,
        )
        folder.finish(audit, finding_lines(audit))
    return audit


def seeds_of(planned: Sequence[Planned], root: int) -> dict[str, int]:
    """Return the seed of each problem by its key.

    It follows from everything that is read for the problem and for all of its candidates, so that a
    candidate that changes, or comes later, meets inputs that nobody has seen.
    """
    keys: dict[str, list[str]] = {}
    for one in planned:
        keys.setdefault(one.problem_key, []).append(one.item.key)
    return {
        problem: seed_for(root, sha256_fields("cuassay/audit-seed-of/1", problem, *sorted(known)))
        for problem, known in keys.items()
    }


def seed_for(root: int, key: str) -> int:
    """Return the seed that follows from the audit's root seed and a digest."""
    digest = hashlib.sha256(f"cuassay/audit-seed/1/{root}/{key}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - _SEED_BITS)


def now() -> str:
    """Return the time in UTC, ISO 8601, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _task(one: Planned, header: AuditHeader, folder: AuditFolder, *, seed: int) -> Task:
    item = one.item
    attempt = 1 + max((number for number, _ in folder.attempts(item)), default=0)
    place = folder.run_folder(item, attempt)
    # A path for a shell: as it is where it needs no quotes.
    text = str(place)
    job = TrialJob(
        problem=item.problem,
        candidate=item.candidate,
        profile=header.profile,
        seed=seed,
        strict=header.strict,
        require=header.require,
        precision=header.precision,
        own_problem=header.own_problem,
        run_label=text if re.fullmatch(r"[\w./+@:,=-]+", text) else text.replace(" ", "\\ "),
        isolated=True,
        hide=(str(folder.path),),
        within=(header.tree,),
    )
    return Task(id=item.id, job=job, folder=place, attempt=attempt, files=one.files)


def _budget(budget_s: float | None, started: float) -> Callable[[], bool]:
    return lambda: budget_s is not None and time.monotonic() - started > budget_s
