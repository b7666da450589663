"""A trial by its job: the problem's and the candidate's files are read, then judged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from cuassay import build
from cuassay.checks.registry import all_checks
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.formats.own_problem import own_condition
from cuassay.judge.bench import TrialPlan
from cuassay.judge.environment import choose_device
from cuassay.judge.kept.snapshot import write_snapshot
from cuassay.judge.rehearsal import begin_triton
from cuassay.judge.run.stuck import ended_where_stuck
from cuassay.judge.session import judged
from cuassay.judge.timeline import Timeline
from cuassay.judge.truths import TruthCache
from cuassay.model.device import Device
from cuassay.model.digest import candidate_digest
from cuassay.model.events import EngineFinished, Event, Progress
from cuassay.model.jobs import TrialJob
from cuassay.model.policy import chosen_note
from cuassay.model.problem import Problem
from cuassay.model.verdict import Lane, Power, Profile
from cuassay.sandbox.host.nursery import Nursery


class _OfOneSeed:
    """What trials of one problem under one seed share: truths, and the power of inputs.

    Both are functions of problem, cases and seed. The candidates that share a seed are known
    before it is drawn.
    """

    def __init__(self) -> None:
        self._of: tuple[Problem, int, Profile, str] | None = None
        self.truths = TruthCache()
        self.powers: dict[str, Power | None] = {}

    def open(self, job: TrialJob, problem: Problem, device: Device) -> None:
        """Forget what another problem, seed, profile or device needed."""
        assert job.seed is not None
        wanted = (problem, job.seed, job.profile, device)
        if self._of != wanted:
            self._of, self.truths, self.powers = wanted, TruthCache(), {}


_SHARED = _OfOneSeed()


def judge_candidate(
    job: TrialJob, emit: Callable[[Event], None], started: float, nursery: Nursery | None
) -> None:
    """Judge a candidate and emit its verdict."""
    timeline = Timeline(started)
    timeline.passed(Lane.JUDGE, "Python and its imports")
    if nursery is not None and nursery.device.on_gpu:
        begin_triton()
    notes: list[str] = []
    own_condition(job)  # refused before the file runs here
    with ended_where_stuck(emit, "the problem's file"):
        problem = load_problem(job.problem, strict=job.strict, notes=notes, recorded=job.recorded)
        reference = load_reference(problem)
    if job.precision is not None:
        problem = dataclasses.replace(problem, precision=job.precision)
    candidate = load_candidate(job.candidate, problem, strict=job.strict, notes=notes)
    for note in notes:
        emit(Progress(text=note))
    notes += filter(None, [chosen_note(problem)])
    device = choose_device(job.device)
    with timeline.waits():  # a compiler has a limit of its own
        notify = lambda text: emit(Progress(text=text, waits=True))  # noqa: E731
        build.prepare(candidate, device=device, notify=notify)
    toolchain = build.toolchain(device)
    if job.run_dir:
        write_snapshot(Path(job.run_dir), problem, candidate)
    if job.seed is not None:
        _SHARED.open(job, problem, device)
    timeline.passed(Lane.JUDGE, "the problem's and the candidate's files")
    with judged(
        job,
        problem,
        candidate,
        reference=reference,
        device=device,
        digest=candidate_digest(candidate, toolchain),
        toolchain=toolchain,
        emit=emit,
        timeline=timeline,
        nursery=nursery if nursery and nursery.device == device else None,
        truths=_SHARED.truths if job.seed is not None else None,
        plan=TrialPlan(
            checks=all_checks(), powers=_SHARED.powers if job.seed is not None else None
        ),
    ) as ended:
        emit(EngineFinished(verdict=dataclasses.replace(ended.verdict, notes=tuple(notes))))
