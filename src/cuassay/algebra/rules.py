"""What each operation of torch is in residues; the others are taken apart (`follow`).

A rule gets an applied operation with its results on float64 values, and returns the slots of its
result. Which element a maximum, a sort or an index picks is read off the values. A number that is
the same for all data that decide alike (a rounding, a sign, a literal) is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload

from cuassay.algebra import values as V
from cuassay.errors import CuassayError
from cuassay.tables import row
from ptxsan.numerics.residues import NONE
from ptxsan.runtime import algebra as A
from ptxsan.runtime import slots as S

_MOST_POWER = 64
_LAST = torch.iinfo(torch.int64).max


class Unfollowed(CuassayError):
    """An operation that has no residues, with the reference's line."""


class Follows(Protocol):
    """Knows the slots of tensors."""

    def resolved(self, tensor: Tensor) -> Tensor:
        """Return the resolved slots of any real tensor."""

    def slots(self, tensor: Tensor) -> Tensor:
        """Return the slots of a float64 tensor."""

    def put(self, tensor: Tensor, slots: Tensor) -> None:
        """Give a result its slots."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """An operation that was applied to float64 values, and what it gave."""

    at: Follows
    op: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    out: Any

    @cached_property
    def named(self) -> dict[str, Any]:
        """The arguments by the names of the schema, defaults among them."""
        schema = self.op._schema.arguments
        found = {one.name: one.default_value for one in schema if one.has_default_value()}
        found |= dict(zip((one.name for one in schema), self.args, strict=False))
        return found | dict(self.kwargs)

    def read(self, value: Any) -> Tensor:
        """Return the resolved slots of a tensor or a number."""
        return self.at.resolved(value) if isinstance(value, Tensor) else _constant(float(value))

    def scaled(self, slots: Tensor, factor: Any) -> Tensor:
        """Return the slots times a tensor or a number."""
        return slots if factor == 1 else V.combine(A.MUL, slots, self.read(factor))

    def weighted(self, operation: int, first: str, second: str) -> Tensor:
        """Return two named arguments combined, the second one `alpha` times."""
        named = self.named
        other = self.scaled(self.read(named[second]), named.get("alpha", 1))
        return V.combine(operation, self.read(named[first]), other)


Rule = Callable[[Applied], Tensor | None]  # None: it has put the slots of its results itself
RULES: dict[str, Rule] = {}


def _numbers(value: Any) -> Tensor:
    """Return the numbers of a tensor or a number in float64."""
    if isinstance(value, Tensor):
        return value.double()
    return torch.tensor(float(value), dtype=torch.float64)


def _constant(value: float) -> Tensor:
    return V.constants(torch.tensor(value, dtype=torch.float64))


# ---- sums, products, quotients -------------------------------------------------------------------


def _by_value(call: Applied) -> Tensor:
    """Signs, roundings and the like: constants where data decide alike."""
    return torch.tensor(NONE)


@row(RULES, "div")
def _div(call: Applied) -> Tensor:
    if call.named.get("rounding_mode") is not None:
        return _by_value(call)
    return V.combine(A.DIV, call.read(call.args[0]), call.read(call.args[1]))


@row(RULES, "fmod", "remainder")
def _remainder(call: Applied) -> Tensor:
    """x - n y, where n is a whole number that the values say."""
    x, y = call.args
    whole = torch.round((_numbers(x) - _numbers(call.out)) / _numbers(y))
    part = V.combine(A.MUL, V.constants(whole), call.read(y))
    return V.combine(A.SUB, call.read(x), part)


def _addc(operation: int) -> Rule:
    def rule(call: Applied) -> Tensor:
        first, second = (call.read(call.named[name]) for name in ("tensor1", "tensor2"))
        part = call.scaled(V.combine(operation, first, second), call.named["value"])
        return V.combine(A.ADD, call.read(call.named["self"]), part)

    return rule


# ---- functions -----------------------------------------------------------------------------------


def _times(slots: Tensor, value: float) -> Tensor:
    return V.combine(A.MUL, slots, _constant(value))


def _exp(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.apply(A.EX2, _times(slots, 1 / math.log(2)), numbers)


def _expm1(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.combine(A.SUB, _exp(slots, numbers), _constant(1.0))


def _log(slots: Tensor, numbers: Tensor) -> Tensor:
    return _times(V.apply(A.LG2, slots, numbers), math.log(2))


def _one_over(slots: Tensor) -> Tensor:
    return V.combine(A.DIV, _constant(1.0), slots)


def _half_sum(operation: int) -> Callable[[Tensor, Tensor], Tensor]:
    def hyperbolic(slots: Tensor, numbers: Tensor) -> Tensor:
        up, down = _exp(slots, numbers), _exp(V.negate(slots), -numbers)
        return _times(V.combine(operation, up, down), 0.5)

    return hyperbolic


def _unary(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    """What the function makes of infinities is what the values say."""
    return lambda call: function(call.at.resolved(call.args[0]), call.args[0].double())


@row(RULES, "pow")
def _pow(call: Applied) -> Tensor:
    base, exponent = call.args[0], call.args[1]
    if isinstance(exponent, Tensor) and exponent.numel() == 1 and not exponent.requires_grad:
        if exponent.is_floating_point() and not _is_constant(call.at, exponent):
            raise Unfollowed("a power with an exponent that depends on data")
        exponent = exponent.item()
    if isinstance(exponent, Tensor):
        if isinstance(base, Tensor) or base <= 0:
            raise Unfollowed("a power of two tensors")
        return V.apply(A.EX2, _times(call.at.resolved(exponent), math.log2(base)), exponent)
    slots, numbers = call.read(base), _numbers(base)
    doubled = 2 * exponent
    if doubled != int(doubled) or abs(doubled) > _MOST_POWER:
        power = _times(V.apply(A.LG2, slots, numbers), float(exponent))
        return V.apply(A.EX2, power, numbers)
    if doubled % 2:
        found = V.apply(A.SQRT, slots, numbers)
        power, count = slots, (abs(int(doubled)) - 1) // 2
    else:
        found, power, count = _constant(1.0).expand(slots.shape), slots, abs(int(doubled)) // 2
    while count:
        if count & 1:
            found = V.combine(A.MUL, found, power)
        power, count = V.combine(A.MUL, power, power), count >> 1
    return found if exponent >= 0 else _one_over(found)


def _is_constant(at: Follows, tensor: Tensor) -> bool:
    return bool((at.slots(tensor) == NONE).all())


@row(RULES, "elu")
def _elu(call: Applied) -> Tensor:
    """Each factor by itself: their product, rounded, would be another constant."""
    named = call.named
    x, slots = named["self"], call.at.resolved(named["self"])
    inner, scaled = call.scaled(slots, named["input_scale"]), x * named["input_scale"]
    below = call.scaled(_expm1(inner, scaled), named["alpha"])
    return call.scaled(torch.where(x > 0, slots, below), named["scale"])


# ---- choices -------------------------------------------------------------------------------------


def _chosen(x: Tensor, y: Tensor, a: Tensor, b: Tensor, *, larger: bool) -> Tensor:
    """Return the slots of the larger or smaller numbers; of equal ones the kernel's choice."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y, a, b = (one.expand(shape) for one in (x, y, a, b))
    first = (x > y) if larger else (x < y)
    return torch.where(x == y, torch.minimum(a, b), torch.where(first, a, b))


