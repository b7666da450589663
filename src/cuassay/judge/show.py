"""The document of a problem, for `cuassay problem show`."""

from __future__ import annotations

import contextlib
import dataclasses

from cuassay.contract.facts import fact_words
from cuassay.errors import CuassayError
from cuassay.formats import load_problem
from cuassay.formats.describe import problem_document
from cuassay.formats.execute import load_reference
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.trial import open_trial
from cuassay.model import serial
from cuassay.model.device import CPU
from cuassay.model.jobs import ShowJob
from cuassay.model.verdict import Profile


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
