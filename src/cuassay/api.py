"""The Python calls: judge a kernel, or assert that it is correct. Loads no torch by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

from cuassay.errors import CannotJudgeError, ProblemError, UsageError
from cuassay.model.candidate import Candidate
from cuassay.model.events import EngineFinished, EngineStopped, Event
from cuassay.model.problem import Problem
from cuassay.model.verdict import Profile, Verdict


class CuassayAssertionError(AssertionError):
    """A kernel that was asserted to be correct is not; `verdict` holds everything seen."""

    def __init__(self, message: str, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(message)


@runtime_checkable
class Decorated(Protocol):
    """A function decorated with `cuassay.problem`."""

    __cuassay_problem__: Problem


def check(
    candidate: str | Path,
    *,
    problem: str | Path | Problem | Decorated,
    profile: Profile | str = Profile.STANDARD,
    device: str | None = None,
    seed: int | None = None,
) -> Verdict:
    """Judge the kernel in `candidate` and return the verdict.

    `candidate` is a path as `cuassay check` takes it. `problem` is a path or name, a function
    decorated with `cuassay.problem`, or a Problem that was read from a file. `seed` repeats an
    earlier trial. Raises UsageError where the call is off and CannotJudgeError where the trial
    cannot be carried out; a kernel that is wrong raises nothing, see `Verdict.passed`.
    """
    from cuassay.engine import run
    from cuassay.engine.job import Job

    job = Job(
        problem=_where(problem),
        candidate=str(candidate),
        profile=_profile(profile),
        device=device,
        seed=seed,
    )
    return _verdict(run.check(job))


def assert_correct(
    candidate: str | Path,
    *,
    problem: str | Path | Problem | Decorated,
    profile: Profile | str = Profile.STANDARD,
    device: str | None = None,
    seed: int | None = None,
) -> Verdict:
    """Return the verdict of a kernel that is ACCEPTED; for tests.

    Raises CuassayAssertionError with the whole story for REJECTED and for INCONCLUSIVE, and
    what `check` raises.
    """
    __tracebackhide__ = True
    verdict = check(candidate, problem=problem, profile=profile, device=device, seed=seed)
    if verdict.passed:
        return verdict
    from cuassay.report.terminal import story

    raise CuassayAssertionError(story(verdict), verdict)


def load(candidate: str | Path, *, problem: str | Path) -> tuple[Problem, Candidate]:
    """Return a problem and a candidate read from files, without running the candidate.

    Raises ProblemError, CandidateError or UnknownNameError.
    """
    from cuassay import formats

    found = formats.load_problem(str(problem))
    return found, formats.load_candidate(str(candidate), found)


def _profile(profile: Profile | str) -> Profile:
    try:
        return Profile(profile)
    except ValueError:
        legal = ", ".join(member.value for member in Profile)
        raise UsageError(f"profile is '{profile}', expected one of {legal}") from None


def _where(problem: str | Path | Problem | Decorated) -> str:
    """Return the name of a problem that another process can read again."""
    if isinstance(problem, str | Path):
        return str(problem)
    made = problem if isinstance(problem, Problem) else problem.__cuassay_problem__
    if made.origin == "native":
        return f"{made.reference.path}:{made.reference.function}"
    if made.path is None:
        raise ProblemError(
            f"problem '{made.name}' was not read from a file, so the judge's process cannot read "
            f"it again; pass the path, or the function decorated with cuassay.problem"
        )
    return str(made.path)


def _verdict(events: Iterator[Event]) -> Verdict:
    for event in events:
        match event:
            case EngineFinished(verdict=verdict):
                return verdict
            case EngineStopped(exit_code=2, message=message):
                raise UsageError(message)
            case EngineStopped(message=message, traceback=trace):
                raise CannotJudgeError(f"{message}\n{trace}".rstrip())
    raise CannotJudgeError("the trial ended without a verdict; run `cuassay doctor`")
