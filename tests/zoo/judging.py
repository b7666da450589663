"""The real gate, in this process: a zoo candidate through every check, workers included.

Nothing is carried from one trial to the next: cuassay's home is a private folder, failures
kept by a trial are forgotten after it, and no choice of regimes is stored.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import torch

from cuassay import build
from cuassay.checks.base import Check
from cuassay.formats import load_candidate
from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.judge.control import Control
from cuassay.judge.decide import condition_key
from cuassay.judge.runner import Runner
from cuassay.judge.session import Session
from cuassay.judge.trial import Truths
from cuassay.model.diagnosis import Diagnosis
from cuassay.model.digest import candidate_digest
from cuassay.model.events import CheckFinished, Event, FindingReported
from cuassay.model.jobs import TrialJob
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass
from cuassay.model.problem import Problem
from cuassay.model.verdict import Decision, Profile, Verdict
from cuassay.sandbox.host.nursery import Nursery

T = TypeVar("T")


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


class BriefSession(Session):
    """A session without what decides nothing: counterexamples, their rule, power, choices.

    With `only` it runs the checks of these codes alone, else all but those of the groups
    `without`.
    """

    only: Collection[str] = ()
    without: Collection[str] = ()

    def _checks(self) -> tuple[Check, ...]:
        found = super()._checks()
        if self.only:
            return tuple(check for check in found if check.code in self.only)
        return tuple(check for check in found if check.group not in self.without)

    def _minimised(
        self, reports: list[CheckReport], runner: Runner, control: Control
    ) -> list[CheckReport]:
        return reports

    def _diagnosed(self, reports: Sequence[CheckReport], runner: Runner) -> tuple[Diagnosis, ...]:
        return ()

    def _optional(self, what: str, make: Callable[[], T | None]) -> T | None:
        return None

    def _select(self) -> None:
        return


class _Enough(BaseException):
    """A finding was seen; BaseException, since checks guard themselves against Exception."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.message)


def _rejects(finding: Finding, codes: Collection[str], require: Sequence[str]) -> bool:
    binding = finding.finding_class is FindingClass.WRONG or condition_key(finding) in require
    return binding and finding.code in codes


