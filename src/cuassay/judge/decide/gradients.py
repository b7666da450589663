"""The right gradients of a case: the problem's reference differentiated in float64.

A function that runs the reference and differentiates it is lifted like the reference itself,
so that the achievable error follows from the same trusted runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from cuassay.checks.gradients.cases import DIFFERENTIABLE
from cuassay.errors import CannotJudgeError, LiftError, NothingToCheckError, ReferenceError_
from cuassay.inputs.seeds import derive
from cuassay.model.axes import resolve, shape_of
from cuassay.model.case import Case
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, Scalar, TensorSpec
from cuassay.model.steps import Upstream
from cuassay.oracle.gradients import differentiated
from cuassay.oracle.lift.run import lift
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import Truth
from cuassay.sandbox.upstream import drawn

Reference = Callable[..., object]
_DRAWS = 4  # fewer than for outputs: a wrong gradient must use more than its budget
_FEW_DRAWS, _HUGE = 2, 1 << 27


class _ConstantError(Exception):
    """No asked output of the reference depends on an input that requires a gradient."""


def differentiable(spec: object) -> bool:
    """Whether a tensor is of numbers that torch differentiates."""
    return isinstance(spec, TensorSpec) and spec.dtype in DIFFERENTIABLE


def truth_of(
    problem: Problem,
    reference: Reference,
    case: Case,
    inputs: Mapping[str, torch.Tensor | Scalar],
    *,
    outputs: Sequence[str],
    upstream: Upstream,
    seed: int,
    precision: Precision = Precision.STRICT,
) -> Truth:
    """Return truth and achievable error of the gradients of the floating inputs.

    Raises CannotJudgeError; NothingToCheckError where the reference cannot be differentiated.
    """
    wanted = _differentiated(problem)
    asked = [(n, s) for n, s in enumerate(problem.outputs) if s.name in outputs]
    sizes = resolve(problem.axes, case.axes)
    given = _given(asked, inputs, sizes, upstream=upstream, seed=seed)
    shapes = [shape_of(spec.shape, sizes) for spec in wanted]
    with _told():
        return make_truth(
            _gradient(problem, reference, list(inputs), wanted=wanted, asked=[n for n, _ in asked]),
            [*inputs.values(), *given],
            [dataclasses.replace(spec, name=f"grad_{spec.name}") for spec in wanted],
            seed=derive(case.seed, "gradients"),
            accumulation=problem.accumulation,
            family=family_of(precision, problem.low_type),
            draws=_DRAWS if sum(math.prod(s) for s in shapes) < _HUGE else _FEW_DRAWS,
            gradients=True,
        )


def dependence(
    problem: Problem, reference: Reference, case: Case, inputs: Mapping[str, torch.Tensor | Scalar]
) -> dict[str, torch.Tensor]:
    """Return the gradients, by input, of a random weighting of every float output.

    In float64, by one run of the reference: what they tell is where no output depends on an
    input. The weights have more bits than 16-bit outputs, whose few values cancel by chance.
    Raises as `truth_of`.
    """
    wanted = _differentiated(problem)
    asked = [(n, s) for n, s in enumerate(problem.outputs) if differentiable(s)]
    sizes = resolve(problem.axes, case.axes)
    fine = [(n, dataclasses.replace(spec, dtype=DType.FLOAT64)) for n, spec in asked]
    given = _given(fine, inputs, sizes, upstream=Upstream.CONTIGUOUS, seed=case.seed)
    numbers = [n for n, _ in asked]
    run = _gradient(problem, reference, list(inputs), wanted=wanted, asked=numbers)
    with _told():
        made = lift(run, [*inputs.values(), *given])
    return {spec.name: one for spec, one in zip(wanted, made, strict=True)}


def _differentiated(problem: Problem) -> list[TensorSpec]:
    return [s for s in problem.inputs if isinstance(s, TensorSpec) and differentiable(s)]


def _given(
    asked: Sequence[tuple[int, TensorSpec]],
    inputs: Mapping[str, torch.Tensor | Scalar],
    sizes: Mapping[str, int],
    *,
    upstream: Upstream,
    seed: int,
) -> list[torch.Tensor]:
    """Return the upstream gradients of the outputs asked for, on the inputs' device."""
    device = next((v.device for v in inputs.values() if isinstance(v, torch.Tensor)), None)
    given = []
    for n, s in asked:
        dtype: torch.dtype = getattr(torch, s.dtype.value)
        made = drawn(upstream, shape_of(s.shape, sizes), dtype, seed=seed, number=n)
        given.append(made.to(device))
    return given


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say of a failure that it is the reference's derivative which is missing."""
    try:
        yield
    except (ReferenceError_, LiftError) as error:
        why = f"the reference cannot be differentiated: {error}"
        raise NothingToCheckError(why) from None
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise CannotJudgeError(f"no truth for the gradients: {error}"[:300]) from None


def _gradient(
    problem: Problem,
    reference: Reference,
    names: Sequence[str],
    *,
    wanted: Sequence[TensorSpec],
    asked: Sequence[int],
) -> Reference:
    """Return the gradients of the outputs asked for, as `oracle.gradients` does.

    Called, it raises _ConstantError where no output asked for carries a gradient.
    """
    declared = [spec.name for spec in problem.outputs]

    def the_reference(*arguments: torch.Tensor) -> list[torch.Tensor]:
        returned = reference(*arguments)
        if isinstance(returned, torch.Tensor):
            found = [returned]
        elif isinstance(returned, Mapping):
            found = [returned[name] for name in declared]
        elif isinstance(returned, Sequence):
            found = list(returned)
        else:
            raise TypeError(f"the reference returned {type(returned).__name__}")
        outputs = [found[n] for n in asked]
        if not any(output.requires_grad for output in outputs):
            raise _ConstantError("no output of it carries a gradient")
        return outputs

    the_reference.__name__ = "the reference"
    places = [names.index(spec.name) for spec in wanted]
    return differentiated(the_reference, places, count=len(names))
