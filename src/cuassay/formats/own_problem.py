"""Whether a candidate's own file says what is right: it is then judged against itself.

Known before anything is loaded, from the two places alone: a problem's file is imported by the
judge, as trusted code.
"""

from __future__ import annotations

from pathlib import Path

from cuassay.errors import UsageError
from cuassay.model.jobs import TrialJob

KEY = "own-problem"


def own_file(job: TrialJob) -> Path | None:
    """Return the file that holds both the candidate and its problem, None where none does."""
    if job.written_from:
        return Path(job.written_from)
    candidate = Path(job.candidate.partition("::")[0]).expanduser()
    problem = Path(job.problem).expanduser()
    if not problem.exists():  # FILE.py:FUNCTION
        problem = Path(job.problem.rpartition(":")[0] or job.problem).expanduser()
    try:
        if problem.is_dir():  # of an operator: its other files define none
            problem = problem / "reference.py"
        same = candidate.is_file() and problem.is_file() and candidate.samefile(problem)
    except OSError:
        return None
    return candidate if same else None


def own_condition(job: TrialJob) -> str:
    """Return the condition that such a candidate is accepted under, '' for any other.

    Raises UsageError where the caller did not agree to it, or requires that it holds.
    """
    file = own_file(job)
    if file is None:
        return ""
    if KEY in job.require:
        raise UsageError(
            f"{file.name} declares the problem that it is judged against, and {KEY} is required; "
            "give a problem from another file"
        )
    require_agreement(file, agreed=job.own_problem)
    return f"own-problem: {file.name} itself says what is right; nobody else has said so"


def require_agreement(file: Path, *, agreed: bool) -> None:
    """Raise UsageError unless the caller agreed that a candidate's file declares its problem."""
    if not agreed:
        raise UsageError(
            f"{file.name} declares the problem that it is judged against: it would run as trusted "
            "code, and could declare anything right; give a problem from another file, or agree "
            "with --own-problem (own_problem=True in Python)"
        )
