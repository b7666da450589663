"""Files that users already have, read as problems and candidates.

A reader never runs a candidate's code. Loading imports neither torch nor pydantic until a
file needs it.
"""

from __future__ import annotations

from cuassay.model.candidate import Candidate
from cuassay.model.problem import Problem

__all__ = ["load_candidate", "load_problem"]


def load_problem(
    where: str, *, strict: bool = False, notes: list[str] | None = None, recorded: str = ""
) -> Problem:
    """Return the problem that `where` names.

    `where` is a SOL-ExecBench or GPU MODE folder, a definition file, a KernelBench file, a native
    .py file (optionally `file.py:function`), `module:function`, or a catalogue name. Unknown
    keys and the like are ignored, with `strict` refused; what was ignored or assumed is appended
    to `notes`. `recorded` is a folder of calls that `cuassay loop capture` kept. Raises
    ProblemError, UnknownNameError, or ReferenceError_ where a native file's code raises.
    """
    from cuassay.formats import problems

    kept = [] if notes is None else notes
    return problems.load(where, strict=strict, notes=kept, recorded_calls=recorded)


def load_candidate(
    path: str, problem: Problem, *, strict: bool = False, notes: list[str] | None = None
) -> Candidate:
    """Return the candidate in `path`, read as text and checked against `problem`.

    `path` is a .py or .cu file (optionally `file::function`), a solution.json, or a folder
    with solution.json, kernel.py or kernel.cu. Raises CandidateError.
    """
    from cuassay.formats import candidates

    return candidates.load(path, problem, strict=strict, notes=[] if notes is None else notes)
