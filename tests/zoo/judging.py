"""The real gate, in this process: a zoo candidate through every check, workers included."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

from cuassay import build
from cuassay.engine.job import Job
from cuassay.formats import load_candidate
from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.judge.session import Session
from cuassay.model.digest import candidate_digest
from cuassay.model.events import Event
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import Problem
from cuassay.model.verdict import Decision, Profile, Verdict
from cuassay.worker.nursery import Nursery


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict with what the zoo asks of it.

    `codes` are the checks that rejected, `share` is the largest part of the numeric budget
    (worst statistic / limit) that any judged output used, `seconds` the wall time.
    """

    verdict: Verdict
    codes: tuple[str, ...]
    share: float
    seconds: float

    @property
    def rejected(self) -> bool:
        """Whether the verdict is REJECTED."""
        return self.verdict.decision is Decision.REJECTED

    @property
    def accepted(self) -> bool:
        """Whether the verdict is ACCEPTED, under whatever conditions."""
        return self.verdict.decision is Decision.ACCEPTED

    def __str__(self) -> str:
        """Return the verdict, its seed and its reason in one line, for a test's message."""
        verdict = self.verdict
        return f"{verdict.decision} {' '.join(self.codes)} seed {verdict.seed}: {verdict.reason}"


class Gate:
    """Judges candidates on one device; one zygote serves them all, one after another."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._nursery = Nursery(device)
        self._toolchain: Mapping[str, str] = build.toolchain(device)

    def judge(
        self,
        problem: Problem,
        path: Path,
        *,
        profile: Profile = Profile.QUICK,
        seed: int | None = None,
        emit: Callable[[Event], None] = lambda event: None,
    ) -> Judgement:
        """Judge the candidate at `path`; no run folder is left. `seed` None draws a secret one.

        Raises CannotJudgeError and UsageError as `cuassay check` would.
        """
        started = time.time()
        candidate = load_candidate(str(path), problem)
        session = Session(
            Job(problem=problem.name, candidate=str(path), profile=profile, seed=seed),
            problem,
            candidate,
            reference=_reference(problem),
            device=self.device,
            digest=candidate_digest(candidate, self._toolchain),
            toolchain=self._toolchain,
            emit=emit,
            started=started,
            nursery=self._nursery,
        )
        verdict = session.judge()
        wrong = (f.code for f in verdict.findings if f.finding_class is FindingClass.WRONG)
        return Judgement(
            verdict=verdict,
            codes=tuple(dict.fromkeys(wrong)),
            share=max((c.share for c in session.trial.comparisons), default=0.0),
            seconds=time.time() - started,
        )

    def close(self) -> None:
        """End the zygote and its workers."""
        self._nursery.close()

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@cache
def _references() -> dict[int, tuple[Problem, LoadedReference]]:
    return {}


def _reference(problem: Problem) -> LoadedReference:
    """Load a problem's reference once; the problem is kept so that its id stays its own."""
    known = _references()
    if id(problem) not in known:
        known[id(problem)] = (problem, load_reference(problem))
    return known[id(problem)][1]
