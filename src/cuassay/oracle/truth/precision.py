"""Roundings that a precision policy allows beyond those of the reference as written.

In a draw of the family `tf32` the operands of matrix products are rounded to TF32 where the
reference has them in float32; in every second draw they are cut off too, as tensor cores do.
In one of `mixed` tensors are stored in the problem's 16-bit type as torch's autocast stores them:
results of matrix products, and elementwise results that any 16-bit tensor went into, are rounded
once; operands of products are rounded where they were not.
What autocast keeps in float32 stays there: sums and other reductions with what is computed from
them alone (a row's mean, its reciprocal deviation), and what comes from float32 inputs and
integers alone (angles of a rotary embedding).

A subset of these roundings errs less than all of them, since their variances add up. So the
draws of a family, in which all are made, measure every member of it.
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, UntypedStorage

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.lift.operation import Operation, floating_in
from cuassay.oracle.lift.tensor import nominal_of
from cuassay.oracle.special import torch_dtype
from cuassay.oracle.truth.operations import EXACT
from cuassay.oracle.truth.random_errors import BFLOAT16, FLOAT16, TF32, Grid, Noise
from cuassay.oracle.truth.reductions import PRODUCTS, REDUCTIONS

GRIDS = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}
_CONVOLUTION = "convolution"
_MULTIPLIED = frozenset({*PRODUCTS, _CONVOLUTION})
_SUMS = frozenset({*REDUCTIONS, "logsumexp", "cumsum", "cumprod"} - {_CONVOLUTION})
_ADDED = frozenset({"addmm", "baddbmm", "addmv", "addbmm"})  # their `self` is no operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Which roundings a draw makes: of operands of products, and of intermediates; None: none."""

    operands: Grid | None = None
    intermediates: torch.dtype | None = None


def family_of(precision: Precision, low: DType) -> Family:
    """Return the roundings of a precision for a problem whose 16-bit type is `low`."""
    match precision:
        case Precision.STRICT:
            return Family()
        case Precision.TF32:
            return Family(operands=TF32)
        case Precision.MIXED:
            dtype = torch_dtype(low)
            return Family(operands=GRIDS[dtype], intermediates=dtype)


class _Kind(enum.Enum):
    """What a tensor of a draw is: stored in 16 bits, a sum, or neither."""

    LOW = enum.auto()
    SUM = enum.auto()
    WIDE = enum.auto()


class Stored:
    """Follows the tensors of one draw, by storage, and rounds those that a family rounds.

    A storage is noted with every result that is not a view, and forgotten with its memory: a weight
    that is lifted later may take the same.
    """

    def __init__(self, family: Family, noise: Noise) -> None:
        self.family, self._noise = family, noise
        self._kinds: dict[int, tuple[weakref.ref[UntypedStorage], _Kind]] = {}

    def multiplied(self, asked: Operation) -> object:
        """Return a matrix product on rounded operands; NotImplemented for other operations."""
        grid = self.family.operands
        if grid is None or asked.name not in _MULTIPLIED:
            return NotImplemented
        first = 1 if asked.name in _ADDED else 0
        moved = [
            self._operand(value, grid) if first <= place < first + 2 else value
            for place, value in enumerate(asked.args)
        ]
        return asked.op(*moved, **asked.kwargs)

    def _operand(self, value: Any, grid: Grid) -> Any:
        if not isinstance(value, Tensor) or nominal_of(value) is not torch.float32:
            return value
        if self.family.intermediates is not None and self._kind(value) is _Kind.LOW:
            return value
        rounded = self._noise.rounding(value, grid)
        return self._noise.cut(rounded, grid) if grid is TF32 else rounded

    def is_stored(self, values: Sequence[Tensor], dtype: torch.dtype) -> bool:
        """Whether all tensors are rounded to `dtype` already: storing them so changes nothing."""
        if self.family.intermediates is not dtype:
            return False
        return all(self._kind(value) is _Kind.LOW for value in values)

    def result(self, asked: Operation, out: Any, noisy: Any) -> Any:
        """Return an operation's noisy result as it is stored; `out` carries its nominal type."""
        dtype = self.family.intermediates
        if dtype is None:
            return noisy
        several = isinstance(noisy, list | tuple)
        first, plain = (noisy[0], out[0]) if several else (noisy, out)
        if not isinstance(first, Tensor) or not floating_in(first) or first.is_complex():
            return noisy
        kind = self._kind_of_result(asked, first)
        nominal = nominal_of(plain)
        if kind is _Kind.LOW and nominal is torch.float32 and asked.name not in EXACT:
            first = self._noise.rounding(first, GRIDS[dtype])
        self._note(first, _Kind.LOW if nominal in GRIDS else kind)
        if not several:
            return first
        for other in noisy[1:]:  # statistics of a norm, gradients of weights
            if isinstance(other, Tensor):
                self._note(other, _Kind.SUM)
        return (first, *noisy[1:])

    def _kind_of_result(self, asked: Operation, result: Tensor) -> _Kind:
        name, args = asked.name, asked.args
        if name in _MULTIPLIED:
            return _Kind.LOW
        if name in _SUMS:
            return _Kind.SUM
        operands = [t for t in floating_in([*args, *asked.kwargs.values()]) if t.numel() > 1]
        kinds = {self._kind(operand) for operand in operands}
        if name == "copy" and _Kind.LOW in kinds and isinstance(args[0], Tensor):
            self._note(args[0], _Kind.LOW)  # it is written there afterwards
        if _Kind.LOW not in kinds:
            return _Kind.SUM if _Kind.SUM in kinds else _Kind.WIDE
        reduced = name not in EXACT and result.numel() < max(t.numel() for t in operands)
        return _Kind.SUM if reduced else _Kind.LOW

    def _kind(self, value: Tensor) -> _Kind:
        if nominal_of(value) in GRIDS:
            return _Kind.LOW
        known = self._kinds.get(value.untyped_storage().data_ptr())
        return _Kind.WIDE if known is None or known[0]() is None else known[1]

    def _note(self, value: Tensor, kind: _Kind) -> None:
        storage = value.untyped_storage()
        self._kinds[storage.data_ptr()] = weakref.ref(storage), kind
