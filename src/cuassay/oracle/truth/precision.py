"""Roundings that a precision policy allows beyond those of the reference as written.

In a draw of the family `tf32` the operands of matrix products are rounded to TF32 where the
reference has them in float32; in every second draw they are cut off too, as tensor cores do.
In one of `mixed` tensors are stored in the problem's 16-bit type as torch's autocast stores them:
results of matrix products, and elementwise results that any 16-bit tensor went into, are rounded
once; operands of products are rounded where they were not, and float32 tensors are cast where they
meet 16-bit ones (the angles of a rotary embedding, the weights of experts).
What autocast keeps in float32 stays there: sums and other reductions with what is computed from
them alone (a row's mean, its reciprocal deviation), and what comes from float32 inputs and
integers alone until it meets 16 bits. Tensors of ranks travel in 16 bits, and so do their sums
(`rank_sums`), in every family where the reference as written sums them in 16 bits. `fp8` sums
products of 8-bit floats as Hopper's tensor cores do, in short accumulators (`short_sums`).

A subset of these roundings errs less than all of them, since their variances add up. So the
draws of a family, in which all are made, measure every member of it where roundings of different
elements are independent. Where they are not, because values are equal or nearly so, programs that
really round tell (`programs`).
"""

from __future__ import annotations

import enum
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, UntypedStorage

from cuassay.hooks import Operation, floating_in
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.lift.tensor import nominal_of
from cuassay.oracle.lift.together import all_runs
from cuassay.oracle.special import torch_dtype
from cuassay.oracle.truth.associations import Makes, Products, Sums
from cuassay.oracle.truth.operations import ARITHMETIC, EXACT
from cuassay.oracle.truth.random_errors import BFLOAT16, FLOAT16, TF32, Grid, Noise, nearest
from cuassay.oracle.truth.rank_sums import adds_ranks, rings, sum_of_ranks
from cuassay.oracle.truth.reductions import PRODUCTS, REDUCTIONS, product_factors
from cuassay.oracle.truth.short_sums import short_product
from cuassay.oracle.truth.written_out import WRITTEN_OUT

