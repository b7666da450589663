"""What a judge process does with each kind of job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import assert_never

from cuassay.judge.execute import execute
from cuassay.judge.kept.replay import replay
from cuassay.judge.measure.power_document import power_document
from cuassay.judge.prebuild import prebuild
from cuassay.judge.show import show
from cuassay.judge.tactics import tactics
from cuassay.judge.trial_job import judge_candidate
from cuassay.model.events import Document, EngineFinished, Event
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
from cuassay.parts import Part, find_part
from cuassay.sandbox.host.nursery import Nursery


def run(job: Job, emit: Callable[[Event], None], started: float, nursery: Nursery | None) -> None:
    """Carry out a job. Raises UsageError or CannotJudgeError with the message for the user."""
    match job:
        case TrialJob():
            judge_candidate(job, emit, started, nursery)
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
