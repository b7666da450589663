"""The Python calls: judge a kernel, or assert that it is correct. Loads no torch by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack, runtime_checkable

from cuassay.errors import CannotJudgeError, ProblemError, UsageError
from cuassay.model.candidate import Candidate
from cuassay.model.events import EngineFinished, EngineStopped, Event
from cuassay.model.options import Given, Options
from cuassay.model.problem import Problem
from cuassay.model.verdict import Verdict

if TYPE_CHECKING:
    from cuassay.model.jobs import TrialJob

Kernel: TypeAlias = Callable[..., Any]


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
    candidate: str | Path | Kernel,
    reference: Kernel | None = None,
    *,
    problem: str | Path | Problem | Decorated | None = None,
    inputs: Any = None,
    **options: Unpack[Given],
) -> Verdict:
    """Judge a kernel and return the verdict.

    `candidate` is a path as `cuassay check` takes it, or a function at the top level of a file. A
    function object is trusted code, for importing it runs it in this process; give the path of a
    kernel that you do not trust. What it is judged against is either `problem`: a path or name, a
    function decorated with `cuassay.problem`, or a Problem that was read from a file; or
    `reference`: a plain function, with example `inputs`: the arguments of one call by name or in
    order, a list of several such calls (sizes that differ are axes), or a function that makes
    them.

    The options: `profile` is how much to try (quick, standard or deep; default: standard), `device`
    is cpu, cuda or cuda:N (default: cuda where there is a GPU), `seed` repeats an earlier trial,
    `require` names conditions that must hold, `precision` is the policy (strict, tf32, mixed or
    fp8; default: the problem's). Raises UsageError where the call is off and CannotJudgeError where
    the trial cannot be carried out; a kernel that is wrong raises nothing, see `Verdict.passed`.
    """
    from cuassay.engine import run

    job = job_of(candidate, reference, problem=problem, inputs=inputs, **options)
    return verdict_of(run.check(job))


def assert_correct(
    candidate: str | Path | Kernel,
    reference: Kernel | None = None,
    *,
    problem: str | Path | Problem | Decorated | None = None,
    inputs: Any = None,
    **options: Unpack[Given],
) -> Verdict:
    """Return the verdict of a kernel that is ACCEPTED; for tests. Arguments as for `check`.

    Raises CuassayAssertionError with the whole story for REJECTED and for INCONCLUSIVE, and
    what `check` raises.
    """
    __tracebackhide__ = True
    verdict = check(candidate, reference, problem=problem, inputs=inputs, **options)
    if verdict.passed:
        return verdict
    from cuassay.report.terminal.trial import story

    raise CuassayAssertionError(story(verdict), verdict)


def job_of(
    candidate: str | Path | Kernel,
    reference: Kernel | None = None,
    *,
    problem: str | Path | Problem | Decorated | None = None,
    inputs: Any = None,
    own_problem: bool = True,
    **options: Unpack[Given],
) -> TrialJob:
    """Return the job that a call of `check` means. Raises UsageError where it is off.

    Without `own_problem` a candidate whose own file declares the problem is refused.
    """
    from cuassay.model.jobs import TrialJob

    plain = reference is not None and not isinstance(reference, Decorated)
    if plain and problem is None and inputs is not None:
        from cuassay.formats.calls import prepare

        where, kernel = prepare(candidate, reference, inputs)  # type: ignore[arg-type]
    else:
        where, kernel = _problem(problem, reference, inputs), _candidate(candidate)
    return TrialJob(
        problem=where,
        candidate=kernel,
        own_problem=own_problem,
        **Options.read(**options).chosen(),
    )


def _problem(
    problem: str | Path | Problem | Decorated | None, reference: Kernel | None, inputs: Any
) -> str:
    """Return the place of the problem, written from a reference and inputs where needed."""
    if problem is not None:
        if reference is not None or inputs is not None:
            raise UsageError("give either problem, or a reference with inputs, not both")
        return _where(problem)
    if reference is None:
        raise UsageError(
            "nothing to judge against: give problem='rmsnorm' (a name or a path), or a reference "
            "function with inputs={...}"
        )
    if isinstance(reference, Decorated):
        return _where(reference)
    raise UsageError(
        "the reference is a plain function, so its inputs are not known: give the arguments "
        "of one call, inputs={'x': x}, or decorate it with cuassay.problem"
    )


def _candidate(candidate: str | Path | Kernel) -> str:
    if isinstance(candidate, str | Path):
        return str(candidate)
    from cuassay.formats.callables import candidate_place

    return candidate_place(candidate)


def load(candidate: str | Path, *, problem: str | Path) -> tuple[Problem, Candidate]:
    """Return a problem and a candidate read from files, without running the candidate.

    Raises ProblemError, CandidateError or UnknownNameError.
    """
    from cuassay import formats

    found = formats.load_problem(str(problem))
    return found, formats.load_candidate(str(candidate), found)


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


def verdict_of(events: Iterable[Event]) -> Verdict:
    """Return the verdict that events end with. Raises what `check` raises."""
    # Read to their end: an exception would hold a trial that is left before, and what is then
    # closed with the interpreter waits for a thread that can no longer start.
    ended = None
    for event in events:
        if isinstance(event, EngineFinished | EngineStopped):
            ended = event
    match ended:
        case EngineFinished(verdict=verdict):
            return verdict
        case EngineStopped(exit_code=2, message=message):
            raise UsageError(message)
        case EngineStopped(message=message, traceback=trace):
            raise CannotJudgeError(f"{message}\n{trace}".rstrip())
    raise CannotJudgeError("the trial ended without a verdict; run `cuassay doctor`")
