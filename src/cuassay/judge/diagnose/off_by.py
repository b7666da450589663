"""Whether wrong answers are right ones off by one factor or term: hypotheses on the numbers alone.

A kernel that leaves a factor out, or divides by another count, gives the expected numbers changed
in one way, whatever the reference is made of. Each relation predicts every element of every failing
case from the truth, the inputs and the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec

Inputs: TypeAlias = Mapping[str, "torch.Tensor | Scalar"]
# A term or factor of an output: float64 of a shape that broadcasts to it; None where it has none.
_Term: TypeAlias = Callable[[Case, Inputs], "torch.Tensor | None"]
# An answer, given a case, its inputs and the truth in float64; None where it says nothing.
_Predicted: TypeAlias = Callable[[Case, Inputs, torch.Tensor], "torch.Tensor | None"]
_POWERS = ((1.0, "{0}"), (-1.0, "1/{0}"), (0.5, "sqrt({0})"), (-0.5, "1/sqrt({0})"))
_STATISTICS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "the largest": lambda x: x.amax(-1, keepdim=True),
    "the sum": lambda x: x.sum(-1, keepdim=True),
    "the mean": lambda x: x.mean(-1, keepdim=True),
    "the root of the mean square": lambda x: x.square().mean(-1, keepdim=True).sqrt(),
}
# Relative distance of two factors that count as one, by the answers' dtype.
_SAME = {"bfloat16": 2.0**-7, "float16": 2.0**-10}
_SAME_ELSE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What an answer would be beside the right one, for one output."""

    cause: Cause
    words: str
    output: int
    predicted: _Predicted


def relations(
    problem: Problem, output: int, seen: Sequence[tuple[Case, torch.Tensor, torch.Tensor]]
) -> Iterator[Relation]:
    """Yield the relations of one output, the simplest first.

    `seen` holds failing cases with what came and the truth of that output.
    """
    factors = [_factor(got, want) for _, got, want in seen]
    yield from _of_factors(problem, output, [case for case, _, _ in seen], factors)
    for words, term in _terms(problem, problem.outputs[output]):
        for cause, said, of in _OF_TERM:
            made = _of_term(term, of)
            yield Relation(cause=cause, words=said.format(words), output=output, predicted=made)


