"""Which lengths a reference adds up over: what its operations do, on one set of inputs.

A format of others states no reduction axes. Where an axis is absent from an output, it is
reduced; an axis that is normalised (softmax, RMSNorm) is there before and after, and only the
reference's own operations tell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuassay.hooks import Operation, PassThrough, floating_in
from cuassay.oracle.truth.reductions import product_terms, reduced_dims
from cuassay.oracle.truth.runs import ReferenceRunner, Value

_ALONG = {"sum", "mean", "nansum", "prod", "var", "std", "var_mean", "std_mean", "logsumexp"}
_ALONG |= {"linalg_vector_norm", "norm", "cumsum", "cumprod", "logcumsumexp"}
_ALONG |= {"_softmax", "_safe_softmax", "_log_softmax"}
_NORMALISED = {"native_layer_norm", "_fused_rms_norm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedSizes:
    """What one run showed, in elements.

    lengths     of the axes that sums, norms, soft-maxes, scans and products run over
    squared     that occur twice in one tensor's shape (scores of a sequence against itself):
                its elements grow with the square
    operations  how many ran
    """

    lengths: frozenset[int]
    squared: frozenset[int]
    operations: int


def reduced_sizes(fn: Any, inputs: Sequence[Value], names: Sequence[str]) -> ReducedSizes:
    """Run `fn` lifted to float64 and return the lengths that it reduces.

    `names` are those of its outputs. Raises LiftError and ReferenceError_ as a truth does.
    """
    seen = _Lengths()
    ReferenceRunner(fn, inputs, names, 0).lifted(torch.float64, seen)
    return ReducedSizes(
        lengths=frozenset(seen.lengths), squared=frozenset(seen.squared), operations=seen.count
    )


class _Lengths(PassThrough):
    """Looks at every operation and changes nothing."""

    def __init__(self) -> None:
        self.lengths: set[int] = set()
        self.squared: set[int] = set()
        self.count = 0

    def replace(self, operation: Operation) -> object:
        """Note what the operation reduces."""
        self.count += 1
        if operation.nominal is not None:
            inner = product_terms(operation)
            if inner:
                reduced = {inner}
            else:
                name, named = operation.name, operation.named
                if name in _NORMALISED:
                    shape = named.get("normalized_shape") or ()
                    reduced = {*shape, math.prod(shape)}
                else:
                    values = named.get("self")
                    if name not in _ALONG or not isinstance(values, Tensor):
                        reduced = set()
                    else:
                        reduced = {
                            values.shape[dim]
                            for dim in reduced_dims(named.get("dim"), values.dim())
                        }
            self.lengths.update(reduced)
        return NotImplemented

    def after(self, operation: Operation, out: Any) -> object:
        """Note lengths that a result has twice."""
        for tensor in floating_in(out):
            shape = list(tensor.shape)
            self.squared.update(size for size in shape if shape.count(size) > 1)
        return out
