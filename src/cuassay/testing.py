"""The oracle for tests that exist: how large an error may be, and whether a result keeps to it.

`bounds(reference, inputs)` returns the truth of one call and the error that trusted implementations
make on these inputs; `assert_accurate(actual, reference, inputs)` replaces a hand-picked tolerance.
Both judge one call in this process, on the device of the inputs: nothing is isolated, no other
input is tried, and the reference and whatever made `actual` are trusted code. `cuassay.check` and
`cuassay.assert_correct` judge a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision, precision_named
from cuassay.oracle.answers import (
    TruthOf,
    is_known,
    judge_answer,
    low_type_of,
    policy_of_call,
    spec_of,
)
from cuassay.oracle.compare.groups import limit_w
from cuassay.oracle.compare.outputs import Comparison
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import Truth

__all__ = ["Bound", "Bounds", "InaccurateError", "assert_accurate", "bounds"]


class InaccurateError(AssertionError):
    """A result errs more than trusted implementations do; `comparisons` says where and by how much.

    They are those of all outputs, in order.
    """

    def __init__(self, message: str, comparisons: tuple[Comparison, ...]) -> None:
        self.comparisons = comparisons
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bound:
    """What one output may be.

    truth       the reference in float64, integers and bools in their own type; as the output
    error       float64, what one trusted run is off by at each element: the scale of its error, not
                its largest value; None where only the exact answer is right
    allowed     float64, the largest error of a single element that passes; None as `error`
    undecided   why this output decides nothing, or empty

    A single element is not all that is judged: the mean error and a drift of each row, column and
    of the whole tensor have limits of their own, far below `allowed` (docs/oracle.md).
    """

    name: str
    dtype: DType
    truth: Tensor
    error: Tensor | None
    allowed: Tensor | None
    undecided: str = ""


class Bounds:
    """Truth and achievable error of one call; `outputs` are in the order of the call's result.

    `policy` says which trusted implementations count. Truth of a wider family is made when a result
    needs it.
    """

    def __init__(
        self, truths: Sequence[TruthOf], policy: Precision, written: Sequence[Tensor]
    ) -> None:
        self._truths, self._written = tuple(truths), tuple(written)
        self.policy = policy

    @property
    def outputs(self) -> tuple[Bound, ...]:
        """The bounds of all outputs by the widest family that the policy accepts."""
        return tuple(
            Bound(
                name=one.name,
                dtype=one.dtype,
                truth=one.value,
                error=None if one.scale is None else one.scale.double().abs(),
                allowed=None
                if one.scale is None
                else one.scale.double().abs() * limit_w(one.value.numel()) * one.element_room,
                undecided=one.ill_conditioned,
            )
            for one in self._truths[0](self.policy).outputs
        )

    def compare(self, actual: Any) -> tuple[Comparison, ...]:
        """Return how a result compares, an output each; `passed`, `share` of the budget, where.

        `actual` has the form of what the reference returns. Raises UsageError where it holds
        another number of tensors. What fails is judged again under another seed and fails only if
        it fails there too. What the reference's own result fails as well is undecided.
        """
        results = _tensors(actual)
        if len(results) != len(self._written):
            raise UsageError(
                f"actual holds {len(results)} tensors, expected {len(self._written)} as the "
                f"reference returns; pass everything that the kernel returns, in the same order"
            )
        return tuple(
            judge_answer(result, index, own, self._truths, policy=self.policy)
            for index, (result, own) in enumerate(zip(results, self._written, strict=True))
        )


def bounds(
    reference: Callable[..., Any],
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    policy: Precision | str | None = None,
    accumulation: str = "float32",
    seed: int = 0,
) -> Bounds:
    """Return the truth of `reference(*inputs)` and the error that trusted implementations make.

    `inputs` are the arguments of one call by name or in order, tensors and numbers also inside of
    lists, tuples and dicts. `policy` (strict, tf32, mixed or fp8) is by default what the types of
    the large tensors say: `mixed` where they have 16 bits. `accumulation` is the type in which
    trusted implementations keep sums. The model and its constants: docs/oracle.md. Deterministic in
    `seed`, which draws the trusted implementations' roundings. Raises UsageError for invalid
    arguments and ReferenceError_ where the reference fails.
    """
    legal = [one.value for one in DType if one.is_floating]
    if accumulation not in legal:
        raise UsageError(f"accumulation is '{accumulation}', expected one of {', '.join(legal)}")
    named = isinstance(inputs, Mapping)
    flat, form = pytree.tree_flatten(dict(inputs) if isinstance(inputs, Mapping) else tuple(inputs))
    numbers = Tensor | int | float  # of which a flag is none
    places = [n for n, v in enumerate(flat) if isinstance(v, numbers) and not isinstance(v, bool)]
    given = [flat[n] for n in places]

    def call(*values: Any) -> list[Tensor]:
        filled = list(flat)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        arguments = pytree.tree_unflatten(filled, form)
        return _tensors(reference(**arguments) if named else reference(*arguments))

    with torch.no_grad():
        written = call(*(one.clone() if isinstance(one, Tensor) else one for one in given))
    if not written:
        raise UsageError(
            "the reference returned no tensor; let it return what the kernel computes, also what "
            "the kernel writes into an argument"
        )
    names = ["output"] if len(written) == 1 else [f"output{n}" for n in range(len(written))]
    if unknown := [
        f"'{n}' ({t.dtype})" for n, t in zip(names, written, strict=True) if not is_known(t)
    ]:
        raise UsageError(f"{', '.join(unknown)}: cuassay does not judge tensors of this type")
    tensors = [one for one in given if isinstance(one, Tensor)]
    specs = [spec_of(name, one) for name, one in zip(names, written, strict=True)]
    low, sums = low_type_of([*written, *tensors]), DType(accumulation)

    @cache
    def truth(family: Precision, drawn: int) -> Truth:
        with torch.no_grad():
            return make_truth(
                call,
                given,
                specs,
                seed=drawn,
                accumulation=sums,
                family=family_of(family, low),
            )

    truths = [partial(truth, drawn=drawn) for drawn in (seed, seed + 1)]
    return Bounds(truths, precision_named(policy) or policy_of_call(tensors, written), written)


def assert_accurate(
    actual: Any,
    reference: Callable[..., Any],
    inputs: Mapping[str, Any] | Sequence[Any],
    *,
    policy: Precision | str | None = None,
    accumulation: str = "float32",
    seed: int = 0,
) -> None:
    """Raise InaccurateError if `actual` errs more than trusted implementations of `reference` do.

    `actual` is what the kernel returned for `inputs`; the other arguments are those of `bounds`,
    whose errors this raises too. What fails is judged again under another seed and counts only if
    it fails there as well. Raises CannotJudgeError where an output decides nothing on these inputs:
    its truth is ill-conditioned, or the reference's own result fails.
    """
    __tracebackhide__ = True
    limits = bounds(reference, inputs, policy=policy, accumulation=accumulation, seed=seed)
    compared = limits.compare(actual)
    if undecided := [one for one in compared if one.undecided]:
        worst = undecided[0]
        raise CannotJudgeError(
            f"{worst.output} decides nothing on these inputs: {worst.undecided}; choose others"
        )
    if wrong := [one for one in compared if not one.passed]:
        raise InaccurateError("\n".join(_told(one, limits.policy) for one in wrong), compared)


def _told(one: Comparison, policy: Precision) -> str:
    """Return in words how an output is wrong."""
    if one.mismatch:
        return one.mismatch
    place = (
        "".join(f"[{n}]" for n in one.worst_index)
        if len(one.worst_index) < 2
        else str(list(one.worst_index))
    )
    lines = [f"{one.output}{place} is {one.got:.6g}, expected {one.expected:.6g}"]
    worst = one.worst
    if worst is not None and math.isfinite(worst.share):
        lines.append(
            f"the error is {worst.share:.3g} times what is allowed ({worst.group}); relative error "
            f"{one.relative_error:.2e}, where a trusted implementation has "
            f"{one.trusted_relative_error:.2e} (policy {policy.value})"
        )
    if one.precision is not Precision.STRICT:
        lines.append(one.precision.advice())
    return "; ".join(lines)


def _tensors(value: Any) -> list[Tensor]:
    return [one for one in pytree.tree_leaves(value) if isinstance(one, Tensor)]
