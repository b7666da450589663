"""What each operation of torch is in residues; the others are taken apart (`follow`).

A rule gets the operation's arguments and its results on float64 values, and gives the results
their slots. Which element a maximum, a sort or an index picks is read off the values. A number
that is the same for all data that decide alike (a rounding, a sign, a literal) is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload

from cuassay.algebra import values as V
from cuassay.errors import CuassayError
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


Rule = Callable[[Follows, OpOverload, Sequence[Any], Mapping[str, Any], Any], None]
_Named = Mapping[str, Any]


def _named(op: OpOverload, args: Sequence[Any], kwargs: _Named) -> dict[str, Any]:
    """Return arguments by the names of the schema, defaults among them."""
    found = {one.name: one.default_value for one in op._schema.arguments if one.has_default_value()}
    found |= dict(zip((one.name for one in op._schema.arguments), args, strict=False))
    return found | dict(kwargs)


def _read(at: Follows, value: Any) -> Tensor:
    """Return the resolved slots of a tensor or a number."""
    if isinstance(value, Tensor):
        return at.resolved(value)
    return V.constants(torch.tensor(float(value), dtype=torch.float64))


def _numbers(value: Any) -> Tensor:
    """Return the numbers of a tensor or a number in float64."""
    if isinstance(value, Tensor):
        return value.double()
    return torch.tensor(float(value), dtype=torch.float64)


# ---- sums, products, quotients -------------------------------------------------------------------


def _scaled(at: Follows, slots: Tensor, alpha: Any) -> Tensor:
    return slots if alpha == 1 else V.combine(A.MUL, slots, _read(at, alpha))


def _add(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    other = _scaled(at, _read(at, named["other"]), named.get("alpha", 1))
    at.put(out, V.combine(A.ADD, _read(at, named["self"]), other))


def _sub(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    other = _scaled(at, _read(at, named["other"]), named.get("alpha", 1))
    at.put(out, V.combine(A.SUB, _read(at, named["self"]), other))


def _rsub(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    own = _scaled(at, _read(at, named["self"]), named.get("alpha", 1))
    at.put(out, V.combine(A.SUB, _read(at, named["other"]), own))


def _mul(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    at.put(out, V.combine(A.MUL, _read(at, args[0]), _read(at, args[1])))


def _div(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    if _named(op, args, kwargs).get("rounding_mode") is not None:
        _by_value(at, op, args, kwargs, out)
        return
    at.put(out, V.combine(A.DIV, _read(at, args[0]), _read(at, args[1])))


def _neg(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    at.put(out, V.negate(_read(at, args[0])))


def _square(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    slots = _read(at, args[0])
    at.put(out, V.combine(A.MUL, slots, slots))


def _remainder(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """x - n y, where n is a whole number that the values say."""
    x, y = _numbers(args[0]), _numbers(args[1])
    whole = torch.round((x - _numbers(out)) / y)
    part = V.combine(A.MUL, V.constants(whole), _read(at, args[1]))
    at.put(out, V.combine(A.SUB, _read(at, args[0]), part))


def _addc(operation: int) -> Rule:
    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        named = _named(op, args, kwargs)
        part = V.combine(operation, _read(at, named["tensor1"]), _read(at, named["tensor2"]))
        part = _scaled(at, part, named["value"])
        at.put(out, V.combine(A.ADD, _read(at, named["self"]), part))

    return rule


# ---- functions -----------------------------------------------------------------------------------


def _unary(function: Callable[[Tensor, Tensor], Tensor]) -> Rule:
    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        # What the function makes of infinities is what the values say.
        at.put(out, function(at.resolved(args[0]), args[0].double()))

    return rule


def _constant(value: float) -> Tensor:
    return V.constants(torch.tensor(value, dtype=torch.float64))


def _times(slots: Tensor, value: float) -> Tensor:
    return V.combine(A.MUL, slots, _constant(value))


def _exp(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.apply(A.EX2, _times(slots, 1 / math.log(2)), numbers)


def _expm1(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.combine(A.SUB, _exp(slots, numbers), _constant(1.0))


def _log2(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.apply(A.LG2, slots, numbers)


def _log(slots: Tensor, numbers: Tensor) -> Tensor:
    return _times(_log2(slots, numbers), math.log(2))


def _log10(slots: Tensor, numbers: Tensor) -> Tensor:
    return _times(_log2(slots, numbers), math.log10(2))


def _log1p(slots: Tensor, numbers: Tensor) -> Tensor:
    return _log(V.combine(A.ADD, slots, _constant(1.0)), numbers + 1.0)


def _sigmoid(slots: Tensor, numbers: Tensor) -> Tensor:
    power = _exp(V.negate(slots), -numbers)
    return V.combine(A.DIV, _constant(1.0), V.combine(A.ADD, _constant(1.0), power))


def _inverse(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.combine(A.DIV, _constant(1.0), slots)


def _tan(slots: Tensor, numbers: Tensor) -> Tensor:
    sine, cosine = V.apply(A.SIN, slots, numbers), V.apply(A.COS, slots, numbers)
    return V.combine(A.DIV, sine, cosine)


def _erfc(slots: Tensor, numbers: Tensor) -> Tensor:
    return V.combine(A.SUB, _constant(1.0), V.apply(S.ERF, slots, numbers))


def _half_sum(sign: int) -> Callable[[Tensor, Tensor], Tensor]:
    def hyperbolic(slots: Tensor, numbers: Tensor) -> Tensor:
        up, down = _exp(slots, numbers), _exp(V.negate(slots), -numbers)
        return _times(V.combine(A.ADD if sign > 0 else A.SUB, up, down), 0.5)

    return hyperbolic


def _plain(operation: int) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda slots, numbers: V.apply(operation, slots, numbers)


def _abs(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    slots = _read(at, args[0])
    at.put(out, torch.where(_numbers(args[0]) < 0, V.negate(slots), slots))


def _pow(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    base, exponent = args[0], args[1]
    if isinstance(exponent, Tensor) and exponent.numel() == 1 and not exponent.requires_grad:
        if exponent.is_floating_point() and not _is_constant(at, exponent):
            raise Unfollowed("a power with an exponent that depends on data")
        exponent = exponent.item()
    if isinstance(exponent, Tensor):
        if isinstance(base, Tensor) or base <= 0:
            raise Unfollowed("a power of two tensors")
        at.put(out, V.apply(A.EX2, _times(at.resolved(exponent), math.log2(base)), exponent))
        return
    slots, numbers = _read(at, base), _numbers(base)
    doubled = 2 * exponent
    if doubled != int(doubled) or abs(doubled) > _MOST_POWER:
        power = _times(_log2(slots, numbers), float(exponent))
        at.put(out, V.apply(A.EX2, power, numbers))
        return
    if doubled % 2:
        found = V.apply(A.SQRT, slots, numbers)
        power, count = slots, (abs(int(doubled)) - 1) // 2
    else:
        found, power, count = _constant(1.0).expand(slots.shape), slots, abs(int(doubled)) // 2
    while count:
        if count & 1:
            found = V.combine(A.MUL, found, power)
        power, count = V.combine(A.MUL, power, power), count >> 1
    at.put(out, found if exponent >= 0 else V.combine(A.DIV, _constant(1.0), found))


def _is_constant(at: Follows, tensor: Tensor) -> bool:
    return bool((at.slots(tensor) == NONE).all())


def _by_value(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """Signs, roundings and the like: constants where data decide alike."""
    at.put(out, torch.tensor(NONE))


# ---- choices -------------------------------------------------------------------------------------


def _chosen(x: Tensor, y: Tensor, a: Tensor, b: Tensor, *, larger: bool) -> Tensor:
    """Return the slots of the larger or smaller numbers; of equal ones the kernel's choice."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y, a, b = (one.expand(shape) for one in (x, y, a, b))
    first = (x > y) if larger else (x < y)
    return torch.where(x == y, torch.minimum(a, b), torch.where(first, a, b))


