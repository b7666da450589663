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
from typing import Any

import torch

from cuassay import build
from cuassay.checks.registry import all_checks
from cuassay.formats import load_candidate
from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.judge.bench import StartExecutor, TrialPlan
from cuassay.judge.decide.verdict import condition_key
from cuassay.judge.run.executor import Executor
from cuassay.judge.session import TrialEnded, judged
from cuassay.judge.timeline import Timeline
from cuassay.judge.trial import JudgeTrial
from cuassay.judge.truths import TruthCache
from cuassay.model.candidate import Candidate
from cuassay.model.device import Device
from cuassay.model.digest import candidate_digest
from cuassay.model.events import CheckFinished, Event, FindingReported
from cuassay.model.jobs import TrialJob
from cuassay.model.outcome import CheckReport, Failed, Finding, FindingClass
from cuassay.model.problem import Problem
from cuassay.model.verdict import Decision, Profile, Verdict
from cuassay.sandbox.host.nursery import Nursery

_PATIENT_S = 3600.0
_PROBLEMS = 4  # whose truths are kept: tests of one file go to and fro between a few


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


class _Enough(BaseException):
    """A finding was seen; BaseException, since checks guard themselves against Exception."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.message)


def _rejects(finding: Finding, codes: Collection[str], require: Sequence[str]) -> bool:
    binding = finding.finding_class is FindingClass.WRONG or condition_key(finding) in require
    return binding and finding.code in codes


def _one_worker(trial: JudgeTrial, candidate: Candidate, **given: Any) -> Executor:
    """Start an executor with no second worker ready: where every core is busy it only costs."""
    return Executor(trial, candidate, **given | {"spares": 0})


class Gate:
    """Judges candidates on one device; one zygote serves them all, one after another.

    It runs no check of the groups `without`, and leaves out what decides nothing: minimal
    counterexamples (`smallest`), `causes`, the benchmark's rule, power and times. With `machine`
    the PTX machine is loaded before workers are forked, as `cuassay check` does for kernels. A
    `nursery` that is given serves others too, and stays open. `beside`: see `TrialPlan`. With
    `extras` the rule, power and times are made all the same.
    """

    start: StartExecutor = staticmethod(_one_worker)
    isolated = True

    def __init__(
        self,
        device: str = "cpu",
        *,
        without: Collection[str] = (),
        machine: bool = False,
        smallest: bool = False,
        causes: bool = False,
        nursery: Nursery | None = None,
        beside: int | None = None,
        extras: bool = False,
    ) -> None:
        self._beside, self._extras = beside, extras
        self.device, self._without = Device(device), without
        self._smallest, self._causes = smallest, causes
        self._stack = ExitStack()
        self._home = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        with _home(self._home):
            if nursery is None and self.isolated:
                nursery = self._stack.enter_context(Nursery(self.device, machine=machine))
            self._nursery = nursery
            self._toolchain: Mapping[str, str] = build.toolchain(self.device)
        self._references: dict[int, tuple[Problem, LoadedReference]] = {}
        self._truths: OrderedDict[tuple[str, int], TruthCache] = OrderedDict()

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
        fail_fast: bool | None = False,
        emit: Callable[[Event], None] = lambda event: None,
        start: StartExecutor | None = None,
        budget_s: float | None = _PATIENT_S,
    ) -> Judgement:
        """Judge the candidate at `path`; no run folder is left. `seed` None draws a secret one.

        `require` names conditions of use that are binding, `only` the checks to run. `start` says
        where it runs: None for the workers of this gate. `budget_s` bounds the trial's time,
        None as the profile does: by default a busy machine ends no trial.

        Raises CannotJudgeError and UsageError as `cuassay check` would.
        """
        started = time.time()
        ended = self._trial(
            problem,
            path,
            profile=profile,
            seed=seed,
            require=require,
            only=only,
            emit=emit,
            fail_fast=fail_fast,
            start=start,
            budget_s=budget_s,
        )
        wrong = (finding.code for report in ended.verdict.checks for finding in report.wrong)
        return Judgement(
            verdict=ended.verdict,
            codes=tuple(dict.fromkeys(wrong)),
            share=max((c.share for c in ended.graded), default=0.0),
            seconds=time.time() - started,
        )

    def first_finding(
        self,
        problem: Problem,
        path: Path,
        *,
        codes: Collection[str],
        seed: int,
        profile: Profile = Profile.QUICK,
        require: Sequence[str] = (),
        only: Collection[str] = (),
        start: StartExecutor | None = None,
    ) -> Finding | None:
        """Return the first finding under one of `codes` that rejects; the trial ends with it.

        None where the trial ends without one. `start` as for `judge`.
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
            self._trial(
                problem,
                path,
                profile=profile,
                seed=seed,
                require=require,
                only=only,
                emit=listen,
                start=start,
            )
        except _Enough as enough:
            return enough.finding
        return None

    def _trial(
        self,
        problem: Problem,
        path: Path,
        *,
        profile: Profile,
        seed: int | None,
        require: Sequence[str],
        only: Collection[str],
        emit: Callable[[Event], None],
        start: StartExecutor | None,
        fail_fast: bool | None = False,
        budget_s: float | None = _PATIENT_S,
    ) -> TrialEnded:
        checks = tuple(
            check
            for check in all_checks()
            if (check.code in only if only else check.needs.group not in self._without)
        )
        candidate = load_candidate(str(path), problem)
        with (
            self._private(),
            judged(
                TrialJob(
                    problem=problem.name,
                    candidate=str(path),
                    profile=profile,
                    seed=seed,
                    require=tuple(require),
                    fail_fast=fail_fast,
                    budget_s=budget_s,
                ),
                problem,
                candidate,
                reference=self._reference(problem),
                device=self.device,
                digest=candidate_digest(candidate, self._toolchain),
                toolchain=self._toolchain,
                emit=emit,
                timeline=Timeline(),
                nursery=self._nursery,
                truths=self.truths(problem, seed),
                plan=TrialPlan(
                    checks=checks,
                    smallest=self._smallest,
                    causes=self._causes,
                    extras=self._extras,
                    beside=self._beside,
                    start=start or type(self).start,
                ),
            ) as ended,
        ):
            pass
        return ended

    def truths(self, problem: Problem, seed: int | None) -> TruthCache | None:
        """Return what earlier trials on the same inputs made: truths and own errors.

        Each is a function of problem, case and seed: candidates of one problem under one seed
        share theirs, with those of few other problems between them.
        """
        if seed is None:
            return None
        kept = self._truths.setdefault((repr(problem), seed), TruthCache())
        self._truths.move_to_end((repr(problem), seed))
        while len(self._truths) > _PROBLEMS:
            self._truths.popitem(last=False)
        return kept

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
