"""Which precision a kernel of a problem has to keep, where nobody states it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from math import prod

from cuassay.errors import ProblemError
from cuassay.model.axes import resolve, shape_of
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, TensorSpec

_LOW = frozenset({DType.BFLOAT16, DType.FLOAT16})
_CODES = frozenset(
    {DType.FLOAT8_E4M3FN, DType.FLOAT8_E5M2}
)  # factors that tensor cores sum in short accumulators
_WHOLE_CODES = frozenset({DType.INT8, DType.UINT8})
_RESULTS = _LOW | _WHOLE_CODES | {dtype for dtype in DType if dtype.is_float8}  # at most 16 bits
_LARGE = 0.5  # of the elements of the largest tensor on its side


def policy_of(problem: Problem) -> Precision:
    """Return the precision that a kernel has to keep: what is stated, else what the types say.

    The types of the large tensors decide, those of at least half as many elements as the largest
    one on their side in any workload: of floating inputs, and of results that may be rounded.
    `mixed` where all that go in have 16 bits and all that come out at most as many, `fp8` where
    some that go in are 8-bit floats, `strict` otherwise. Small ones beside them (slopes, angles,
    weights of experts, a row's statistics or scale) do not.
    """
    if problem.precision is not None:
        return problem.precision
    sizes = tuple(_sizes(problem))
    floating = (
        one for one in problem.inputs if isinstance(one, TensorSpec) and one.dtype.is_floating
    )
    results = (one for one in problem.outputs if may_be_rounded(one.dtype))
    return policy_of_types(_large(floating, sizes), _large(results, sizes))


def chosen_note(problem: Problem) -> str:
    """Return which policy a problem has that states none, empty where it is `strict` or stated."""
    policy = policy_of(problem)
    if problem.precision is not None or policy is Precision.STRICT:
        return ""
    return f"precision policy {policy.value}: the types of the large tensors; --precision states it"


def may_be_rounded(result: DType) -> bool:
    """Whether a result of this type may hold rounded numbers: floats, or codes of 8 bits."""
    return result.is_floating or result in _WHOLE_CODES


def policy_of_types(given: Set[DType], returned: Set[DType]) -> Precision:
    """Return what the types of the large floating tensors that go in and out say."""
    if not given or not returned or not returned <= _RESULTS:
        return Precision.STRICT
    if given <= _LOW:
        return Precision.MIXED
    return Precision.FP8 if given <= _LOW | _CODES else Precision.STRICT


def _sizes(problem: Problem) -> Iterator[Mapping[str, int]]:
    """Yield the sizes of all axes in each workload that says them."""
    for workload in problem.workloads:
        try:
            yield resolve(problem.axes, workload.axes)
        except ProblemError:
            continue


def _large(specs: Iterable[TensorSpec], sizes: Iterable[Mapping[str, int]]) -> set[DType]:
    """Return the types of the large tensors among these; of all where no workload says sizes."""
    found: set[DType] = set()
    tried, judged = False, list(specs)
    for known in sizes:
        try:
            counts = [(spec.dtype, prod(shape_of(spec.shape, known))) for spec in judged]
        except ProblemError:  # an axis that the reference alone decides
            continue
        tried = True
        found |= types_of_large(counts)
    return found if tried else {spec.dtype for spec in judged}


def types_of_large(counts: Sequence[tuple[DType, int]]) -> set[DType]:
    """Return the types of the large tensors on one side, of a type and a count each."""
    least = _LARGE * max((count for _, count in counts), default=0)
    return {dtype for dtype, count in counts if count >= least}
