"""Which backward passes are tried, as one scenario: the plain one first, then its variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from cuassay.checks.base import Run, Trial
from cuassay.checks.interface.layout_trials import base_cases
from cuassay.checks.numeric.varied_scalars import varied_scalars
from cuassay.inputs.geometry import axes_of, tensor_inputs
from cuassay.inputs.growing import ways
from cuassay.model.case import Case
from cuassay.model.dtype import DType
from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.scenario import Allocate, ReadResult, Scenario, Step
from cuassay.model.steps import Backward, Upstream, Use
from cuassay.model.trace import StepDone, StepRaised
from cuassay.model.verdict import Profile

LABEL = "autograd: gradients"
DIFFERENTIABLE = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
_ALL_SUBSETS = 3  # inputs up to which every subset is tried
_QUICK_SUBSETS = 6
_MOST_ELEMENTS, _LARGE, _QUICK_LARGE = 1 << 20, 4096, 2
_OUTPUTS_READ = 2  # of the plain backward pass and of the call without one
_UPSTREAM = {
    Upstream.ONES: "the upstream gradient expanded (stride 0), as .sum() hands it out",
    Upstream.TRANSPOSED: "the upstream gradient transposed in memory",
    Upstream.SLICED: "the upstream gradient a slice of a wider buffer, as cat hands it out",
}
_USES = {
    Use.TWICE: "the same inputs used twice",
    Use.BESIDE: "another call and its backward pass between",
    Use.RETAINED: "a second backward pass through the same call (retain_graph)",
    Use.CHECKPOINT: "activations recomputed (checkpoint)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientCall:
    """One Backward step of a scenario, and where its gradients and outputs are read."""

    step: Backward
    index: int
    reads: tuple[int, int]  # steps that read the gradients and the outputs; -1: not read
    words: str
    again: bool = False  # the plain backward pass a second time

    def record(self, run: Run) -> StepDone | StepRaised | None:
        """Return the record of the step, None where the run did not reach its end."""
        records = run.result.records
        return records[self.index] if self.index < len(records) else None


def float_inputs(problem: Problem) -> tuple[str, ...]:
    """Return the inputs that can require a gradient."""
    return tuple(
        s.name for s in problem.inputs if isinstance(s, TensorSpec) and s.dtype in DIFFERENTIABLE
    )


def float_outputs(problem: Problem) -> tuple[str, ...]:
    """Return the outputs that can carry one."""
    return tuple(spec.name for spec in problem.outputs if spec.dtype in DIFFERENTIABLE)


def scenarios(trial: Trial) -> Iterator[Scenario]:
    """Yield one scenario per case: small sizes, from `standard` on listed ones as well.

    Then one with other scalars: a derivative may forget what usually is 1. Then calls that are
    large along one axis each, for the gradients that add up along it: a backward pass has partial
    sums of its own. An element of any other gradient knows no size, and among many one lies at a
    kink, or cancels in 16 bits.
    """
    cases, names = base_cases(trial), float_inputs(trial.problem)
    for number, case in enumerate(cases):
        yield _scenario(trial, case, names, seed=trial.seed("GRAD001", number))
    for case in cases[:1]:
        other = varied_scalars(trial, case)
        if other is not case:
            seed = trial.seed("GRAD001", "scalars")
            yield _scenario(trial, other, names, seed=seed, variants=False)
    for number, one in enumerate(large_calls(trial)):
        seed = trial.seed("GRAD001", "large", number)
        yield _scenario(trial, one.case, one.wanted, seed=seed, variants=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeCall:
    """A call that is large along one axis, and the inputs that do not have it."""

    case: Case
    wanted: tuple[str, ...]


def large_calls(trial: Trial) -> list[LargeCall]:
    """Return calls that are large along one axis each, as far as a gradient is a sum along it.

    None where the PTX machine executes them.
    """
    executed = trial.machine is not None and not (trial.device.on_gpu or trial.machine.absent)
    small = [case for case in trial.cases("small") if case.in_domain][:1]
    found: dict[str, LargeCall] = {}
    for way in ways(trial.problem, small[0].axes, fixed=trial.problem.built) if small else ():
        axes = [name for name, size in way.low.items() if size < way.top[name]]
        if executed or way.workload or len(axes) != 1:
            continue
        sizes = way.within(_MOST_ELEMENTS, seed=trial.seed("GRAD001", "large"))
        if sizes is not None and sizes[axes[0]] >= _LARGE:
            label, seed = f"large {axes[0]}", trial.seed("GRAD001", axes[0])
            case = trial.settled(replace(small[0], label=label, axes=sizes, fills={}, seed=seed))
            # Gradients add up along an axis for those inputs that do not have it.
            having = {
                spec.name
                for spec in tensor_inputs(trial.problem)
                if axes[0] in axes_of(trial.problem, spec)
            }
            wanted = tuple(name for name in float_inputs(trial.problem) if name not in having)
            if case is not None and wanted and trial.has_room(case):
                found[axes[0]] = LargeCall(case=case, wanted=wanted)
    return list(found.values())[: _QUICK_LARGE if trial.profile is Profile.QUICK else None]


def _scenario(
    trial: Trial, case: Case, names: tuple[str, ...], *, seed: int, variants: bool = True
) -> Scenario:
    quick = trial.profile is Profile.QUICK
    made: list[tuple[tuple[str, ...], Upstream, Use]] = [
        (names, Upstream.CONTIGUOUS, Use.ONCE),
        (names, Upstream.CONTIGUOUS, Use.FORWARD),
        (names, Upstream.CONTIGUOUS, Use.ONCE),
    ]
    if variants:
        made += [(names, upstream, Use.ONCE) for upstream in _UPSTREAM]
        made += [(names, Upstream.CONTIGUOUS, use) for use in _USES]
    chosen = subsets(names) if variants else []
    for subset in chosen[:_QUICK_SUBSETS] if quick else chosen:
        made.append((subset, Upstream.CONTIGUOUS, Use.ONCE))
        if not quick:
            made.append((subset, Upstream.CONTIGUOUS, Use.CHECKPOINT))
    steps: list[Step] = [Allocate(slot="a", case=0)]
    for number, (wanted, upstream, use) in enumerate(made):
        step = Backward(
            slot="a",
            result=f"g{number}",
            outputs=f"y{number}",
            wanted=wanted,
            seed=seed,
            upstream=upstream,
            use=use,
        )
        steps += [step, ReadResult(result=step.result)]
        if number < _OUTPUTS_READ:
            steps.append(ReadResult(result=step.outputs))
    return Scenario(label=LABEL, cases=(case,), steps=tuple(steps))


def subsets(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the subsets of inputs that alone require gradients: each alone first, not all."""
    if len(names) <= _ALL_SUBSETS:
        return [s for size in range(1, len(names)) for s in combinations(names, size)]
    alone = [(name,) for name in names]
    return alone + [tuple(n for n in names if n != left) for left in names]


def tried_in(scenario: Scenario) -> list[GradientCall]:
    """Return every backward pass of a scenario, in order."""
    reads = {s.result: n for n, s in enumerate(scenario.steps) if isinstance(s, ReadResult)}
    found: list[GradientCall] = []
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Backward):
            everything = found[0].step.wanted if found else step.wanted
            places = reads.get(step.result, -1), reads.get(step.outputs, -1)
            parts = []
            if len(step.wanted) < len(everything):
                parts.append(f"gradients of {', '.join(step.wanted)} alone")
            if step.upstream in _UPSTREAM:
                parts.append(_UPSTREAM[step.upstream])
            if step.use in _USES:
                parts.append(_USES[step.use])
            words = ", ".join(parts)
            again = bool(found) and not words and step.use is Use.ONCE
            found.append(
                GradientCall(
                    step=step,
                    index=index,
                    reads=places,
                    words="the same call made again" if again else words,
                    again=again,
                )
            )
    return found
