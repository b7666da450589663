"""What a check is: it proposes scenarios and judges what they returned.

A check never reaches into the worker. `propose` yields scenarios (data), `judge` looks at one
run of one scenario and returns what is wrong. Both see the trial through the narrow `Trial`
protocol. Since `judge` needs nothing but the scenario and its run, every finding replays from
a file, and the reference is run through the same scenario as its own control.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from cuassay.checks.judgement import Answers, Judgement
from cuassay.checks.needs import Needs
from cuassay.checks.of_rank import with_rank
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.diagnosis import Cause
from cuassay.model.effort import Effort
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, Scalar
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Upstream
from cuassay.model.trace import ResultItem, ScenarioResult, StepDone
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    import torch

    from cuassay.model.machine import EditedCalls, LaunchLimits, MachineEvidence
    from cuassay.oracle.compare.outputs import Comparison
    from cuassay.oracle.truth.make import Truth


class Run(Protocol):
    """One execution of a scenario: the worker's records and the bytes behind them."""

    @property
    def result(self) -> ScenarioResult:
        """Records of the steps, how the process ended, and what it printed."""

    def tensor(self, item: ResultItem) -> torch.Tensor:
        """Return the bytes of `item` as a tensor of its dtype and shape, on the judge's device.

        Floating tensors may hold anything, NaN included. KeyError where no bytes were sent.
        """


class Machine(Protocol):
    """The PTX machine, as far as checks know it: it executes what a candidate launched."""

    @property
    def absent(self) -> str:
        """Why no launch of this candidate can be executed, or an empty string."""

    @property
    def tunes(self) -> bool:
        """Whether autotuners of the candidate may have more than one configuration."""

    def execute(self, recording: torch.Tensor, scenario: Scenario) -> MachineEvidence:
        """Execute the launches (uint8, cached) of a scenario. Raises CannotJudgeError."""

    def sampled(self, recording: torch.Tensor, scenario: Scenario) -> MachineEvidence:
        """Run some blocks of launches that came without memory (uint8, cached).

        Only faults of memory count, and only where no address depends on data. Raises
        CannotJudgeError.
        """

    def limits(self, recording: torch.Tensor) -> LaunchLimits:
        """Return which launches of a recording (uint8) CUDA refuses. Raises CannotJudgeError."""

    def edited(self, recording: torch.Tensor, asked_for: Mapping[str, Any]) -> EditedCalls:
        """Return what a recorded call (uint8) gives with edits of its instructions.

        `asked_for` is the request of `build.machine.edited`. Raises CannotJudgeError.
        """

    def oblivious(self, scenarios: Sequence[Scenario]) -> bool:
        """Whether what was seen on each of these holds for all data at its shapes."""

    def launches(self, scenarios: Sequence[Scenario]) -> tuple[int, int, str]:
        """Return how many launches were judged, how many were made, and why any was not."""

    def line(self, file: str, line: int) -> str:
        """Return a line of the candidate's sources, from 1; empty where there is none."""


