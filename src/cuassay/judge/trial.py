"""A trial is data and services: what checks may ask of the judge of one candidate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.contract.breaks import stated_facts
from cuassay.contract.facts import Known
from cuassay.formats.execute import on_cpu
from cuassay.inputs.geometry import elements
from cuassay.inputs.seeds import derive
from cuassay.judge.cases import Cases
from cuassay.judge.comparing import Comparing
from cuassay.judge.domain import Domain, Knowledge
from cuassay.judge.memory import Memory
from cuassay.judge.plan.allowance import Allowance
from cuassay.judge.timeline import Timeline
from cuassay.judge.truths import TruthCache, Truths
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.effort import Effort
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, Scalar
from cuassay.model.scenario import Call
from cuassay.model.steps import Backward, CallInto, CompiledCall, Outline, StreamCall, Upstream
from cuassay.model.trace import ResultItem
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    import torch

    from cuassay.checks.base import Run
    from cuassay.formats.execute import LoadedReference
    from cuassay.judge.run.machine import Replayer
    from cuassay.model.scenario import Scenario
    from cuassay.oracle.compare.outputs import Comparison
    from cuassay.oracle.truth.make import Truth

_CHECKS = 5  # that may take all that a check may, within the time of a trial
_JUDGED_RUNS = 3  # of the reference, on a case that a scenario judges, its own errors included
_FOLLOWED = 8  # cases of a scenario; of more each counts as the largest, which alone is followed
_CALLS = (Call, CallInto, StreamCall, CompiledCall, Backward)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTrial:
    """One candidate's trial on one problem.

    Its services are shared by all checks: `planned` cases, `truths` of the reference, `memory`,
    `comparing` of answers, the PTX `machine` where there is one. An `allowance` is that of one
    check, see `for_check`. An `isolated` trial is decided by nothing but the files and the seed.
    """

    reference: LoadedReference
    profile: Profile
    device: Device  # cpu, cuda or cuda:N
    root_seed: int
    isolated: bool
    timeline: Timeline
    planned: Cases
    truths: Truths
    memory: Memory
    comparing: Comparing
    machine: Replayer | None
    allowance: Allowance
    check_s: float

    @property
    def problem(self) -> Problem:
        """The operator, as far as it is known now."""
        return self.planned.domain.problem

    @property
    def effort(self) -> Effort:
        """What the profile means."""
        return Effort(self.profile)

    @property
    def facts(self) -> tuple[Known, ...]:
        """What was learnt of the problem by experiment so far."""
        return self.planned.domain.facts

    @property
    def deterministic_reference(self) -> bool:
        """Whether the reference gave the same bits twice on the same inputs."""
        cases = self.cases("small") or self.cases("numeric")
        return self.truths.is_deterministic(cases[0])

    @property
    def lowered(self) -> tuple[Case, ...]:
        """The cases on which a kernel passed by a family wider than `strict`, the first first."""
        return self.comparing.lowered

    def for_check(self, worth: float) -> JudgeTrial:
        """Return this trial for one check, which may take `worth` times as much as any other."""
        return dataclasses.replace(self, allowance=Allowance(worth * self.check_s))

    def seed(self, *path: object) -> int:
        """Return a secret seed derived from the trial's root seed and a path of names."""
        return derive(self.root_seed, *path)

    def scenario_s(self, scenario: Scenario) -> float:
        """Return the seconds that a scenario and its judgment take, by count.

        A call on tensors without memory computes nothing. Of calls at once nearly all answers are
        held against one run of the reference as written.
        """
        bare = {step.case for step in scenario.steps if isinstance(step, Outline)}
        cases = [case for place, case in enumerate(scenario.cases) if place not in bare]
        if len(cases) > _FOLLOWED:
            largest = max(cases, key=lambda case: elements(self.problem, case.axes))
            runs_s = [self.memory.room.run_s(self.problem, largest)] * len(cases)
        else:
            runs_s = [self.memory.room.run_s(self.problem, case) for case in cases]
        calls = sum(isinstance(step, _CALLS) for step in scenario.steps)
        if scenario.at_once:
            return sum(runs_s)
        return _JUDGED_RUNS * sum(runs_s) + calls * max(runs_s, default=0.0)

    def runs_within(self, case: Case) -> int | None:
        """Return how many runs of the reference on a case one check may take; None: any."""
        room = self.memory.room
        run_s = room.run_s(self.problem, case)
        return None if not run_s else int(self.check_s / run_s)

    def has_room(self, case: Case, *, truth: bool = True) -> bool:
        """Whether judge and workers have room for a case in the planned memory.

        Without `truth` where its answer is held against the reference as written.
        """
        return self.memory.holds(case, truth=truth)

    def settled(self, case: Case) -> Case | None:
        """Return a case as the reference accepts it; None where it refuses it.

        None as well for sizes of ours where those of the workloads alone are judged.
        """
        alone = self.planned.domain.own_alone and not case.workload
        return None if alone else self.planned.learning.settle(case)

    def cases(self, purpose: str) -> tuple[Case, ...]:
        """Return the planned cases for a purpose (see inputs.plan)."""
        return self.planned.plan(purpose, spend=self._spend)

    def inputs(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        """Return fresh inputs of a case, in the order of the problem's inputs."""
        return self.truths.inputs(case)

    def exact(self, case: Case) -> tuple[torch.Tensor, ...]:
        """Run the reference once in float64; its outputs in the problem's order."""
        self._spend(case, "exact", 1)
        return self.truths.exact(case)

    def container(self, case: Case) -> str:
        """Return in what the reference returns its outputs on a case (see `Returned`)."""
        return self.truths.container(case)

    def magnitudes(self, case: Case) -> tuple[float, ...]:
        """Return the largest magnitude of each floating input and of what each operation makes."""
        self._spend(case, "magnitudes", 1)
        return self.truths.look(case).magnitudes

    def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        """Return truth and achievable error of a case (cached). Raises CannotJudgeError.

        The error is that of a family of trusted kernels.
        """
        self._spend(case, f"truth {precision}", _JUDGED_RUNS)
        return self.truths.truth(case, precision)

    def rough(self, case: Case) -> Truth:
        """Return truth with the fewest draws, or the full one where that is made already."""
        self._spend(case, "rough", _JUDGED_RUNS)
        return self.truths.rough(case)

    def decides(self, case: Case) -> bool:
        """Whether truth of a case decides anything; where rough truth says no, it does not."""
        self._spend(case, "rough", _JUDGED_RUNS)
        return self.truths.decides(case)

    def moves(self, first: Case, second: Case) -> bool:
        """Whether the reference's answers to two cases differ by far more than it errs itself."""
        for case in (first, second):
            self._spend(case, "own error", 2)
        return self.truths.moves(first, second)

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
        self._spend(case, "gradients", _JUDGED_RUNS)
        return self.truths.gradients(
            case, outputs, upstream=upstream, seed=seed, precision=precision
        )

    def dependence(self, case: Case) -> Mapping[str, torch.Tensor]:
        """Return, by floating input, a gradient that is 0 where no floating output depends on it.

        Raises as `gradients`.
        """
        self._spend(case, "dependence", 2)
        return self.truths.dependence(case)

    def explains(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[Comparison, ...] | None:
        """Return what shows an answer to be right without a full truth; None: ask `compare`."""
        return self.comparing.explains(case, run, items)

    def distance(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[float, float] | None:
        """Return how far an answer is from the reference's as written; see `Comparing.distance`."""
        return self.comparing.distance(case, run, items)

    def compare(
        self,
        case: Case,
        run: Run,
        items: Iterable[ResultItem],
        *,
        precision: Precision | None = None,
        grade: bool = False,
    ) -> tuple[Comparison, ...]:
        """Compare what a call on `case` returned with truth; see `Comparing.compare`."""
        return self.comparing.compare(case, run, items, precision=precision, grade=grade)

    def _spend(self, case: Case, what: str, runs: int) -> None:
        seconds = runs * self.memory.room.run_s(self.problem, case)
        if seconds:
            self.allowance.spend(f"{what} {self.truths.key(case)}", seconds)


def open_trial(
    problem: Problem,
    reference: LoadedReference,
    *,
    profile: Profile,
    device: Device,
    root_seed: int,
    truths: TruthCache | None = None,
    isolated: bool = False,
    gpu_memory_gib: float | None = None,
    timeline: Timeline | None = None,
    machine: Replayer | None = None,
    budget_s: float | None = None,
) -> JudgeTrial:
    """Return a trial with services of its own.

    `truths` are those that a trial of another candidate of the same problem on the same device
    made: they are shared. An `isolated` one plans without the choice of regimes that an earlier one
    kept. Of a `budget_s` a check has a part alone: others come after it.
    """
    if not device.on_gpu:
        reference = on_cpu(reference, problem.reference.source)
    timeline = timeline or Timeline()
    knowledge = Knowledge(Domain(problem=problem, facts=stated_facts(problem)))
    memory = Memory(
        knowledge, reference, profile=profile, device=device, gpu_memory_gib=gpu_memory_gib
    )
    made = Truths(knowledge, reference, memory, device=device, timeline=timeline, cache=truths)
    check_s = memory.room.check_s
    if budget_s is not None:
        check_s = min(check_s, budget_s / _CHECKS)
    return JudgeTrial(
        reference=reference,
        profile=profile,
        device=device,
        root_seed=root_seed,
        isolated=isolated,
        timeline=timeline,
        planned=Cases(
            knowledge,
            reference,
            memory,
            made,
            profile=profile,
            device=device,
            root_seed=root_seed,
            isolated=isolated,
        ),
        truths=made,
        memory=memory,
        comparing=Comparing(knowledge, made, memory, timeline=timeline),
        machine=machine,
        allowance=Allowance(check_s),
        check_s=check_s,
    )