def _factor(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the usual quotient of an answer and the truth; NaN where there is none."""
    used = got.isfinite() & want.isfinite() & (want != 0)
    return float((got[used] / want[used]).median()) if bool(used.any()) else math.nan


def _of_factors(
    problem: Problem, output: int, cases: Sequence[Case], factors: Sequence[float]
) -> Iterator[Relation]:
    """Yield that the answers are off by a factor: one number, or one that follows a size."""
    if not factors or not all(map(math.isfinite, factors)) or not all(factors):
        return
    first = factors[0]
    name, dtype = problem.outputs[output].name, problem.outputs[output].dtype.value
    same = _SAME.get(dtype, _SAME_ELSE)
    if all(abs(one - 1.0) < same for one in factors):
        return
    # At one size of an axis alone nobody can tell a number from what follows the size.
    vary = all(len({case.axes[axis.name] for case in cases}) > 1 for axis in problem.var_axes())
    if vary and all(abs(one / first - 1.0) < same for one in factors):
        words = f"{name} is {first:.6g} times what is expected"
        times = _times(first)
        yield Relation(cause=Cause.WRONG_CONSTANT, words=words, output=output, predicted=times)
    for axis in problem.var_axes():
        sizes = [case.axes[axis.name] for case in cases]
        if len(set(sizes)) < 2 and min(sizes) < 2:
            continue
        for power, form in _POWERS:
            rest = first / sizes[0] ** power
            fits = all(
                abs(one / (rest * size**power) - 1.0) < same
                for one, size in zip(factors, sizes, strict=True)
            )
            # Of one size every power fits: there only the plain one is told from chance.
            plain = abs(rest - 1.0) < same
            if fits and (plain or len(set(sizes)) > 1):
                by = form.format(axis.name) + ("" if plain else f" * {rest:.6g}")
                yield Relation(
                    cause=Cause.WRONG_REDUCTION,
                    words=f"{name} is {by} times what is expected",
                    output=output,
                    predicted=_times(rest, axis.name, power),
                )


def _times(by: float, axis: str = "", power: float = 0.0) -> _Predicted:
    """Return the truth times a number, and a power of a size."""
    return lambda case, _, want: want * (by * float(case.axes[axis]) ** power if axis else by)


# What a missing, doubled or turned term or factor makes of the truth.
_OF_TERM: Sequence[tuple[Cause, str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = (
    (Cause.TERM_OMITTED, "the factor {0} is missing", lambda y, t: y / t),
    (Cause.INPUT_MISREAD, "the factor {0} is used once too often", lambda y, t: y * t),
    (Cause.TERM_OMITTED, "the term {0} is not added", lambda y, t: y - t),
    (Cause.TERM_OMITTED, "the term {0} is not subtracted", lambda y, t: y + t),
    (Cause.OTHER_FORM, "the term {0} is subtracted where it must be added",
     lambda y, t: y - 2 * t),
    (Cause.OTHER_FORM, "the term {0} is added where it must be subtracted",
     lambda y, t: y + 2 * t),
    (Cause.TERM_OMITTED, "the factor exp({0}) is missing", lambda y, t: y * torch.exp(-t)),
    (Cause.TERM_OMITTED, "the factor exp(-({0})) is missing", lambda y, t: y * torch.exp(t)),
)  # fmt: skip


def _of_term(term: _Term, of: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> _Predicted:
    def predicted(case: Case, inputs: Inputs, want: torch.Tensor) -> torch.Tensor | None:
        value = term(case, inputs)
        return None if value is None else of(want, value)

    return predicted


def _terms(problem: Problem, output: TensorSpec) -> Iterator[tuple[str, _Term]]:
    """Yield inputs, and what reductions of them along the last axis give, laid out as an output."""
    for spec in problem.inputs:
        if isinstance(spec, ScalarSpec):
            yield spec.name, _scalar(spec.name)
            continue
        if _layout(spec.shape, output.shape) is not None:
            yield f"`{spec.name}`", _aligned(spec.name, spec.shape, output.shape, None)
        if len(spec.shape) > 1 and _layout(spec.shape[:-1], output.shape) is not None:
            for words, statistic in _STATISTICS.items():
                said = f"{words} of `{spec.name}` along {spec.shape[-1]}"
                yield said, _aligned(spec.name, spec.shape, output.shape, statistic)


def _scalar(name: str) -> _Term:
    def term(case: Case, inputs: Inputs) -> torch.Tensor | None:
        value = inputs.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value:
            return None  # a quotient by zero is NaN, which any other NaN would match
        return torch.tensor(float(value), dtype=torch.float64)

    return term


def _layout(shape: Sequence[str], of: Sequence[str]) -> list[int] | None:
    """Return the dimension of `of` that each of `shape` is, by the axes' names; None: not laid out.

    Dimensions keep their order.
    """
    places: list[int] = []
    for name in shape:
        start = places[-1] + 1 if places else 0
        place = next((n for n in range(start, len(of)) if of[n] == name), None)
        if place is None:
            return None
        places.append(place)
    return places


def _aligned(
    name: str,
    shape: Sequence[str],
    of: Sequence[str],
    statistic: Callable[[torch.Tensor], torch.Tensor] | None,
) -> _Term:
    kept = shape if statistic is None else shape[:-1]
    places = _layout(kept, of)
    assert places is not None

    def term(case: Case, inputs: Inputs) -> torch.Tensor | None:
        value = inputs.get(name)
        if not isinstance(value, torch.Tensor) or value.dtype is torch.bool:
            return None
        value = value.detach().double().cpu()
        if statistic is not None:
            value = statistic(value).squeeze(-1)
        sizes = [1] * len(of)
        for place, size in zip(places, value.shape, strict=True):
            sizes[place] = size
        return value.reshape(sizes)

    return term
