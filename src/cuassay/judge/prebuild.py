"""Build a candidate into the cache and judge nothing: what CPU lanes do ahead of the GPU's."""

from __future__ import annotations

from cuassay import build
from cuassay.formats import load_candidate, load_problem
from cuassay.judge.environment import choose_device
from cuassay.model.jobs import BuildJob
from cuassay.model.scenario import Scenario
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.nursery import Nursery


def prebuild(job: BuildJob, nursery: Nursery | None) -> dict[str, object]:
    """Return how long the build took, and whether it was there already.

    A build that fails is told by the trial that follows. Raises UsageError or CannotJudgeError.
    """
    problem = load_problem(job.problem, strict=job.strict)
    candidate = load_candidate(job.candidate, problem, strict=job.strict)
    device = choose_device(job.device)
    build.prepare(candidate, device=device)
    pool = WorkerPool(candidate, problem, device=device, nursery=nursery, spares=0)
    try:
        nothing = Scenario(label="the build alone", cases=(), steps=())
        run = pool.run(nothing, lambda case: {})
    finally:
        pool.close()
    return {"build_s": run.result.build_s, "cached": run.result.build_cached}
