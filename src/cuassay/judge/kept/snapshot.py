"""What a run folder keeps of its problem and candidate, so that findings replay anywhere."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.problem import Problem

_PROBLEM, _CANDIDATE = "problem.json", "candidate.json"


def write_snapshot(folder: Path, problem: Problem, candidate: Candidate) -> None:
    """Write problem and candidate, sources included, into a run folder.

    A full disk loses the snapshot, never the verdict.
    """
    kept = problem
    with contextlib.suppress(OSError):
        if not problem.reference.source:
            source = problem.reference.path.read_text()
            reference = dataclasses.replace(problem.reference, source=source)
            kept = dataclasses.replace(problem, reference=reference)
        (folder / _PROBLEM).write_text(serial.dumps(kept))
        (folder / _CANDIDATE).write_text(serial.dumps(candidate))


def read_snapshot(folder: Path) -> tuple[Problem, Candidate]:
    """Return the problem and candidate of a run folder.

    The reference's source is written back to a file of its own, so that it can be run.
    Raises UsageError where the snapshot is missing or damaged.
    """
    try:
        problem = serial.loads(Problem, (folder / _PROBLEM).read_text())
        candidate = serial.loads(Candidate, (folder / _CANDIDATE).read_text())
    except OSError as error:
        raise UsageError(
            f"run folder {folder} holds no {Path(str(error.filename)).name}: the run ended before "
            "its problem and candidate were read; run `cuassay check` again"
        ) from None
    reference = problem.reference
    if not reference.path.is_file():
        path = folder / "reference" / reference.path.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(reference.source)
        reference = dataclasses.replace(reference, path=path)
    return dataclasses.replace(problem, reference=reference), candidate
