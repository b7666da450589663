"""Audit of the problems themselves: which broken kernels their own inputs and rule let through."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cuassay.audit.driver import now, seed_for
from cuassay.audit.family import operator_family
from cuassay.audit.found import FoundProblem
from cuassay.audit.plan import problem_key
from cuassay.engine import run
from cuassay.engine.executors import DeviceLane
from cuassay.errors import CuassayError
from cuassay.model.audit import Audit, AuditHeader, Oddity, ProblemPower
from cuassay.model.jobs import PowerJob
from cuassay.store.audits import AuditFolder, read_audit
from cuassay.store.files import locked

_TRIVIAL = frozenset({"trivial answer", "stale answer"})
Reporter = Callable[[ProblemPower, int, int], None]


def run_powers(
    problems: Sequence[FoundProblem],
    oddities: Sequence[Oddity],
    header: AuditHeader,
    folder: AuditFolder,
    *,
    lanes: Sequence[DeviceLane],
    timeout_s: float | None = None,
    report: Reporter = lambda power, done, total: None,
) -> Audit:
    """Measure every problem that has no figure yet and return them all.

    Raises UsageError where another process works in the folder, OSError where it cannot be made.
    """
    started = time.monotonic()
    folder.path.mkdir(parents=True, exist_ok=True)
    with locked(folder.path):
        salt = f"{header.profile.value} {header.strict}"
        keys = {p.where: problem_key(p, root=header.tree, salt=salt) for p in problems}
        folder.begin(header, (), oddities)
        done = {
            p.problem: p for p in read_audit(folder.path).powers if keys.get(p.problem) == p.key
        }
        for number, power in enumerate(tuple(done.values()), start=1):
            report(power, number, len(problems))
        left = [p for p in problems if p.where not in done]
        for power in _measured(left, keys, header, lanes, timeout_s=timeout_s):
            folder.keep_power(power)
            done[power.problem] = power
            report(power, len(done), len(problems))
        audit = Audit(
            header=header,
            oddities=tuple(oddities),
            powers=tuple(done[p.where] for p in problems if p.where in done),
            finished_at=now(),
            wall_s=time.monotonic() - started,
        )
        folder.finish(audit, ())
    return audit


def _measured(
    problems: Sequence[FoundProblem],
    keys: Mapping[str, str],
    header: AuditHeader,
    lanes: Sequence[DeviceLane],
    *,
    timeout_s: float | None,
) -> Iterator[ProblemPower]:
    """Yield the figures of problems as they are measured, one at a time on each lane."""
    left: queue.SimpleQueue[FoundProblem] = queue.SimpleQueue()
    for problem in problems:
        left.put(problem)
    ended: queue.SimpleQueue[ProblemPower | None] = queue.SimpleQueue()
    stop_after = None if header.budget_s is None else time.monotonic() + header.budget_s

    def serve(lane: DeviceLane) -> None:
        try:
            while stop_after is None or time.monotonic() < stop_after:
                problem = left.get_nowait()
                key = keys[problem.where]
                ended.put(_one(problem, key, header, lane, timeout_s=timeout_s))
        except queue.Empty:
            pass
        finally:
            ended.put(None)

    for lane in lanes:
        threading.Thread(target=serve, args=(lane,), daemon=True).start()
    serving = len(lanes)
    while serving:
        power = ended.get()
        if power is None:
            serving -= 1
        else:
            yield power


def _one(
    problem: FoundProblem,
    key: str,
    header: AuditHeader,
    lane: DeviceLane,
    *,
    timeout_s: float | None,
) -> ProblemPower:
    started = time.monotonic()
    family = operator_family(problem.name, op_type=problem.op_type, description=problem.description)
    about: dict[str, Any] = {
        "problem": problem.where,
        "problem_name": problem.name,
        "family": family,
        "key": key,
    }
    job = PowerJob(
        problem=problem.where,
        profile=header.profile,
        device=lane.device,
        seed=seed_for(header.seed, key),
        strict=header.strict,
        isolated=True,
        within=(header.tree,),
    )
    try:
        found = run.document(
            job, lambda text: None, environment=lane.environment, timeout_s=timeout_s
        )
    except CuassayError as error:
        return ProblemPower(**about, reason=str(error), duration_s=time.monotonic() - started)
    alive = found["survivors_theirs"]
    return ProblemPower(
        **about,
        mutants=found["mutants"] - found["equivalent"],
        killed_ours=found["killed_ours"],
        killed_theirs=found["killed_theirs"],
        survivors=tuple(str(one["words"]) for one in alive),
        trivial=tuple(str(one["words"]) for one in alive if one["kind"] in _TRIVIAL),
        reason="" if found["killed_theirs"] is not None else "its own workloads are too large here",
        duration_s=time.monotonic() - started,
    )