@row(RULES, "clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(call: Applied) -> Tensor:
    numbers, slots = _numbers(call.named["self"]), call.read(call.named["self"])
    for name, larger in (("min", True), ("max", False)):
        bound = call.named.get(name, call.named.get(f"{name}_val"))  # clamp, or hardtanh
        if bound is not None:
            slots = _chosen(numbers, _numbers(bound), slots, call.read(bound), larger=larger)
            take = torch.maximum if larger else torch.minimum
            numbers = take(numbers, _numbers(bound))
    return slots


def _dims(value: Any, rank: int) -> list[int]:
    if value is None or (isinstance(value, list | tuple) and not value):
        return list(range(rank))
    return [one % rank if rank else 0 for one in ([value] if isinstance(value, int) else value)]


def _extreme(larger: bool) -> Rule:
    """The larger or smaller of two: maximum, minimum, fmax, fmin."""

    def rule(call: Applied) -> Tensor:
        slots = [call.read(one) for one in call.args[:2]]
        return _chosen(*map(_numbers, call.args[:2]), *slots, larger=larger)

    return rule


def _extreme_of(larger: bool) -> Rule:
    """The largest or smallest along axes: amax, amin, max.dim, max()."""

    def rule(call: Applied) -> Tensor | None:
        named, out = call.named, call.out
        if "other" in named:
            return _extreme(larger)(call)
        numbers, slots = named["self"], call.read(named["self"])
        made = out if isinstance(out, Tensor) else out[0]
        if numbers.dim():
            dims = _dims(named.get("dim"), numbers.dim())
            best = numbers.amax(dims, keepdim=True) if larger else numbers.amin(dims, keepdim=True)
            equal = (numbers == best) | (numbers.isnan() & best.isnan())
            slots = torch.where(equal, slots, _LAST).amin(dims).reshape(made.shape)
        call.at.put(made, slots)
        return None

    return rule


@row(RULES, "sort", "topk", "cummax", "cummin", "kthvalue", "mode")
def _picked(call: Applied) -> None:
    """Values with the indices of the elements that they are along an axis."""
    slots, out = call.read(call.named["self"]), call.out
    if slots.dim():
        dim = call.named["dim"] % slots.dim()
        indices = out[1] if out[1].dim() == slots.dim() else out[1].unsqueeze(dim)
        slots = slots.gather(dim, indices).reshape(out[0].shape)
    call.at.put(out[0], slots)


def _max_pool(spatial: int) -> Rule:
    def rule(call: Applied) -> None:
        slots, indices = call.read(call.args[0]), call.out[1]
        lead = slots.dim() - spatial
        flat = slots.flatten(lead).gather(lead, indices.flatten(lead))
        call.at.put(call.out[0], flat.reshape(call.out[0].shape))

    return rule


# ---- movement ------------------------------------------------------------------------------------


def _moved(*fills: str) -> Rule:
    """Elements that only move: the operation on their numbers, 0 for what `fills` names."""

    def rule(call: Applied) -> None:
        names = [one.name for one in call.op._schema.arguments]
        sources = [torch.tensor([NONE])]  # the first is a constant, as its value says
        shown = [torch.zeros(1, dtype=torch.float64)]

        def numbered(name: str, value: Any) -> Any:
            if name in fills and not isinstance(value, Tensor):
                return 0.0
            if isinstance(value, list | tuple):
                return [numbered(name, one) for one in value]
            if not isinstance(value, Tensor) or not value.is_floating_point():
                return value
            first = sum(one.numel() for one in sources)
            sources.append(call.at.resolved(value).reshape(-1))
            shown.append(value.reshape(-1))
            return torch.arange(first, first + value.numel()).double().reshape(value.shape)

        given = [numbered(name, one) for name, one in zip(names, call.args, strict=False)]
        found = call.op(*given, **{k: numbered(k, one) for k, one in call.kwargs.items()})
        slots, numbers = torch.cat(sources), torch.cat(shown)
        several = isinstance(call.out, list | tuple)
        pairs = (call.out, found) if several else ([call.out], [found])
        for made, places in zip(*pairs, strict=True):
            if made.dtype is not torch.float64:
                continue
            index = places.long()
            same = (numbers[index] == made) | (index == 0) | made.isnan()
            if not bool((index == places).all() and same.all()):
                raise Unfollowed(f"{call.op} does more than move elements")
            call.at.put(made, slots[index])

    return rule


@row(RULES, "_to_copy", "copy", "prims::convert_element_type")
def _copy(call: Applied) -> Tensor | None:
    """A conversion among floats, or a copy into the shape of another tensor."""
    if not isinstance(call.out, Tensor) or call.out.dtype is not torch.float64:
        return None
    named = call.named
    return call.at.resolved(next(named[one] for one in ("src", "self", "a") if one in named))


@row(RULES, "lift_fresh", "fill")
def _filled(call: Applied) -> Tensor:
    """fill.Tensor: the slot of a tensor of one element everywhere."""
    value = call.named.get("value")
    return call.at.resolved(value) if isinstance(value, Tensor) else torch.tensor(NONE)


@row(RULES, "_local_scalar_dense")
def _number(call: Applied) -> None:
    """A number taken out of a tensor: what is computed from it has no residues."""
    if call.args[0].is_floating_point() and not _is_constant(call.at, call.args[0]):
        raise Unfollowed("a number taken out of a tensor")


# ---- sums ----------------------------------------------------------------------------------------


def _total(*, mean: bool) -> Rule:
    """The sum along axes, over the number of elements where it is a mean."""

    def rule(call: Applied) -> Tensor:
        x = call.named["self"]
        dims = _dims(call.named.get("dim"), x.dim())

        def total(one: Tensor) -> Tensor:
            return (one.sum(list(dims)) if one.dim() else one).reshape(call.out.shape)

        found = V.linear(call.at.resolved(x), total, call.out)
        if not mean:
            return found
        count = math.prod(x.shape[one] for one in dims) if x.dim() else 1
        return V.combine(A.DIV, found, _constant(float(count)))

    return rule


@row(RULES, "var", "var_mean", "prims::var")
def _variance(call: Applied) -> None:
    """Squares of what is left without the mean, summed, over their number less the correction."""
    named, out = call.named, call.out
    x: Tensor = next(named[one] for one in ("self", "inp") if one in named)
    dims = _dims(named.get("dim", named.get("dims")), x.dim())
    free = named.get("correction", 1 if named.get("unbiased", True) else 0)
    count = math.prod(x.shape[one] for one in dims) if x.dim() else 1
    made, slots = (out if isinstance(out, Tensor) else out[0]), call.at.resolved(x)
    kept = x.mean(dims, keepdim=True)
    total = V.linear(slots, lambda one: one.sum(dims, keepdim=True), kept)
    mean = V.combine(A.DIV, total, _constant(float(count)))
    rest = V.combine(A.SUB, slots, mean)
    squares = V.combine(A.MUL, rest, rest)
    total = V.linear(squares, lambda one: one.sum(dims).reshape(made.shape), made)
    divisor = _constant(float(count - (1 if free is None else free)))
    call.at.put(made, V.combine(A.DIV, total, divisor))
    if not isinstance(out, Tensor):
        call.at.put(out[1], mean.reshape(out[1].shape))


@row(RULES, "scatter_add", "index_add", "index_put", "_unsafe_index_put")
def _added(call: Applied) -> Tensor | None:
    """Residues are added where they meet; index_put without `accumulate` moves them."""
    named = call.named
    if named.get("accumulate") is False:
        return _moved()(call)
    names = [one.name for one in call.op._schema.arguments]
    source = next(name for name in ("src", "source", "values") if name in named)
    place = names.index(source)
    own = call.at.resolved(named["self"])
    added = call.scaled(call.at.resolved(named[source]), named.get("alpha", 1))

    def spread(one: Tensor) -> Tensor:
        given = [*call.args]
        given[0] = torch.zeros(named["self"].shape, dtype=torch.int64)
        given[place] = one
        rest = {k: v for k, v in call.kwargs.items() if k != "alpha"}
        total: Tensor = call.op(*given, **rest)
        return total

    return V.combine(A.ADD, own, V.linear(added, spread, call.out))


@row(RULES, "prod")
def _product_of(call: Applied) -> Tensor:
    slots = call.at.resolved(call.named["self"])
    if call.named.get("dim") is None:
        slots, dim = slots.reshape(-1), 0
    else:
        dim = call.named["dim"] % max(1, slots.dim())
    if not slots.numel():
        raise Unfollowed("a product of nothing")
    running = V.running_products(slots.reshape(-1) if not slots.dim() else slots, dim)
    return running.select(dim, -1).reshape(call.out.shape)


@row(RULES, "avg_pool2d", "avg_pool3d")
def _average(call: Applied) -> Tensor:
    """Sums over windows, over what torch divides them by."""
    op, x = call.op, call.named["self"]
    ones = torch.ones(x.shape, dtype=torch.float64)
    rest = {k: v for k, v in call.named.items() if k != "self"}
    share, whole = op(ones, **rest), op(ones, **{**rest, "divisor_override": 1})

    def total(one: Tensor) -> Tensor:
        whole: Tensor = op(one.double(), **{**rest, "divisor_override": 1})
        return whole.round().long()

    found = V.linear(call.at.resolved(x), total, call.out)
    return V.combine(A.DIV, found, V.constants((whole / share).round()))


# ---- sums of products ----------------------------------------------------------------------------


@row(RULES, "mm", "bmm", "mv", "dot")
def _matrix(call: Applied) -> Tensor:
    a, b = (call.at.resolved(one) for one in call.args[:2])
    return V.bilinear(a, b, lambda x, y: call.op(x, y), call.out)


@row(RULES, "addmm", "baddbmm", "addmv")
def _matrix_added(call: Applied) -> Tensor:
    """beta self + alpha a b."""
    named = call.named
    a, b = (next(named[n] for n in names if n in named) for names in _FACTORS)
    product = torch.matmul(a, b)
    found = V.bilinear(call.at.resolved(a), call.at.resolved(b), torch.matmul, product)
    found = call.scaled(found, named["alpha"])
    if named["beta"] == 0:
        return found
    return V.combine(A.ADD, call.scaled(call.at.resolved(named["self"]), named["beta"]), found)


_FACTORS = (("mat1", "batch1", "mat"), ("mat2", "batch2", "vec"))


@row(RULES, "convolution")
def _convolution(call: Applied) -> Tensor:
    named, resolved = call.named, call.at.resolved
    x, weight, bias = named["input"], named["weight"], named["bias"]
    rest = {k: v for k, v in named.items() if k not in ("input", "weight", "bias")}

    def product(a: Tensor, b: Tensor) -> Tensor:
        found: Tensor = call.op(a, b, None, **rest)
        return found.round()

    plain = call.op(x, weight, None, **rest)
    found = V.bilinear(resolved(x), resolved(weight), product, plain)
    if bias is None:
        return found
    spatial = weight.dim() - 2
    shape = [1] * (call.out.dim() - spatial - 1) + [-1] + [1] * spatial
    return V.combine(A.ADD, found, resolved(bias).reshape(shape))


# ---- the table -----------------------------------------------------------------------------------

_MOVES = (
    "clone", "cat", "stack", "index", "_unsafe_index", "index_select", "gather", "flip", "roll",
    "repeat", "tril", "triu", "slice_scatter", "select_scatter", "diagonal_scatter", "scatter",
    "diag_embed", "embedding", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
    "replication_pad1d", "replication_pad2d", "replication_pad3d", "im2col", "pixel_shuffle",
    "pixel_unshuffle", "channel_shuffle", "take", "repeat_interleave", "split_with_sizes_copy",
    "masked_select", "masked_scatter", "rot90", "contiguous", "_reshape_copy", "expand_copy",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "unfold_copy", "view_copy",
)  # fmt: skip
_VALUES = (
    "sign", "sgn", "floor", "ceil", "round", "trunc", "heaviside", "floor_divide", "bernoulli",
    "signbit", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones",
    "new_full", "new_empty", "new_empty_strided", "zero",
)  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "neg": lambda slots, numbers: V.negate(slots),
    "square": lambda slots, numbers: V.combine(A.MUL, slots, slots),
    "reciprocal": lambda slots, numbers: _one_over(slots),
    "abs": lambda slots, numbers: torch.where(numbers < 0, V.negate(slots), slots),
    "relu": lambda slots, numbers: _chosen(
        numbers, _numbers(0.0), slots, _constant(0.0), larger=True
    ),
    "exp": _exp,
    "exp2": partial(V.apply, A.EX2),
    "expm1": _expm1,
    "log": _log,
    "log2": partial(V.apply, A.LG2),
    "log10": lambda slots, numbers: _times(V.apply(A.LG2, slots, numbers), math.log10(2)),
    "log1p": lambda slots, numbers: _log(V.combine(A.ADD, slots, _constant(1.0)), numbers + 1.0),
    "sqrt": partial(V.apply, A.SQRT),
    "rsqrt": partial(V.apply, A.RSQRT),
    "sin": partial(V.apply, A.SIN),
    "cos": partial(V.apply, A.COS),
    "tan": lambda slots, numbers: V.combine(
        A.DIV, V.apply(A.SIN, slots, numbers), V.apply(A.COS, slots, numbers)
    ),
    "tanh": partial(V.apply, A.TANH),
    "sinh": _half_sum(A.SUB),
    "cosh": _half_sum(A.ADD),
    "sigmoid": lambda slots, numbers: _one_over(
        V.combine(A.ADD, _constant(1.0), _exp(V.negate(slots), -numbers))
    ),
    "erf": partial(V.apply, S.ERF),
    "erfc": lambda slots, numbers: V.combine(A.SUB, _constant(1.0), V.apply(S.ERF, slots, numbers)),
}