class Trial(Protocol):
    """What a check may ask of the judge."""

    @property
    def problem(self) -> Problem:
        """The operator."""

    @property
    def profile(self) -> Profile:
        """How much to try."""

    @property
    def effort(self) -> Effort:
        """What that profile means."""

    @property
    def device(self) -> Device:
        """Where candidate and reference run."""

    @property
    def deterministic_reference(self) -> bool:
        """Whether the reference gave the same bits twice on the same inputs."""

    @property
    def machine(self) -> Machine | None:
        """The PTX machine of this trial; None where it has none."""

    def seed(self, *path: object) -> int:
        """Return a secret seed derived from the trial's root seed and a path of names."""

    def has_room(self, case: Case, *, truth: bool = True) -> bool:
        """Whether judge and workers have room for a case in the planned GPU memory.

        Without `truth` where its answer is held against the reference as written.
        """

    def settled(self, case: Case) -> Case | None:
        """Return a case as the reference accepts it; None where it refuses it."""

    def scenario_s(self, scenario: Scenario) -> float:
        """Return the seconds that a scenario and its judgment take, by count."""

    def cases(self, purpose: str) -> tuple[Case, ...]:
        """Return the planned cases for a purpose: numeric, shapes, small, benchmark, growth."""

    def inputs(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        """Return fresh inputs of a case, in the order of the problem's inputs."""

    def exact(self, case: Case) -> tuple[torch.Tensor, ...]:
        """Return the float64 reference's outputs alone: cheaper than truth, no achievable error.

        Raises LiftError where the reference cannot be lifted, ReferenceError_ where it fails.
        """

    def container(self, case: Case) -> str:
        """Return in what the reference returns its outputs: tuple, list, dict, or '' (bare).

        Raises ReferenceError_ where it fails.
        """

    def magnitudes(self, case: Case) -> tuple[float, ...]:
        """Return the largest magnitude of each floating input and of what each operation makes.

        Of the reference as written, in its order. Raises ReferenceError_ where it fails.
        """

    def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        """Return truth and achievable error of a case (cached). Raises CannotJudgeError.

        The error is that of a family of trusted kernels.
        """

    def rough(self, case: Case) -> Truth:
        """Return truth with the fewest draws, or the full one where that is made already."""

    def explains(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[Comparison, ...] | None:
        """Return what shows an answer to be right without a full truth; None: ask `compare`.

        Its comparisons with rough truth, or none where the reference's own error explains it.
        """

    def distance(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[float, float] | None:
        """Return how far an answer is from the reference's as written: mean and largest difference.

        In units of the reference's root mean square; None where numbers do not say it. No truth is
        made.
        """

    def moves(self, first: Case, second: Case) -> bool:
        """Whether the reference's answers to two cases differ by far more than it errs itself.

        Raises CannotJudgeError where it cannot be run or followed.
        """

    def decides(self, case: Case) -> bool:
        """Whether truth of a case decides anything; where rough truth says no, it does not."""

    def gradients(
        self,
        case: Case,
        outputs: Sequence[str],
        *,
        upstream: Upstream,
        seed: int,
        precision: Precision = Precision.STRICT,
    ) -> Truth:
        """Return the right gradients of a case's floating inputs (cached), each `grad_<input>`.

        Those of `outputs`, with upstream gradients as a Backward step draws them. Raises
        CannotJudgeError; NothingToCheckError where the reference cannot be differentiated.
        """

    def dependence(self, case: Case) -> Mapping[str, torch.Tensor]:
        """Return, by floating input, a gradient that is 0 where no floating output depends on it.

        That of a random weighting of the outputs, in float64. Raises as `gradients`.
        """

    @property
    def lowered(self) -> tuple[Case, ...]:
        """The cases on which a kernel passed by a family wider than `strict`, the first first."""

    def compare(
        self,
        case: Case,
        run: Run,
        items: Iterable[ResultItem],
        *,
        precision: Precision | None = None,
        grade: bool = False,
    ) -> tuple[Comparison, ...]:
        """Compare what a call on `case` returned with truth, one Comparison per output.

        With the least family of trusted kernels that the problem's policy accepts and that
        explains the error; with `precision` by that family alone. With `grade` the first failure
        gets the precision that explains it, also where the policy does not accept that.

        Items of the wrong count, shape or dtype give failed comparisons whose `mismatch`
        says so.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPage:
    """The documentation of a check, parsed from its docstring's fixed headings."""

    code: str
    title: str
    sections: tuple[tuple[str, str], ...]


class Check:
    """One failure class. Subclasses set the class variables, `propose` and `findings`."""

    code: ClassVar[str]
    title: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    cause: ClassVar[Cause | None] = None  # None: the check sees that, not why
    needs: ClassVar[Needs] = Needs()
    finding_class: ClassVar[FindingClass] = FindingClass.WRONG
    severity: ClassVar[Severity] = Severity.CRITICAL
    judges_failures: ClassVar[bool] = False  # True: `judge` sees raised and dead runs itself
    grades: ClassVar[bool] = False  # True: its comparisons tell the precision that a kernel keeps
    # True: it asks only whether an answer is right; one within the reference's own error is.
    asks_right: ClassVar[bool] = False

    ranks: ClassVar[bool] = False  # True: a call of several ranks is a call like others to it

    # The least share of its scenarios, of those that the reference completes, that the candidate
    # must complete for a pass: whoever withholds an answer is not accepted.
    least_decided: ClassVar[float] = 1.0

    # How much more than other checks this one may take, where references are heavy.
    worth: ClassVar[float] = 1.0

    def skip(self, trial: Trial) -> str:
        """Return why this check cannot run on this problem, or an empty string."""
        return ""

    def missing(self) -> str:
        """Return what this check needs and is not installed, or an empty string."""
        return ""

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the scenarios to run, cheapest and most telling first."""
        raise NotImplementedError  # abstract

    def judge(
        self, trial: Trial, scenario: Scenario, run: Run, *, grade: bool = False
    ) -> Judgement:
        """Return what is wrong with one finished run, and what of it was compared with truth.

        It changes nothing that a later call sees. `grade`: see `Trial.compare`.
        """
        answers = Answers(trial, run, grade=grade)
        found = self.findings(trial, scenario, run, answers)
        return answers.judgement(with_rank(one, trial.problem) for one in found)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Return what is wrong with one finished run; crashes are judged elsewhere.

        What it holds against truth it asks of `answers`, the results of the run.
        """
        raise NotImplementedError  # abstract

    def again(self, scenario: Scenario, finding: Finding) -> Sequence[Scenario]:
        """Return scenarios that show the finding again, unless equal calls differ by themselves.

        None where the finding does not rest on a difference between calls.
        """
        return ()

    def controls(self, trial: Trial, scenario: Scenario, finding: Finding) -> Sequence[Scenario]:
        """Return scenarios without the condition that a finding blames, one of them on its inputs.

        None where the finding blames no condition, or a plain call of its scenario was right.
        """
        return ()

    def said(self, trial: Trial, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Return what a pass is worth: `remark`, unless a check has to ask the trial."""
        return self.remark(seen)

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Return what a pass of this check is worth, given what passed and what came back."""
        return ""

    def finding(
        self,
        message: str,
        *,
        scenario: Scenario,
        measured: float | None = None,
        allowed: float | None = None,
        statistic: str = "",
        where: Where | None = None,
        **extra: object,
    ) -> Finding:
        """Return a finding that carries this check's code, classes and severity."""
        fields: dict[str, object] = {
            "code": self.code,
            "title": self.title,
            "classes": self.classes,
            "cause": self.cause,
            "finding_class": self.finding_class,
            "severity": self.severity,
            "seed": scenario.cases[0].seed if scenario.cases else None,
        }
        return Finding(
            message=message,
            scenario=scenario,
            measured=measured,
            allowed=allowed,
            statistic=statistic,
            where=where or Where(),
            **(fields | extra),  # type: ignore[arg-type]
        )


class SearchingCheck(Check):
    """A check for which the judge also searches for cases: each is tried by `on_case`."""

    def on_case(self, case: Case) -> Scenario:
        """Return the scenario that tries one searched case.

        `judge` sees it like any other: what a search found replays without the search.
        """
        raise NotImplementedError  # abstract


def done(run: Run, index: int) -> StepDone | None:
    """Return the record of step `index` if it ended normally."""
    records = run.result.records
    record = records[index] if index < len(records) else None
    return record if isinstance(record, StepDone) else None