class Gate:
    """Judges candidates on one device; one zygote serves them all, one after another.

    `whole` sessions also make minimal counterexamples and measure power, which takes longer
    and changes no decision. Brief ones run no check of the groups `without`. With `machine` the
    PTX machine is loaded before workers are forked, as `cuassay check` does for kernels.
    """

    session: type[Session] = BriefSession
    isolated = True

    def __init__(
        self,
        device: str = "cpu",
        *,
        whole: bool = False,
        without: Collection[str] = (),
        machine: bool = False,
    ) -> None:
        self.device, self._without = device, without
        self._session = Session if whole else self.session
        self._stack = ExitStack()
        self._home = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        with _home(self._home):
            nursery = Nursery(device, machine=machine) if self.isolated else None
            self._nursery = nursery and self._stack.enter_context(nursery)
            self._toolchain: Mapping[str, str] = build.toolchain(device)
        self._references: dict[int, tuple[Problem, LoadedReference]] = {}
        self._key: tuple[str, int] | None = None
        self._truths: Truths = OrderedDict()

    @property
    def processes_folder(self) -> Path | None:
        """The folder in which each of the candidates' processes has its own; None without."""
        return self._nursery.folder if self._nursery else None

    def judge(
        self,
        problem: Problem,
        path: Path,
        *,
        profile: Profile = Profile.QUICK,
        seed: int | None = None,
        require: Sequence[str] = (),
        only: Collection[str] = (),
        fail_fast: bool = False,
        emit: Callable[[Event], None] = lambda event: None,
    ) -> Judgement:
        """Judge the candidate at `path`; no run folder is left. `seed` None draws a secret one.

        `require` names conditions of use that are binding, `only` the checks to run.

        Raises CannotJudgeError and UsageError as `cuassay check` would.
        """
        started = time.time()
        session = self._open(
            problem,
            path,
            profile=profile,
            seed=seed,
            require=require,
            emit=emit,
            fail_fast=fail_fast,
        )
        if isinstance(session, BriefSession):
            session.only, session.without = only, self._without
        with self._private():
            verdict = session.judge()
        wrong = (f.code for f in verdict.findings if f.finding_class is FindingClass.WRONG)
        return Judgement(
            verdict=verdict,
            codes=tuple(dict.fromkeys(wrong)),
            share=max((c.share for c in session.graded), default=0.0),
            seconds=time.time() - started,
        )

    def first_finding(
        self,
        problem: Problem,
        path: Path,
        *,
        codes: Collection[str],
        seed: int,
        profile: Profile,
        require: Sequence[str] = (),
        only: Collection[str] = (),
    ) -> Finding | None:
        """Return the first finding under one of `codes` that rejects; the trial ends with it.

        None where the trial ends without one.
        """

        def listen(event: Event) -> None:
            match event:
                case FindingReported(finding=finding) if _rejects(finding, codes, require):
                    raise _Enough(finding)
                case CheckFinished(report=CheckReport(outcome=Failed(findings=findings))):
                    for finding in findings:  # a build that failed is reported here alone
                        if _rejects(finding, codes, require):
                            raise _Enough(finding)

        try:
            session = self._open(
                problem, path, profile=profile, seed=seed, require=require, emit=listen
            )
            if isinstance(session, BriefSession):
                session.only, session.without = only, self._without
            with self._private():
                session.judge()
        except _Enough as enough:
            return enough.finding
        return None

    def _open(
        self,
        problem: Problem,
        path: Path,
        *,
        profile: Profile,
        seed: int | None,
        require: Sequence[str],
        emit: Callable[[Event], None],
        fail_fast: bool = False,
    ) -> Session:
        candidate = load_candidate(str(path), problem)
        return self._session(
            TrialJob(
                problem=problem.name,
                candidate=str(path),
                profile=profile,
                seed=seed,
                require=tuple(require),
                fail_fast=fail_fast,
            ),
            problem,
            candidate,
            reference=self._reference(problem),
            device=self.device,
            digest=candidate_digest(candidate, self._toolchain),
            toolchain=self._toolchain,
            emit=emit,
            started=time.time(),
            nursery=self._nursery,
            truths=self.truths(problem, seed),
        )

    def truths(self, problem: Problem, seed: int | None) -> Truths | None:
        """Return the truths of the last trial if it was on the same inputs.

        A truth is a function of problem, case and seed: candidates of one problem under one
        seed, one after another, share theirs.
        """
        if seed is None:
            return None
        key = (repr(problem), seed)
        if key != self._key:
            self._key, self._truths = key, OrderedDict()
        return self._truths

    @contextmanager
    def _private(self) -> Iterator[None]:
        """Use the private home, and forget afterwards which inputs a trial saw fail.

        Memory that torch keeps for the next tensor goes back to the GPU: a judge of its own
        would be gone by then, and others may judge on it too.
        """
        with _home(self._home):
            yield
        shutil.rmtree(self._home / "failures", ignore_errors=True)
        torch.cuda.empty_cache()  # nothing without a context

    def _reference(self, problem: Problem) -> LoadedReference:
        """Load a problem's reference once; the problem is kept so that its id stays its own."""
        if id(problem) not in self._references:
            self._references[id(problem)] = (problem, load_reference(problem))
        return self._references[id(problem)][1]

    def close(self) -> None:
        """End the zygote and its workers, and remove the private home."""
        self._stack.close()

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def _home(folder: Path) -> Iterator[None]:
    before = os.environ.get("CUASSAY_HOME")
    os.environ["CUASSAY_HOME"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["CUASSAY_HOME"]
        else:
            os.environ["CUASSAY_HOME"] = before