def _extreme(larger: bool) -> Rule:
    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        slots = [_read(at, one) for one in args[:2]]
        at.put(out, _chosen(*map(_numbers, args[:2]), *slots, larger=larger))

    return rule


def _relu(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    zero = torch.tensor(0.0, dtype=torch.float64)
    at.put(out, _chosen(args[0], zero, _read(at, args[0]), _read(at, 0.0), larger=True))


def _clamp(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    numbers, slots = _numbers(named["self"]), _read(at, named["self"])
    for name, larger in (("min", True), ("max", False)):
        bound = named.get(name, named.get(f"{name}_val"))  # clamp, or hardtanh
        if bound is not None:
            slots = _chosen(numbers, _numbers(bound), slots, _read(at, bound), larger=larger)
            take = torch.maximum if larger else torch.minimum
            numbers = take(numbers, _numbers(bound))
    at.put(out, slots)


def _where(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    at.put(
        out, torch.where(named["condition"], _read(at, named["self"]), _read(at, named["other"]))
    )


def _dims(value: Any, rank: int) -> list[int]:
    if value is None or (isinstance(value, list | tuple) and not value):
        return list(range(rank))
    return [one % rank if rank else 0 for one in ([value] if isinstance(value, int) else value)]


def _extreme_of(larger: bool) -> Rule:
    """The largest or smallest along axes: amax, amin, max.dim, max()."""

    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        named = _named(op, args, kwargs)
        if "other" in named:
            _extreme(larger)(at, op, args, kwargs, out)
            return
        numbers, slots = named["self"], _read(at, named["self"])
        made = out if isinstance(out, Tensor) else out[0]
        if numbers.dim() == 0:
            at.put(made, slots)
            return
        dims = _dims(named.get("dim"), numbers.dim())
        best = numbers.amax(dims, keepdim=True) if larger else numbers.amin(dims, keepdim=True)
        equal = (numbers == best) | (numbers.isnan() & best.isnan())
        least = torch.where(equal, slots, _LAST).amin(dims)
        at.put(made, least.reshape(made.shape))

    return rule


def _picked(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """Values with the indices of the elements that they are along an axis: sort, topk, cummax."""
    named = _named(op, args, kwargs)
    slots = _read(at, named["self"])
    if slots.dim() == 0:
        at.put(out[0], slots)
        return
    dim = named["dim"] % slots.dim()
    indices = out[1] if out[1].dim() == slots.dim() else out[1].unsqueeze(dim)
    at.put(out[0], slots.gather(dim, indices).reshape(out[0].shape))


def _max_pool(spatial: int) -> Rule:
    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        slots, indices = _read(at, args[0]), out[1]
        lead = slots.dim() - spatial
        flat = slots.flatten(lead).gather(lead, indices.flatten(lead))
        at.put(out[0], flat.reshape(out[0].shape))

    return rule


# ---- movement ------------------------------------------------------------------------------------


def _moved(*fills: str) -> Rule:
    """Elements that only move: the operation on their numbers, 0 for what `fills` names."""

    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        names = [one.name for one in op._schema.arguments]
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
            sources.append(at.resolved(value).reshape(-1))
            shown.append(value.reshape(-1))
            return torch.arange(first, first + value.numel()).double().reshape(value.shape)

        given = [numbered(name, one) for name, one in zip(names, args, strict=False)]
        found = op(*given, **{name: numbered(name, one) for name, one in kwargs.items()})
        slots, numbers = torch.cat(sources), torch.cat(shown)
        pairs = (out, found) if isinstance(out, list | tuple) else ([out], [found])
        for made, places in zip(*pairs, strict=True):
            if made.dtype is not torch.float64:
                continue
            index = places.long()
            same = (numbers[index] == made) | (index == 0) | made.isnan()
            if not bool((index == places).all() and same.all()):
                raise Unfollowed(f"{op} does more than move elements")
            at.put(made, slots[index])

    return rule


def _copy(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """A conversion among floats, or a copy into the shape of another tensor."""
    if not isinstance(out, Tensor) or out.dtype is not torch.float64:
        return
    named = _named(op, args, kwargs)
    at.put(out, at.resolved(next(named[one] for one in ("src", "self", "a") if one in named)))


def _filled(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """fill.Tensor: the slot of a tensor of one element everywhere."""
    value = _named(op, args, kwargs).get("value")
    at.put(out, at.resolved(value) if isinstance(value, Tensor) else torch.tensor(NONE))


def _number(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """A number taken out of a tensor: what is computed from it has no residues."""
    if args[0].is_floating_point() and not _is_constant(at, args[0]):
        raise Unfollowed("a number taken out of a tensor")


# ---- sums ----------------------------------------------------------------------------------------


def _sum(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    dims = _dims(named.get("dim"), named["self"].dim())
    at.put(out, _summed(at, named["self"], dims, out))


def _summed(at: Follows, tensor: Tensor, dims: Sequence[int], out: Tensor) -> Tensor:
    def total(one: Tensor) -> Tensor:
        return (one.sum(list(dims)) if one.dim() else one).reshape(out.shape)

    return V.linear(at.resolved(tensor), total, out)


def _mean(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    dims = _dims(named.get("dim"), named["self"].dim())
    count = math.prod(named["self"].shape[one] for one in dims) if named["self"].dim() else 1
    total = _summed(at, named["self"], dims, out)
    at.put(out, V.combine(A.DIV, total, _constant(float(count))))


def _variance(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """Squares of what is left without the mean, summed, over their number less the correction."""
    named = _named(op, args, kwargs)
    x: Tensor = next(named[one] for one in ("self", "inp") if one in named)
    dims = _dims(named.get("dim", named.get("dims")), x.dim())
    free = named.get("correction", 1 if named.get("unbiased", True) else 0)
    count = math.prod(x.shape[one] for one in dims) if x.dim() else 1
    made, slots = (out if isinstance(out, Tensor) else out[0]), at.resolved(x)
    kept = x.mean(dims, keepdim=True)
    total = V.linear(slots, lambda one: one.sum(dims, keepdim=True), kept)
    mean = V.combine(A.DIV, total, _constant(float(count)))
    rest = V.combine(A.SUB, slots, mean)
    squares = V.combine(A.MUL, rest, rest)
    total = V.linear(squares, lambda one: one.sum(dims).reshape(made.shape), made)
    at.put(made, V.combine(A.DIV, total, _constant(float(count - (1 if free is None else free)))))
    if not isinstance(out, Tensor):
        at.put(out[1], mean.reshape(out[1].shape))


def _elu(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """Each factor by itself: their product, rounded, would be another constant."""
    named = _named(op, args, kwargs)
    x, slots = named["self"], at.resolved(named["self"])
    inner, scaled = _scaled(at, slots, named["input_scale"]), x * named["input_scale"]
    below = _scaled(at, _expm1(inner, scaled), named["alpha"])
    at.put(out, _scaled(at, torch.where(x > 0, slots, below), named["scale"]))


def _cumsum(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    at.put(out, V.linear(at.resolved(args[0]), lambda one: one.cumsum(args[1]), out))


def _added(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """scatter_add, index_add and index_put with accumulate: residues are added where they meet."""
    named = _named(op, args, kwargs)
    if named.get("accumulate") is False:
        _moved()(at, op, args, kwargs, out)
        return
    names = [one.name for one in op._schema.arguments]
    source = next(name for name in ("src", "source", "values") if name in named)
    place = names.index(source)
    own = at.resolved(named["self"])
    added = _scaled(at, at.resolved(named[source]), named.get("alpha", 1))

    def spread(one: Tensor) -> Tensor:
        given = [*args]
        given[0] = torch.zeros(named["self"].shape, dtype=torch.int64)
        given[place] = one
        rest = {k: v for k, v in kwargs.items() if k != "alpha"}
        total: Tensor = op(*given, **rest)
        return total

    at.put(out, V.combine(A.ADD, own, V.linear(added, spread, out)))


def _product_of(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    named = _named(op, args, kwargs)
    slots = at.resolved(named["self"])
    if named.get("dim") is None:
        slots, dim = slots.reshape(-1), 0
    else:
        dim = named["dim"] % max(1, slots.dim())
    if not slots.numel():
        raise Unfollowed("a product of nothing")
    running = V.running_products(slots.reshape(-1) if not slots.dim() else slots, dim)
    at.put(out, running.select(dim, -1).reshape(out.shape))


def _cumprod(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    at.put(out, V.running_products(at.resolved(args[0]), args[1] % out.dim()))


def _average(spatial: int) -> Rule:
    """Sums over windows, over what torch divides them by."""

    def rule(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
        named = _named(op, args, kwargs)
        ones = torch.ones(named["self"].shape, dtype=torch.float64)
        rest = {k: v for k, v in named.items() if k != "self"}
        share, whole = op(ones, **rest), op(ones, **{**rest, "divisor_override": 1})

        def total(one: Tensor) -> Tensor:
            whole: Tensor = op(one.double(), **{**rest, "divisor_override": 1})
            return whole.round().long()

        found = V.linear(at.resolved(named["self"]), total, out)
        at.put(out, V.combine(A.DIV, found, V.constants((whole / share).round())))

    return rule


# ---- sums of products ----------------------------------------------------------------------------


def _matrix(at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any) -> None:
    """mm, bmm, mv, dot."""
    a, b = args[0], args[1]
    at.put(out, V.bilinear(at.resolved(a), at.resolved(b), lambda x, y: op(x, y), out))


def _matrix_added(
    at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any
) -> None:
    """addmm, baddbmm, addmv: beta self + alpha a b."""
    named = _named(op, args, kwargs)
    a, b = (next(named[n] for n in names if n in named) for names in _FACTORS)
    product = torch.matmul(a, b)
    found = V.bilinear(at.resolved(a), at.resolved(b), torch.matmul, product)
    found = _scaled(at, found, named["alpha"])
    if named["beta"] != 0:
        own = _scaled(at, at.resolved(named["self"]), named["beta"])
        found = V.combine(A.ADD, own, found)
    at.put(out, found)


_FACTORS = (("mat1", "batch1", "mat"), ("mat2", "batch2", "vec"))


def _convolution(
    at: Follows, op: OpOverload, args: Sequence[Any], kwargs: _Named, out: Any
) -> None:
    named = _named(op, args, kwargs)
    x, weight, bias = named["input"], named["weight"], named["bias"]
    rest = {k: v for k, v in named.items() if k not in ("input", "weight", "bias")}

    def product(a: Tensor, b: Tensor) -> Tensor:
        found: Tensor = op(a, b, None, **rest)
        return found.round()

    plain = op(x, weight, None, **rest)
    found = V.bilinear(at.resolved(x), at.resolved(weight), product, plain)
    if bias is not None:
        shape = [1] * (out.dim() - spatial_rank(weight) - 1) + [-1] + [1] * spatial_rank(weight)
        found = V.combine(A.ADD, found, at.resolved(bias).reshape(shape))
    at.put(out, found)


def spatial_rank(weight: Tensor) -> int:
    """Return the number of spatial axes of a convolution's weight."""
    return weight.dim() - 2


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
    "signbit",
)  # fmt: skip

RULES: Mapping[str, Rule] = {
    "add": _add, "sub": _sub, "rsub": _rsub, "mul": _mul, "div": _div, "neg": _neg,
    "square": _square, "reciprocal": _unary(_inverse), "pow": _pow, "fmod": _remainder,
    "remainder": _remainder, "addcmul": _addc(A.MUL), "addcdiv": _addc(A.DIV),
    "exp": _unary(_exp), "exp2": _unary(_plain(A.EX2)), "expm1": _unary(_expm1),
    "log": _unary(_log), "log2": _unary(_log2), "log10": _unary(_log10),
    "log1p": _unary(_log1p), "sqrt": _unary(_plain(A.SQRT)), "rsqrt": _unary(_plain(A.RSQRT)),
    "sin": _unary(_plain(A.SIN)), "cos": _unary(_plain(A.COS)), "tan": _unary(_tan),
    "tanh": _unary(_plain(A.TANH)), "sigmoid": _unary(_sigmoid), "erf": _unary(_plain(S.ERF)),
    "erfc": _unary(_erfc), "sinh": _unary(_half_sum(-1)), "cosh": _unary(_half_sum(1)),
    "abs": _abs, "relu": _relu, "maximum": _extreme(True), "minimum": _extreme(False),
    "fmax": _extreme(True), "fmin": _extreme(False), "clamp": _clamp, "clamp_min": _clamp,
    "clamp_max": _clamp, "hardtanh": _clamp, "where": _where, "amax": _extreme_of(True),
    "amin": _extreme_of(False), "max": _extreme_of(True), "min": _extreme_of(False),
    "sort": _picked, "topk": _picked, "cummax": _picked, "cummin": _picked,
    "kthvalue": _picked, "mode": _picked,
    "max_pool2d_with_indices": _max_pool(2), "max_pool3d_with_indices": _max_pool(3),
    "adaptive_max_pool2d": _max_pool(2), "adaptive_max_pool3d": _max_pool(3),
    "sum": _sum, "mean": _mean, "cumsum": _cumsum, "var": _variance, "var_mean": _variance,
    "prims::var": _variance, "elu": _elu, "prod": _product_of, "cumprod": _cumprod,
    "scatter_add": _added, "index_add": _added, "index_put": _added,
    "_unsafe_index_put": _added, "avg_pool2d": _average(2), "avg_pool3d": _average(3),
    "mm": _matrix, "bmm": _matrix, "mv": _matrix, "dot": _matrix, "addmm": _matrix_added,
    "baddbmm": _matrix_added, "addmv": _matrix_added, "convolution": _convolution,
    "_to_copy": _copy, "copy": _copy, "lift_fresh": _filled, "fill": _filled,
    "prims::convert_element_type": _copy, "_local_scalar_dense": _number,
    "masked_fill": _moved("value"), "constant_pad_nd": _moved("value"),
    **dict.fromkeys(_MOVES, _moved("value", "src")), **dict.fromkeys(_VALUES, _by_value),
    "zeros_like": _by_value, "ones_like": _by_value, "full_like": _by_value,
    "empty_like": _by_value, "new_zeros": _by_value, "new_ones": _by_value,
    "new_full": _by_value, "new_empty": _by_value, "new_empty_strided": _by_value,
    "zero": _by_value,
}  # fmt: skip
