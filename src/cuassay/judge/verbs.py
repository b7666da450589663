"""What a judge process does with each kind of job."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import assert_never

from cuassay import build
from cuassay.checks.registry import all_checks
from cuassay.contract.facts import fact_words
from cuassay.errors import CuassayError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.describe import problem_document
from cuassay.formats.execute import load_reference
from cuassay.formats.own_problem import own_condition
from cuassay.judge.bench import TrialPlan
from cuassay.judge.environment import choose_device
from cuassay.judge.execute import execute
from cuassay.judge.kept.replay import replay
from cuassay.judge.kept.snapshot import write_snapshot
from cuassay.judge.measure.power_document import power_document
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.prebuild import prebuild
from cuassay.judge.run.stuck import ended_where_stuck
from cuassay.judge.session import judged
from cuassay.judge.tactics import tactics
from cuassay.judge.timeline import Timeline
from cuassay.judge.trial import open_trial
from cuassay.judge.truths import TruthCache
from cuassay.model import serial
from cuassay.model.device import CPU, Device
from cuassay.model.digest import candidate_digest
from cuassay.model.events import Document, EngineFinished, Event, Progress
from cuassay.model.jobs import (
    BlameJob,
    BuildJob,
    ExecuteJob,
    InferJob,
    Job,
    PowerJob,
    ProveJob,
    ReplayJob,
    ShowJob,
    TacticsJob,
    TrainJob,
    TrialJob,
)
from cuassay.model.problem import Problem
from cuassay.model.verdict import Lane, Power, Profile
from cuassay.oracle.compare.outputs import measure
from cuassay.parts import Part, find_part
from cuassay.sandbox.guest.process.preload import hash_triton, prepare_triton
from cuassay.sandbox.host.nursery import Nursery

# What a trial imports when it first needs it.
_IMPORTED = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.utils.flop_counter",
    "cuassay.formats.flashinfer",
    "cuassay.build.cuda.hosted",
    "ptxsan.host.build",
)
# Between them the products, sums, roots, exponentials and indices of most references.
_REHEARSED = ("gemm_bias_gelu", "softmax_softcap", "rmsnorm", "rope_neox")


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


def run(job: Job, emit: Callable[[Event], None], started: float, nursery: Nursery | None) -> None:
    """Carry out a job. Raises UsageError or CannotJudgeError with the message for the user."""
    match job:
        case TrialJob():
            check(job, emit, started, nursery)
        case ReplayJob():
            emit(EngineFinished(verdict=replay(job, emit, started, nursery)))
        case ShowJob():
            emit(Document(text=json.dumps(show(job))))
        case PowerJob():
            emit(Document(text=json.dumps(power_document(job, emit))))
        case BuildJob():
            emit(Document(text=json.dumps(prebuild(job, nursery))))
        case TacticsJob():
            emit(Document(text=json.dumps(tactics(job, nursery))))
        case ExecuteJob():
            emit(Document(text=json.dumps(execute(job, emit, nursery))))
        case ProveJob():
            from cuassay.judge.proofs.prove import prove  # loads what only proofs need

            emit(Document(text=json.dumps(prove(job, emit, nursery))))
        case TrainJob() | InferJob() | BlameJob():
            run_loop = find_part(Part.LOOP_JOBS)
            emit(Document(text=run_loop(job, emit, nursery)))
        case _:
            assert_never(job)


def check(
    job: TrialJob, emit: Callable[[Event], None], started: float, nursery: Nursery | None
) -> None:
    """Judge a candidate and emit its verdict."""
    timeline = Timeline(started)
    timeline.passed(Lane.JUDGE, "Python and its imports")
    if nursery is not None and nursery.device.on_gpu:
        _begin_triton()
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
    device = choose_device(job.device)
    build.prepare(candidate, device=device, notify=lambda text: emit(Progress(text=text)))
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


def prepare(device: Device) -> None:
    """Start what every trial on `device` needs; importing this module was most of it.

    Torch loads sympy, a second on such a host, for upstream gradients and for the shapes of some
    operations: a judge that waits for its job has the time, and a GPU's host the cores.
    """
    if device.on_gpu:
        _begin_triton()
        for name in _IMPORTED:
            with contextlib.suppress(ImportError):  # a trial that needs it will say so
                importlib.import_module(name)
        all_checks()
        rehearse(device)


def rehearse(device: Device) -> None:
    """Make truths of operators of the catalog: CUDA loads a kernel when it is launched first.

    Half a second of a trial's first truth is that. What fails here fails in a trial, if it does.
    """
    for name in _REHEARSED:
        with contextlib.suppress(Exception):
            problem = load_problem(name)
            trial = open_trial(
                problem,
                load_reference(problem),
                profile=Profile.QUICK,
                device=device,
                root_seed=0,
            )
            for case in trial.cases("small"):
                answers = trial.truths.as_written(list(trial.inputs(case).values()))
                for got, output in zip(answers, trial.truth(case).outputs, strict=True):
                    measure(got, output)


def _begin_triton() -> None:
    """Take Triton's first steps beside what the judge does meanwhile.

    The package itself, 0.1 s, is imported first: where two threads begin with different modules of
    it each may meet the other's half, and what failed once stays broken for torch's compiler.
    """
    with contextlib.suppress(Exception):  # whoever needs it will say so
        importlib.import_module("triton")
    for step in (prepare_triton, hash_triton):
        threading.Thread(target=step, daemon=True).start()


def show(job: ShowJob) -> dict[str, object]:
    """Return the document of a problem, with the truth found by running the lifted reference."""
    notes: list[str] = []
    problem = load_problem(job.problem, strict=job.strict, notes=notes)
    trial = open_trial(
        problem,
        load_reference(problem),
        profile=Profile.STANDARD,
        device=CPU,
        root_seed=job.seed or 0,
    )
    truth = smoke(trial)
    with contextlib.suppress(CuassayError):  # a trial says it
        generate_once(trial)
    trial.cases("facts")
    trial.planned.learning.every_size()
    shown = dataclasses.replace(problem, inputs=trial.problem.inputs)
    document = problem_document(shown, truth.kind, truth.reason, reduced=trial.planned.reduced)
    facts = [
        {
            "fact": fact_words(known.fact),
            "kind": type(known.fact).__name__,
            "source": known.evidence.source.value,
            "count": known.evidence.count,
            "broken": known.broken,
            **serial.to_json(known.fact),
        }
        for known in trial.facts
    ]
    tried = [serial.to_json(tried) for tried in trial.planned.learning.tried]
    return document | {"notes": notes, "facts": facts, "tried": tried}
