"""Answers of one call held against truth by a policy, where no problem describes the call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType, low_type
from cuassay.model.policy import may_be_rounded, policy_of_types, types_of_large
from cuassay.model.precision import Precision
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.outputs import Comparison, compare
from cuassay.oracle.grade import least_family
from cuassay.oracle.truth.types import Truth

TruthOf: TypeAlias = Callable[[Precision], Truth]  # the truth of one call for a family


def judge_answer(
    answer: Tensor, index: int, own: Tensor, truths: Sequence[TruthOf], *, policy: Precision
) -> Comparison:
    """Return how output `index` of a call compares; a failure shows under every seed of `truths`.

    `truths` hold one function for each seed of the noise; later ones are called only if the answer
    fails by the earlier ones. `own` is the reference's own result. An answer is undecided
    where it and `own` both fail.
    """
    failed: Comparison | None = None
    for truth_of in truths:
        compared = compare_answer(answer, index, truth_of, policy=policy)
        if compared.passed:
            return compared
        if not compare(own, truth_of(Precision.STRICT).outputs[index]).passed:
            return undecided(compared.output, "the reference's own result fails as well")
        failed = failed or compared
    assert failed is not None, "truths of at least one seed"
    return failed


def undecided(output: str, why: str) -> Comparison:
    """Return the comparison of an output on which nothing is decided."""
    return Comparison(output=output, passed=True, share=0.0, undecided=why)


def compare_answer(
    answer: Tensor, index: int, truth_of: TruthOf, *, policy: Precision
) -> Comparison:
    """Return how output `index` of a call compares with the least family that explains it.

    `truth_of` makes the truth of the call for a family; it is asked for `strict` first, and for
    wider families that `policy` accepts only where that one does not explain the error.
    """

    def measured(family: Precision) -> Comparison:
        return compare(answer, truth_of(family).outputs[index])

    return least_family(measured(Precision.STRICT), measured, policy.families)


def is_known(tensor: Tensor) -> bool:
    """Whether a tensor has a type that outputs are judged in."""
    return _name(tensor) in {member.value for member in DType}


def spec_of(name: str, tensor: Tensor) -> TensorSpec:
    """Return the description of an output that looks like `tensor`."""
    return TensorSpec(
        name=name,
        dtype=DType(_name(tensor)) if is_known(tensor) else DType.FLOAT32,
        shape=tuple(f"axis{index}" for index in range(tensor.dim())),
        domain=Real(),
    )


def policy_of_call(inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> Precision:
    """Return the policy that the types of a call's large tensors say, as for a problem."""
    given = [one for one in _counts(inputs) if one[0].is_floating]
    returned = [one for one in _counts(outputs) if may_be_rounded(one[0])]
    return policy_of_types(types_of_large(given), types_of_large(returned))


def low_type_of(tensors: Iterable[Tensor]) -> DType:
    """Return the 16-bit type of most of the tensors, bfloat16 where none has 16 bits."""
    return low_type(dtype for dtype, _ in _counts(tensors))


def _counts(tensors: Iterable[Tensor]) -> list[tuple[DType, int]]:
    return [(DType(_name(one)), one.numel()) for one in tensors if is_known(one)]


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