RULES |= {
    **{name: _unary(function) for name, function in _FUNCTIONS.items()},
    **dict.fromkeys(_MOVES, _moved("value", "src")),
    **dict.fromkeys(_VALUES, _by_value),
    "add": lambda call: call.weighted(A.ADD, "self", "other"),
    "sub": lambda call: call.weighted(A.SUB, "self", "other"),
    "rsub": lambda call: call.weighted(A.SUB, "other", "self"),
    "mul": lambda call: V.combine(A.MUL, call.read(call.args[0]), call.read(call.args[1])),
    "addcmul": _addc(A.MUL), "addcdiv": _addc(A.DIV),
    "where": lambda call: torch.where(
        call.named["condition"], call.read(call.named["self"]), call.read(call.named["other"])
    ),
    "maximum": _extreme(True), "minimum": _extreme(False),
    "fmax": _extreme(True), "fmin": _extreme(False),
    "amax": _extreme_of(True), "amin": _extreme_of(False),
    "max": _extreme_of(True), "min": _extreme_of(False),
    "max_pool2d_with_indices": _max_pool(2), "max_pool3d_with_indices": _max_pool(3),
    "adaptive_max_pool2d": _max_pool(2), "adaptive_max_pool3d": _max_pool(3),
    "masked_fill": _moved("value"), "constant_pad_nd": _moved("value"),
    "sum": _total(mean=False), "mean": _total(mean=True),
    "cumsum": lambda call: V.linear(
        call.at.resolved(call.args[0]), lambda one: one.cumsum(call.args[1]), call.out
    ),
    "cumprod": lambda call: V.running_products(
        call.at.resolved(call.args[0]), call.args[1] % call.out.dim()
    ),
}  # fmt: skip
