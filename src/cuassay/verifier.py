"""A verifier for programs: one call or many, typed results, a budget, no exceptions to handle.

    result = cuassay.verify("kernel.py", "rmsnorm", budget_s=60)
    with cuassay.Verifier(workers=2, device="cpu") as verifier:
        for result in verifier.verify_all(("a.py", "rmsnorm"), ("b.py", "softmax")):
            ...

Whatever a candidate does ends in a Result: also one that cannot be read, never ends or kills
its judge. Only a call that is off itself, an unknown profile say, raises UsageError.
"""

from __future__ import annotations

import enum
import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from cuassay.api import Decorated, Kernel, job_of
from cuassay.closing import Closing
from cuassay.errors import CuassayError, UsageError
from cuassay.home import runs_dir
from cuassay.model.events import (
    EngineFinished,
    EngineStarted,
    EngineStopped,
    Event,
    FindingReported,
)
from cuassay.model.options import Given, Options
from cuassay.model.outcome import Finding, FindingClass, worst_first
from cuassay.model.problem import Problem
from cuassay.model.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuassay.model.jobs import TrialJob

    Watch = Callable[[Event], None]

_MARGIN_S = 0.5


class Status(enum.StrEnum):
    """How a verification ended. Only ACCEPTED may ship."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    INCONCLUSIVE = "INCONCLUSIVE"  # no decision: time, a missing tool, a failing reference
    INVALID = "INVALID"  # the candidate or the problem cannot be read: nothing was judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one verification gave. Fields are added, never renamed.

    `verdict` is None where none was reached; `findings` then holds what was seen before the
    end. `timed_out` says that the budget ended it. `run` names the kept run, for
    `cuassay replay` and `cuassay report`.
    """

    status: Status
    reason: str
    candidate: str
    problem: str
    verdict: Verdict | None = None
    findings: tuple[Finding, ...] = ()
    conditions: tuple[str, ...] = ()
    timed_out: bool = False
    duration_s: float = 0.0
    run: str = ""

    @property
    def passed(self) -> bool:
        """Whether the kernel may ship under the stated conditions."""
        return self.status is Status.ACCEPTED

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings of wrong results: what rejects a kernel."""
        return tuple(f for f in self.findings if f.finding_class is FindingClass.WRONG)

    def __bool__(self) -> bool:
        raise TypeError("a result has four values: ask result.passed or result.status")

    def agent(self) -> dict[str, Any]:
        """Return the compact document of `--format agent`: plain JSON data (docs/agents.md)."""
        from cuassay.report.agent import agent_document, agent_error

        if self.verdict is not None:
            return agent_document(self.verdict)
        exit_code = {Status.INVALID: 2, Status.REJECTED: 1}.get(self.status, 3)
        told = agent_error(self.reason, exit_code=exit_code, findings=self.findings)
        return told | {"run": self.run}


def verify(
    candidate: str | Path | Kernel,
    problem: str | Path | Problem | Decorated,
    *,
    budget_s: float | None = None,
    own_problem: bool = False,
    **options: Unpack[Given],
) -> Result:
    """Judge one kernel within `budget_s` seconds and return the result.

    `candidate` is a path, a function at the top level of a file, or the kernel's source text
    (anything with a newline in it). A budget that ends before the verdict gives INCONCLUSIVE,
    or REJECTED where a wrong result was already seen and confirmed. A candidate whose own file
    declares the problem is INVALID, unless `own_problem` agrees to run that file as trusted code;
    the result then has the condition `own-problem`. `options` are those of `cuassay.check`. Raises
    UsageError for a profile, budget or condition that does not exist.
    """
    from cuassay.engine import run

    def trial(job: TrialJob, timeout_s: float | None) -> Iterator[Event]:
        return run.check(job, timeout_s=timeout_s) if timeout_s else run.check(job)

    return _verified(
        trial,
        candidate,
        problem,
        budget_s=_budget(budget_s),
        options={"own_problem": own_problem, **options},
    )


class Verifier(Closing):
    """A pool of waiting judges for many verifications, one trial a lane at a time.

    `workers` is the number of lanes: GPUs with a GPU, else shares of the processors. Closing it
    (or leaving the `with` block) ends what runs. `options` are those of `cuassay.check`, for all
    verifications that name no others.
    """

    def __init__(
        self,
        *,
        workers: int | None = None,
        budget_s: float | None = None,
        own_problem: bool = False,
        **options: Unpack[Given],
    ) -> None:
        from cuassay.engine.executors import local_lanes
        from cuassay.engine.pool import WarmPool

        if workers is not None and workers < 1:
            raise UsageError(f"workers is {workers}, expected 1 or more")
        self._budget_s = _budget(budget_s)
        read = Options.read(**options)  # an invalid one is told at once
        self._options: dict[str, Any] = {"own_problem": own_problem, **options}
        lanes = local_lanes(read.device, workers)
        self._pool = WarmPool(lanes)
        self._threads = ThreadPoolExecutor(len(lanes), thread_name_prefix="cuassay-verify")

    def verify(
        self,
        candidate: str | Path | Kernel,
        problem: str | Path | Problem | Decorated,
        *,
        budget_s: float | None = None,
        watch: Watch | None = None,
        **options: Any,
    ) -> Result:
        """Judge one kernel on the next free lane. Arguments as for `cuassay.verify`.

        `watch` hears every event of the trial.
        """
        given = self._budget_s if budget_s is None else _budget(budget_s)

        def trial(job: TrialJob, timeout_s: float | None) -> Iterator[Event]:
            return self._pool.check(job, timeout_s=timeout_s)

        return _verified(
            trial,
            candidate,
            problem,
            budget_s=given,
            options=self._options | options,
            watch=watch,
        )

    def submit(
        self,
        candidate: str | Path | Kernel,
        problem: str | Path | Problem | Decorated,
        **options: Any,
    ) -> Future[Result]:
        """Judge one kernel in the background and return its future."""
        return self._threads.submit(self.verify, candidate, problem, **options)

    def verify_all(
        self, *pairs: tuple[str | Path | Kernel, str | Path | Problem | Decorated], **options: Any
    ) -> Iterator[Result]:
        """Judge every (candidate, problem) and yield the results in the order given."""
        waiting = [self.submit(candidate, problem, **options) for candidate, problem in pairs]
        for future in waiting:
            yield future.result()

    def close(self) -> None:
        """End the judges; what still runs comes back INCONCLUSIVE."""
        self._pool.close()
        self._threads.shutdown(cancel_futures=True)


def _verified(
    trial: Callable[[TrialJob, float | None], Iterable[Event]],
    candidate: str | Path | Kernel,
    problem: str | Path | Problem | Decorated,
    *,
    budget_s: float | None,
    options: dict[str, Any],
    watch: Watch | None = None,
) -> Result:
    started = time.monotonic()
    job_of("-", problem="-", **options)  # a call that is off raises, a file that is off does not
    try:
        job = job_of(_placed(candidate), problem=problem, **options)
    except CuassayError as error:
        named = str(candidate) if isinstance(candidate, Path) else "candidate"
        return Result(status=Status.INVALID, reason=str(error), candidate=named, problem="")
    seen: list[Event] = []
    try:
        for event in trial(job, budget_s):
            seen.append(event)
            if watch is not None:
                watch(event)
    except CuassayError as error:
        seen.append(EngineStopped(exit_code=3, message=str(error)))
    took_s = time.monotonic() - started
    return _result(seen, job, took_s=took_s, budget_s=budget_s)


def _result(
    seen: Sequence[Event], job: TrialJob, *, took_s: float, budget_s: float | None
) -> Result:
    last = seen[-1] if seen else None
    run = next((event.run for event in seen if isinstance(event, EngineStarted)), "")
    if isinstance(last, EngineFinished):
        verdict = last.verdict
        return Result(
            status=Status(verdict.decision.value),
            reason=verdict.reason,
            candidate=verdict.candidate,
            problem=verdict.problem,
            verdict=verdict,
            findings=verdict.findings,
            conditions=verdict.conditions,
            duration_s=took_s,
            run=verdict.run,
        )
    stopped = last if isinstance(last, EngineStopped) else None
    reason = stopped.message if stopped else "the trial ended without a verdict"
    found = worst_first(e.finding for e in seen if isinstance(e, FindingReported))
    wrong = [finding for finding in found if finding.finding_class is FindingClass.WRONG]
    status = Status.INVALID if stopped and stopped.exit_code == 2 else Status.INCONCLUSIVE
    if wrong:
        status, reason = Status.REJECTED, f"{wrong[0].code}: {wrong[0].message} ({reason})"
    return Result(
        status=status,
        reason=reason,
        candidate=job.candidate,
        problem=job.problem,
        findings=found,
        timed_out=budget_s is not None and took_s >= budget_s - _MARGIN_S,
        duration_s=took_s,
        run=run,
    )


def _placed(candidate: str | Path | Kernel) -> str | Path | Kernel:
    """Return the candidate; source text is written to a file of its own first."""
    if not isinstance(candidate, str) or "\n" not in candidate:
        return candidate
    cuda = "__global__" in candidate and "import " not in candidate
    name = "kernel.cu" if cuda else "kernel.py"
    digest = hashlib.sha256(candidate.encode(errors="replace")).hexdigest()[:32]
    folder = runs_dir() / ".functions" / f"source-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(candidate, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"the source cannot be kept in {folder}: {error}") from None
    return folder / name


def _budget(budget_s: float | None) -> float | None:
    if budget_s is not None and not 0 < budget_s < float("inf"):
        raise UsageError(f"budget_s is {budget_s}, expected seconds above 0")
    return budget_s
