"""A small trial for the tests of checks: tiny operators, a plain float64 truth, no processes.

`FakeTrial` implements `checks.base.Trial` with the real planner and a simple comparison, so
that a check's own logic is tested apart from the oracle. `examine` runs a check the way the
judge does: each scenario on a candidate made anew, findings of the reference dropped.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from cuassay.checks.base import Check, Machine, Run
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.state.answers import truth_moved
from cuassay.hooks import Observed
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.inputs.seeds import derive
from cuassay.judge.decide.gradients import dependence, truth_of
from cuassay.judge.decide.structure import matched
from cuassay.judge.plan.allowance import Allowance
from cuassay.model import serial
from cuassay.model.candidate import Convention
from cuassay.model.case import LOOPS, Case
from cuassay.model.device import CPU, Device
from cuassay.model.domain import Index, Real
from cuassay.model.dtype import DType
from cuassay.model.effort import Effort
from cuassay.model.outcome import Finding
from cuassay.model.precision import Precision
from cuassay.model.problem import (
    ConstAxis,
    Problem,
    Reference,
    Scalar,
    ScalarSpec,
    TensorSpec,
    VarAxis,
    Workload,
)
from cuassay.model.ranks import AXIS
from cuassay.model.scenario import Allocate, Scenario
from cuassay.model.steps import Upstream
from cuassay.model.trace import ResultItem
from cuassay.model.verdict import Profile
from cuassay.oracle.compare.distance import distance
from cuassay.oracle.compare.outputs import Comparison, Statistic, compare
from cuassay.oracle.lift.magnitudes import Magnitudes
from cuassay.oracle.lift.run import lift, run_as_written
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import OutputTruth, Truth
from cuassay.sandbox.guest.items import container_of
from cuassay.sandbox.local import LocalRunner
from cuassay_loops import states

Function = Callable[..., object]
Factory = Callable[[], Function]
_NOISE = {DType.FLOAT32: 2.0**-20, DType.BFLOAT16: 2.0**-8}


@dataclass(slots=True)
class FakeTrial:
    """The judge's side of a trial, on the CPU."""

    problem: Problem
    reference: Function
    profile: Profile = Profile.QUICK
    device: Device = CPU
    deterministic_reference: bool = True
    plans: dict[str, tuple[Case, ...]] = field(default_factory=dict)
    ill_conditioned: str = ""
    generator: Callable[..., Mapping[str, object]] | None = None
    machine: Machine | None = None
    lowered: tuple[Case, ...] = ()

    @property
    def effort(self) -> Effort:
        """What the profile means."""
        return Effort(self.profile)

    def seed(self, *path: object) -> int:
        """Return a seed derived from a fixed root."""
        return derive(20261121, *path)

    def has_room(self, case: Case, *, truth: bool = True) -> bool:
        """Return True: memory is not limited."""
        return True

    def begin_check(self, worth: float) -> Allowance:
        """Return an allowance without an end."""
        return Allowance(math.inf)

    def scenario_s(self, scenario: Scenario) -> float:
        """Return 0: nothing is counted."""
        return 0.0

    def settled(self, case: Case) -> Case | None:
        """Return the case: the reference takes all."""
        return case

    def cases(self, purpose: str) -> tuple[Case, ...]:
        """Return the cases set in `plans`, else the planner's."""
        if purpose in LOOPS:
            found = states.plan(
                self.problem, purpose, profile=self.profile, seed=20261121, device=CPU
            )
            return self.plans.setdefault(purpose, tuple(found))
        if purpose not in self.plans:
            self.plans[purpose] = plan_cases(
                self.problem, purpose, profile=self.profile, root_seed=20261121
            )
        return self.plans[purpose]

    def inputs(self, case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        """Return fresh inputs."""
        if case.state is not None:
            return states.inputs(self.problem, case.state, CPU)
        generator = self.generator if case.generator else None
        return materialise(self.problem, case, device=CPU, generator=generator)

    def exact(self, case: Case) -> tuple[torch.Tensor, ...]:
        """Return the lifted reference's answer."""
        return lift(self.reference, list(self.inputs(case).values()))

    def container(self, case: Case) -> str:
        """Return in what the reference returns its outputs."""
        return container_of(self.reference(*self.inputs(case).values()))

    def magnitudes(self, case: Case) -> tuple[float, ...]:
        """Return the largest magnitudes that the reference meets."""
        values = list(self.inputs(case).values())
        measured = Magnitudes(values)

        def watched(*given: object) -> object:
            with Observed(measured):
                return self.reference(*given)

        run_as_written(watched, values)
        return measured.read()

    def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        """Return the reference's answer on float64 inputs and a plain noise scale."""
        values = [_lifted(value) for value in self.inputs(case).values()]
        answers = outputs_of(self.reference(*values))
        made = [_output(spec, t) for spec, t in zip(self.problem.outputs, answers, strict=True)]
        aside = tuple(dataclasses.replace(o, ill_conditioned=self.ill_conditioned) for o in made)
        return Truth(outputs=aside, kind="float64", reason="a test")

    def rough(self, case: Case) -> Truth:
        """Return the same truth."""
        return self.truth(case)

    def explains(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[Comparison, ...] | None:
        """Leave every answer to `compare`."""
        return None

    def distance(
        self, case: Case, run: Run, items: Iterable[ResultItem]
    ) -> tuple[float, float] | None:
        """Return how far an answer is from the reference's."""
        written = run_as_written(self.reference, list(self.inputs(case).values()))
        found = matched(self.problem, [tuple(one.shape) for one in written], run, items)
        tensors = [one for one in found if isinstance(one, torch.Tensor)]
        return distance(tensors, written) if len(tensors) == len(written) else None

    def moves(self, first: Case, second: Case) -> bool:
        """Whether the answers to two cases differ by far more than their noise."""
        return truth_moved(self, first, second)

    def decides(self, case: Case) -> bool:
        """Whether the answer to a case is not said to be ill-conditioned."""
        return not self.truth(case).ill_conditioned

    def gradients(
        self,
        case: Case,
        outputs: Sequence[str],
        *,
        upstream: Upstream,
        seed: int,
        precision: Precision = Precision.STRICT,
    ) -> Truth:
        """Return the reference's gradients with the real oracle behind them."""
        return truth_of(
            self.problem,
            self.reference,
            case,
            self.inputs(case),
            outputs=outputs,
            upstream=upstream,
            seed=seed,
            precision=precision,
        )

    def dependence(self, case: Case) -> Mapping[str, torch.Tensor]:
        """Return the reference's gradients of a random weighting."""
        return dependence(self.problem, self.reference, case, self.inputs(case))

    def compare(
        self,
        case: Case,
        run: Run,
        items: Iterable[ResultItem],
        *,
        precision: Precision | None = None,
        grade: bool = False,
    ) -> tuple[Comparison, ...]:
        """Compare by the worst element alone."""
        truth = self.truth(case)
        found = list(items)
        if len(found) != len(truth.outputs):
            why = f"expected {len(truth.outputs)} outputs, got {len(found)}"
            return tuple(_mismatched(output.name, why) for output in truth.outputs)
        pairs = zip(found, truth.outputs, strict=True)
        return tuple(_compared(item, output, run) for item, output in pairs)

    def answers(self, case: Case) -> Sequence[torch.Tensor]:
        """Return the right answer in the outputs' own dtypes."""
        truth = self.truth(case)
        return [
            output.value.to(getattr(torch, spec.dtype.value))
            for output, spec in zip(truth.outputs, self.problem.outputs, strict=True)
        ]


@dataclass(slots=True)
class OracleTrial(FakeTrial):
    """The same trial with the real truth and the real comparison."""

    known: dict[str, Truth] = field(default_factory=dict)
    widest: Precision = Precision.STRICT

    def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
        """Return truth and achievable error, each case's and family's once."""
        key = f"{serial.dumps(case)} {precision}"
        if key not in self.known:
            self.known[key] = make_truth(
                self.reference,
                list(self.inputs(case).values()),
                self.problem.outputs,
                seed=derive(case.seed, "truth"),
                family=family_of(
                    precision,
                    self.problem.low_type,
                    ranks=case.axes[AXIS] if self.problem.ranks else 0,
                ),
            )
        return self.known[key]

    def compare(
        self,
        case: Case,
        run: Run,
        items: Iterable[ResultItem],
        *,
        precision: Precision | None = None,
        grade: bool = False,
    ) -> tuple[Comparison, ...]:
        """Compare in the family `precision`, or in the `widest`."""
        truth = self.truth(case, precision or self.widest)
        shapes = [tuple(output.value.shape) for output in truth.outputs]
        tensors = matched(self.problem, shapes, run, items)
        return tuple(
            _mismatched(output.name, got) if isinstance(got, str) else compare(got, output)
            for got, output in zip(tensors, truth.outputs, strict=True)
        )


def with_oracle(trial: FakeTrial) -> OracleTrial:
    """Return the trial with the real oracle behind it."""
    return OracleTrial(trial.problem, trial.reference, profile=trial.profile)


def outputs_of(returned: object) -> list[torch.Tensor]:
    """Return the tensors that a reference returned."""
    members = returned if isinstance(returned, tuple) else (returned,)
    assert all(isinstance(member, torch.Tensor) for member in members)
    return [member for member in members if isinstance(member, torch.Tensor)]


def run_one(
    trial: FakeTrial,
    candidate: Function,
    scenario: Scenario,
    *,
    convention: Convention = Convention.RETURNS,
) -> Run:
    """Run one scenario in this process."""
    runner = LocalRunner(candidate, trial.problem, convention=convention)
    return runner.run(scenario, trial.inputs, trial.answers)


def examine(
    check: Check,
    trial: FakeTrial,
    factory: Factory,
    *,
    convention: Convention = Convention.RETURNS,
    control: Function | None = None,
) -> list[Finding]:
    """Return the findings of a check, less those that the reference earns too."""
    found: list[Finding] = []
    for scenario in check.propose(trial):
        if any(isinstance(step, Allocate) and step.read_only for step in scenario.steps):
            continue  # a write would end this process
        run = run_one(trial, factory(), scenario, convention=convention)
        fresh = judged(check, trial, scenario, run)
        if fresh:
            reference = control or trial.reference
            shared = {
                f.code for f in judged(check, trial, scenario, run_one(trial, reference, scenario))
            }
            found += [finding for finding in fresh if finding.code not in shared]
    return found


def judged(check: Check, trial: FakeTrial, scenario: Scenario, run: Run) -> list[Finding]:
    """Return the findings of one run, its ending first, as the judge does."""
    ended = termination_finding(scenario, run, problem=trial.problem)
    if ended is not None and not check.judges_failures:
        return [ended]
    return list(check.judge(trial, scenario, run).findings)


def _lifted(value: torch.Tensor | Scalar) -> torch.Tensor | Scalar:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value.clone() if isinstance(value, torch.Tensor) else value


def _output(spec: TensorSpec, value: torch.Tensor) -> OutputTruth:
    if not spec.dtype.is_floating:
        return OutputTruth(name=spec.name, dtype=spec.dtype, value=value, scale=None)
    size = value.abs()
    floor = float(size.mean()) if value.numel() else 0.0
    scale = (size + floor + 1e-30) * _NOISE[spec.dtype]
    return OutputTruth(name=spec.name, dtype=spec.dtype, value=value, scale=scale.float())


def _mismatched(name: str, why: str) -> Comparison:
    return Comparison(output=name, passed=False, share=math.inf, mismatch=why)


def _compared(item: ResultItem, truth: OutputTruth, run: Run) -> Comparison:
    if item.kind != "tensor" or tuple(item.shape) != tuple(truth.value.shape):
        why = f"output '{truth.name}' has shape {list(item.shape)}"
        return _mismatched(truth.name, f"{why}, expected {list(truth.value.shape)}")
    if item.dtype != truth.dtype.value:
        return _mismatched(truth.name, f"output '{truth.name}' is {item.dtype}")
    got = run.tensor(item)
    scale = truth.scale.double() if truth.scale is not None else torch.tensor(0.1)
    errors = (got.double() - truth.value.double()).abs() / scale
    value = float(errors.nan_to_num(math.inf).max()) if got.numel() else 0.0
    worst = int(errors.nan_to_num(math.inf).argmax()) if got.numel() else 0
    index = torch.unravel_index(torch.tensor(worst), got.shape) if got.numel() else ()
    place = tuple(int(i) for i in index)
    return Comparison(
        output=truth.name,
        passed=value <= 6.0,
        share=value / 6.0,
        statistics=(Statistic(name="W", value=value, limit=6.0, group="whole tensor"),),
        worst_index=place,
        got=float(got[place]) if got.numel() else math.nan,
        expected=float(truth.value[place]) if got.numel() else math.nan,
    )


def tensor(name: str, *shape: str, dtype: DType = DType.FLOAT32) -> TensorSpec:
    """Return a tensor of any finite numbers."""
    return TensorSpec(name=name, dtype=dtype, shape=shape, domain=Real())


def problem(
    name: str,
    *,
    axes: Sequence[VarAxis | ConstAxis],
    inputs: Sequence[TensorSpec | ScalarSpec],
    outputs: Sequence[TensorSpec],
    workloads: Sequence[Mapping[str, int]],
) -> Problem:
    """Return a problem whose reference is given to the trial as a callable."""
    return Problem(
        name=name,
        axes=tuple(axes),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        reference=Reference(path=Path("reference.py")),
        workloads=tuple(Workload(id=f"w{n}", axes=w) for n, w in enumerate(workloads)),
        origin="native",
    )


def axis(name: str, *, declared: bool = True, minimum: int = 1, maximum: int = 512) -> VarAxis:
    """Return a var axis; without declared bounds only the workloads are promised."""
    return VarAxis(
        name=name, minimum=minimum, maximum=maximum if declared else None, declared=declared
    )


def scaled_add(*, declared: bool = True) -> FakeTrial:
    """Return y = x * gain + bias, x of (rows, cols), bias of (cols,), gain a scalar."""
    made = problem(
        "scaled_add",
        axes=[axis("rows", declared=declared), axis("cols", declared=declared)],
        inputs=[
            tensor("x", "rows", "cols"),
            tensor("bias", "cols"),
            ScalarSpec(
                name="gain",
                dtype=DType.FLOAT32,
                domain=Real(low=0.5, high=4.0),
                domain_source="declared",
                default=1.0,
            ),
        ],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}, {"rows": 24, "cols": 64}],
    )
    return FakeTrial(made, lambda x, bias, gain: x * gain + bias)


def row_sum(*, declared: bool = True) -> FakeTrial:
    """Return y = x.sum(-1), x of (rows, cols)."""
    made = problem(
        "row_sum",
        axes=[axis("rows", declared=declared), axis("cols", declared=declared)],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows")],
        workloads=[{"rows": 16, "cols": 32}, {"rows": 16, "cols": 64}],
    )
    return FakeTrial(made, lambda x: x.sum(-1))


def gather() -> FakeTrial:
    """Return y[b, s] = table[ids[b, s]], ids of (batch, length), table of (vocab, 8)."""
    ids = TensorSpec(
        name="ids", dtype=DType.INT64, shape=("batch", "length"), domain=Index(axis="vocab")
    )
    made = problem(
        "gather",
        axes=[axis("batch"), axis("length"), axis("vocab"), ConstAxis(name="hidden", value=8)],
        inputs=[ids, tensor("table", "vocab", "hidden")],
        outputs=[tensor("y", "batch", "length", "hidden")],
        workloads=[{"batch": 2, "length": 16, "vocab": 32}],
    )
    return FakeTrial(made, lambda ids, table: table[ids])