GRIDS = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}
_CODES = (torch.float8_e4m3fn, torch.float8_e5m2)
_CONVOLUTION = "convolution"
_MULTIPLIED = frozenset({*PRODUCTS, _CONVOLUTION})
_SUMS = frozenset({*REDUCTIONS, "logsumexp", "cumsum", "cumprod"} - {_CONVOLUTION})
_NORMS = frozenset({"native_layer_norm", "native_group_norm", "_fused_rms_norm"})
_WITHOUT: Mapping[str, Any] = {"weight": None, "bias": None}
_ADDED = frozenset({"addmm", "baddbmm", "addmv", "addbmm"})  # their `self` is no operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Which roundings a draw makes: of operands of products, and of intermediates; None: none.

    `short_sums`: products of 8-bit floats are summed in short accumulators. `ranks`: how many ranks
    share a call, whose tensors the reference has along first axes; 0: one process makes it.
    """

    operands: Grid | None = None
    intermediates: torch.dtype | None = None
    short_sums: bool = False
    ranks: int = 0

    @property
    def stores(self) -> bool:
        """Whether its kernels store in 16 bits what the reference does not."""
        return self.intermediates is not None or self.ranks > 0


def family_of(precision: Precision, low: DType, *, ranks: int = 0) -> Family:
    """Return the roundings of a precision for a problem whose 16-bit type is `low`."""
    match precision:
        case Precision.STRICT:
            return Family(ranks=ranks)
        case Precision.TF32:
            return Family(operands=TF32, ranks=ranks)
        case Precision.MIXED | Precision.FP8:
            dtype = torch_dtype(low)
            short = precision is Precision.FP8
            grid = GRIDS[dtype]
            return Family(operands=grid, intermediates=dtype, short_sums=short, ranks=ranks)


class Rounder(Protocol):
    """How one member of a family makes the roundings that its family allows, or leaves them out."""

    def intermediate(self, values: Tensor, grid: Grid) -> Tensor:
        """Return an intermediate as it is stored."""

    def operand(self, values: Tensor, grid: Grid, *, stored: bool) -> Tensor:
        """Return an operand of a product as the product reads it; `stored`: it is in 16 bits."""

    def reassociated(
        self, values: Tensor, excess: Callable[[], Tensor | None], grid: Grid
    ) -> Tensor:
        """Return an operand with the errors of another association (`Products.excess`)."""

    def part(self, values: Tensor, grid: Grid) -> Tensor:
        """Return what another order of a sum or a product stores, as it is stored."""

    def one_of(self, orders: Makes) -> Tensor:
        """Return a result as one of its orders makes it, the first one being the reference's."""

    def form_of(self, forms: Makes) -> Tensor:
        """Return a function as it is fused, the first one, or as one way to write it makes it."""

    def beside(self, values: Tensor, grid: Grid) -> Tensor:
        """Return a float32 tensor as an operation reads it that a 16-bit one goes into as well."""

    def start(self, terms: int) -> int | None:
        """Return where a sum in short accumulators begins, None to sum in float32."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Makes every rounding of a family, really or by errors of its size (`Noise.stored`).

    What is cast is rounded as every kernel rounds it: a table's error is a function of the table.
    """

    noise: Noise

    def intermediate(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values rounded, or with errors of that size."""
        return self.noise.associated(values, grid)

    def operand(self, values: Tensor, grid: Grid, *, stored: bool) -> Tensor:
        """Return values as they are stored; in TF32 with errors, cut off in draws that cut."""
        if stored:
            return values
        if grid is not TF32:
            return self.noise.associated(values, grid)
        return self.noise.cut(self.noise.rounding(values, grid), grid)

    def reassociated(
        self, values: Tensor, excess: Callable[[], Tensor | None], grid: Grid
    ) -> Tensor:
        """Return values with errors as roundings of `excess` times their size have."""
        found = excess()
        return values if found is None else self.noise.spread(values, values.abs() * found, grid)

    part = intermediate

    def one_of(self, orders: Makes) -> Tensor:
        """Return a result in the order of the draw."""
        return self.noise.one_of(orders)

    def form_of(self, forms: Makes) -> Tensor:
        """Return what the steps make, which err by more: of several ways in the order of a draw."""
        return forms[1]() if len(forms) == 2 else self.noise.one_of(forms[1:])

    def beside(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values rounded to nearest."""
        return nearest(values, grid)

    def start(self, terms: int) -> int | None:
        """Return a random place."""
        return self.noise.place(terms)


# Additions that follow one another in a result. Beyond these it is a sum, whatever it is made of: a
# recurrence adds one term a step, and sums are never kept in 16 bits.
_ADDITIONS = frozenset({"add", "sub", "rsub", "addcmul", "lerp"})
_MOST_ADDITIONS = 8


class _Kind(enum.Enum):
    """What a tensor of a draw is: in 16 bits, 8-bit codes times scales, a sum, or none of these."""

    LOW = enum.auto()
    CODE = enum.auto()
    SUM = enum.auto()
    WIDE = enum.auto()


class Stored:
    """Follows the tensors of one draw, by storage, and rounds those that a family rounds.

    A storage is noted with every result that is not a view, and forgotten with its memory: a weight
    that is lifted later may take the same.
    """

    def __init__(self, family: Family, rounder: Rounder) -> None:
        self.family, self._rounder = family, rounder
        self.multiplies_wide = False  # a product of float32 operands was met
        self._products, self._sums = Products(), Sums()
        # Of a storage: what it is, and how many additions follow one another in it.
        self._kinds: dict[int, tuple[weakref.ref[UntypedStorage], _Kind, int]] = {}
        self._codes: dict[int, weakref.ref[UntypedStorage]] = {}  # cast to 16 bits, which hold them

    def replace(self, asked: Operation) -> object:
        """Return the result of an operation on rounded operands; NotImplemented for others."""
        if asked.name in _MULTIPLIED:
            return self._multiplied(asked)
        if asked.name in _NORMS:
            return self._normalized(asked)
        if self._adds_ranks(asked):
            stored = self.family.intermediates or nominal_of(asked.named["self"])
            assert stored is not None
            grid = GRIDS[stored]
            store = self._rounder.intermediate
            return self._rounder.one_of(
                [
                    lambda: sum_of_ranks(asked, lambda part: store(part, grid), grid),
                    *rings(asked, lambda part: self._rounder.part(part, grid)),
                ]
            )
        if asked.name in WRITTEN_OUT:
            # Return a function in the steps of a model's code.
            named, dtype = asked.named, self.family.intermediates
            x = named["self"]
            if dtype is None or not isinstance(x, Tensor) or self._kind(x) is not _Kind.LOW:
                return NotImplemented
            grid = GRIDS[dtype]
            made = WRITTEN_OUT[asked.name](
                named, lambda step: self._rounder.intermediate(step, grid)
            )
            # A fused function stores its result alone.
            if made is NotImplemented:
                return made
            ways: Makes = [lambda: made] if isinstance(made, Tensor) else made
            return self._rounder.form_of([asked.run, *ways])
        if self.family.intermediates is None or asked.name not in ARITHMETIC:
            return NotImplemented
        grid = GRIDS[self.family.intermediates]
        given = floating_in([*asked.args, *asked.kwargs.values()])
        kinds = [self._kind(one) for one in given]
        if _Kind.LOW not in kinds or _Kind.WIDE not in kinds:
            return NotImplemented
        read = {id(one) for one in _elements(given)}
        return asked.on(lambda value: self._met(value, grid) if id(value) in read else value).run()

    def _adds_ranks(self, asked: Operation) -> bool:
        """Whether an operation adds what ranks have in 16 bits: the sum travels so, too."""
        ranks = self.family.ranks
        adds = bool(ranks) and adds_ranks(asked, ranks)
        return adds and self._kind(asked.named["self"]) is _Kind.LOW

    def _met(self, value: Any, grid: Grid) -> Any:
        """Return a float32 tensor as it is read beside a 16-bit one; all else as it is."""
        cast = (
            isinstance(value, Tensor)
            and nominal_of(value) is torch.float32
            and self._kind(value) is _Kind.WIDE
        )
        return self._rounder.beside(value, grid) if cast else value

    def _normalized(self, asked: Operation) -> object:
        """Return a fused norm in the steps of a model's code: normalized, scaled, shifted."""
        named, dtype = asked.named, self.family.intermediates
        if dtype is None or self._kind(named["input"]) is not _Kind.LOW:
            return NotImplemented
        grid, plain = GRIDS[dtype], {**named, **_WITHOUT}
        scale, shift = (self._met(named.get(name), grid) for name in ("weight", "bias"))
        made = asked.op(**{name: plain[name] for name in named})
        y = made[0]
        for parameter, change in ((scale, torch.mul), (shift, torch.add)):
            if parameter is not None:
                if asked.name == "native_group_norm":
                    parameter = parameter.reshape(1, -1, *[1] * (y.dim() - 2))
                y = change(self._rounder.intermediate(y, grid), parameter)
        return (y, *made[1:])

    def _multiplied(self, asked: Operation) -> object:
        """Return a matrix product on rounded operands; NotImplemented where none is rounded."""
        grid = self.family.operands
        if grid is None:
            return NotImplemented
        if self.family.short_sums and asked.name in PRODUCTS:
            left, right = product_factors(asked)
            if self._is_code(left) and self._is_code(right):
                start = self._rounder.start(left.shape[-1])
                return NotImplemented if start is None else short_product(asked, start)
        first = 1 if asked.name in _ADDED else 0
        moved = [
            self._operand(value, grid) if first <= place < first + 2 else value
            for place, value in enumerate(asked.args)
        ]
        return asked.op(*moved, **asked.kwargs)

    def _operand(self, value: Any, grid: Grid) -> Any:
        if not isinstance(value, Tensor) or nominal_of(value) is not torch.float32:
            return value
        self.multiplies_wide = True
        stored = self.family.intermediates is not None and self._kind(value) is _Kind.LOW
        read = self._rounder.operand(value, grid, stored=stored)
        return self._rounder.reassociated(read, lambda: self._products.excess(value), grid)

    def is_stored(self, values: Sequence[Tensor], dtype: torch.dtype) -> bool:
        """Whether all tensors are rounded to `dtype` already: storing them so changes nothing."""
        if self.family.intermediates is not dtype:
            return False
        return all(self._kind(value) is _Kind.LOW for value in values)

    def result(self, asked: Operation, out: Any, noisy: Any) -> Any:
        """Return an operation's noisy result as it is stored; `out` carries its nominal type."""
        dtype = self.family.intermediates
        if dtype is None:
            if self.family.operands is not None and isinstance(noisy, Tensor):
                self._products.note(asked, noisy)
            return noisy
        several = isinstance(noisy, list | tuple)
        first, plain = (noisy[0], out[0]) if several else (noisy, out)
        if not isinstance(first, Tensor) or not floating_in(first) or first.is_complex():
            return noisy
        kind, nominal = self._kind_of_result(asked, first), nominal_of(plain)
        added = max(map(self._additions, tensors_of(asked)), default=0)
        added += asked.name in _ADDITIONS
        if kind is _Kind.LOW and added > _MOST_ADDITIONS:
            kind = _Kind.SUM
        if kind is _Kind.LOW and nominal is torch.float32 and asked.name not in EXACT:
            grid = GRIDS[dtype]
            orders = [
                make
                for kept in (self._sums, self._products)
                for make in kept.orders(asked, lambda part: self._rounder.part(part, grid))
            ]
            made = first
            if orders:
                first = self._rounder.one_of([lambda: made, *orders])
            first = self._rounder.intermediate(first, grid)
        self._note(first, _Kind.LOW if nominal in GRIDS else kind, added)
        if not several:
            self._products.note(asked, first)
            self._sums.note(asked, first)
        moved = nominal in GRIDS and asked.name in EXACT
        if moved and all(map(self._is_code, tensors_of(asked))):
            storage = all_runs(first).untyped_storage()
            self._codes[storage.data_ptr()] = weakref.ref(storage)
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
            return _Kind.LOW if self._adds_ranks(asked) else _Kind.SUM
        operands = _elements(tensors_of(asked))
        kinds = {self._kind(operand) for operand in operands}
        if name == "copy" and _Kind.LOW in kinds and isinstance(args[0], Tensor):
            self._note(args[0], _Kind.LOW)  # it is written there afterwards
        if _Kind.LOW not in kinds:
            others = (_Kind.SUM, _Kind.CODE)
            return next((kind for kind in others if kind in kinds), _Kind.WIDE)
        reduced = name not in EXACT and result.numel() < max(t.numel() for t in operands)
        return _Kind.SUM if reduced else _Kind.LOW

    def _kind(self, value: Tensor) -> _Kind:
        nominal = nominal_of(value)
        if nominal in GRIDS:
            return _Kind.LOW
        if nominal in _CODES:
            return _Kind.CODE
        known = self._kinds.get(all_runs(value).untyped_storage().data_ptr())
        return _Kind.WIDE if known is None or known[0]() is None else known[1]

    def _is_code(self, value: Tensor) -> bool:
        """Whether a tensor holds 8-bit codes: as they are, times scales, or cast to 16 bits."""
        held = self._codes.get(all_runs(value).untyped_storage().data_ptr())
        return self._kind(value) is _Kind.CODE or (held is not None and held() is not None)

    def _additions(self, value: Tensor) -> int:
        known = self._kinds.get(all_runs(value).untyped_storage().data_ptr())
        return 0 if known is None or known[0]() is None else known[2]

    def _note(self, value: Tensor, kind: _Kind, additions: int = 0) -> None:
        storage = all_runs(value).untyped_storage()
        self._kinds[storage.data_ptr()] = weakref.ref(storage), kind, additions


def _elements(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the tensors of an operation that are not single numbers beside larger ones.

    Where all of them have one element, as at the least size of every axis, none is a number.
    """
    return [t for t in tensors if t.numel() > 1] or [t for t in tensors if t.dim()]


def tensors_of(asked: Operation) -> list[Tensor]:
    """Return the floating tensors that an operation reads."""
    return floating_in([*asked.args, *asked.kwargs.values()])
