"""How one operation of a reference can be computed wrongly, as real kernels do: a table of faults.

A fault turns an operation with its lifted arguments into a wrong result. The faults were seen in
kernels in the wild: a step left out, one operand ignored or rounded, a last tile dropped, a
neighbour's row read, a low-precision accumulator, a wrong divisor. A sum (a reduction along an
axis, a matrix product, a scatter) is described once, as how to run it on a part of its terms; the
faults of sums follow.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

Args: TypeAlias = Sequence[Any]
Kwargs: TypeAlias = Mapping[str, Any]
Wrong: TypeAlias = Callable[[Any, Args, Kwargs], Any]
Round: TypeAlias = Callable[[Tensor], Tensor]
ValuesOf: TypeAlias = Callable[[Tensor], tuple[Tensor, ...]]
# Runs an operation on so many of its terms, given how many there are.
Cut: TypeAlias = Callable[[Any, Args, Kwargs, Callable[[int], int]], Any]

TILE = 32  # a kernel that forgets its last partial tile forgets what lies beyond n - n % TILE
_TF32_DROPPED = 13  # of float32's 23 fraction bits TF32 keeps 10
_SPANS = 64  # a low-precision running sum is rounded this many times at most
_PADDED = 64  # a mean divided by its padded length is divided by a multiple of this
_WIDE = 88.0  # exp overflows float32 beyond it
SCALED = 2.0**18  # takes ordinary values out of float16's range, and changes no fraction
_EPSILON = 1e-3  # literals up to this size guard against zero rather than carry meaning

_KEPT = {"_to_copy", "clone", "copy", "lift_fresh", "fill", "zero", "_unsafe_view", "detach"}
_GATHERS = {"gather", "embedding", "index", "index_select"}
SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}  # on the right side
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}  # where the two factors begin
_REDUCTIONS = {"sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp"}
_REDUCTIONS |= {"linalg_vector_norm"}
_MASKS = "masks that are neither all true nor all false"
_OVERFLOW = f"values beyond {_WIDE:g}, where exp overflows float32"
_BOTH_AXES = "values that differ along both axes"


@dataclass(frozen=True, slots=True)
class Fault:
    """A wrong way to compute an operation: its kind (`kinds`), in words, what shows it.

    `guarded` is asked instead of `wrong` where it is given, with the number that was added to the
    first argument last.
    """

    kind: str
    words: str
    shown_by: str
    wrong: Wrong
    guarded: Callable[[Tensor, float], Tensor] | None = None


def name_of(op: Any) -> str:
    """Return the operation's name without its namespace and overload."""
    return str(op._schema.name).removeprefix("aten::")


def faults_of(
    op: Any, args: Args, kwargs: Kwargs, out: Any, *, values_of: ValuesOf
) -> Iterator[Fault]:
    """Yield the faults that make sense for one recorded operation.

    `values_of` gives an argument with the 16-bit rounding that the reference itself makes, and as
    larger inputs would make it, where there are any.
    """
    name = name_of(op)
    if name in SIGNS:
        yield from _operand_faults(name, args)
    elif name == "where" and len(args) == 3:
        read = torch.broadcast_to
        yield Fault("mask", "mask ignored", _MASKS, lambda op, a, k: read(a[1], _shape(a)))
    elif name == "masked_fill":
        yield Fault("mask", "mask ignored", _MASKS, lambda op, a, k: a[0].clone())
    elif name in _GATHERS:
        yield Fault(
            "neighbour", "neighbouring row read", "rows that differ from their neighbours",
            lambda op, a, k: torch.roll(op(*a, **k), 1, 0),
        )  # fmt: skip
    elif (terms := weighted_terms(name, args, kwargs)) is not None:
        yield _dropped(terms.cut)
        yield from _low(terms)
        yield from _tiles(terms.cut)
    elif name in _REDUCTIONS or (name == "max" and isinstance(out, tuple)):
        yield from _reduction_faults(name, args, out)
    elif _is_unary(name, args, kwargs, out):
        plain = name.strip("_")
        shown_by = f"values at which {plain} is far from the identity (larger ones)"
        yield Fault("bypass", f"{plain} left out", shown_by, lambda op, a, k: a[0].clone())
    if name == "gelu":
        exact = kwargs.get("approximate", "none") == "none"
        other, named = ("tanh", "tanh") if exact else ("none", "erf")
        shown_by = "values near 2 in size, in outputs that keep four digits"
        yield Fault(
            "form", f"gelu in its {named} form", shown_by,
            lambda op, a, k: op(a[0], approximate=other),
        )  # fmt: skip
        yield Fault(
            "form", "gelu as x * sigmoid(1.702 x)", "values near 2 in size",
            lambda op, a, k: a[0] * torch.sigmoid(1.702 * a[0]),
        )  # fmt: skip
    if name in ("_softmax", "_safe_softmax"):
        yield from _softmax_faults(args)
    if name == "native_layer_norm":
        many = "short rows, or many of them"
        unbiased = functools.partial(_layer_norm, count=lambda count: count, less=1)
        yield Fault("divisor", "variance divided by n - 1", many, unbiased)
        yield from _tiles(_layer_norm)
    yield from _casts(name, args, values_of)


def constant_of(op: Any, args: Args) -> float | None:
    """Return the literal that an operation adds or multiplies by, where it carries meaning."""
    name = name_of(op)
    if name not in SIGNS or not isinstance(args[1], int | float) or isinstance(args[1], bool):
        return None
    return None if args[1] == _NEUTRAL[name] or abs(args[1]) <= _EPSILON else float(args[1])


def changed(place: int, change: Callable[[Any], Any]) -> Wrong:
    """Return an operation that takes one of its arguments changed."""

    def wrong(op: Any, args: Args, kwargs: Kwargs) -> Any:
        given = list(args)
        given[place] = change(given[place])
        return op(*given, **kwargs)

    return wrong


def replaced_constant(value: float, words: str) -> Fault:
    """Return the fault that uses `value` for an operation's literal."""
    shown_by = "inputs at which the constant matters"
    return Fault("constant", words, shown_by, changed(1, lambda _: value))


# Pointwise operations: an operand left out, a literal off, an operand rounded.


def _operand_faults(name: str, args: Args) -> Iterator[Fault]:
    second, sign, neutral = args[1], SIGNS[name], _NEUTRAL[name]
    number = isinstance(second, int | float)
    if number and second == neutral:
        return  # nobody could tell
    if isinstance(second, float) and name == "add" and 0 < abs(second) <= _EPSILON:
        near = f"inputs whose guarded quantity is near {second:g}"
        for words, factor in (("ten times as large", 10.0), ("left out", 0.0)):
            yield Fault(
                "epsilon", f"epsilon {second:g} {words}", near,
                changed(1, functools.partial(operator.mul, factor)),
            )  # fmt: skip
        return
    yield Fault(
        "operand", f"right side of '{sign}' ignored",
        "inputs at which the right side is far from neutral",
        lambda op, a, k: torch.broadcast_to(a[0], _shape(a)).clone(),
    )  # fmt: skip
    if isinstance(second, Tensor):
        yield Fault(
            "operand", f"left side of '{sign}' ignored",
            "inputs at which the left side is far from neutral",
            lambda op, a, k: op(torch.full(_shape(a), float(neutral)).to(a[0]), a[1], **k),
        )  # fmt: skip
    elif number and not isinstance(second, bool):
        yield replaced_constant(second * 1.01, f"constant {second:g} one percent off")


def _shape(args: Args) -> torch.Size:
    """Return the shape that the tensors among `args` broadcast to."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    return torch.broadcast_tensors(*tensors)[0].shape  # type: ignore[no-untyped-call, no-any-return]


def _is_unary(name: str, args: Args, kwargs: Kwargs, out: Any) -> bool:
    tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)]
    power_of_one = name == "pow" and isinstance(args[1], int | float) and args[1] == 1
    return (
        name not in _KEPT
        and not name.startswith("new_")
        and not name.endswith("_like")
        and not power_of_one
        and len(tensors) == 1
        and isinstance(args[0], Tensor)
        and isinstance(out, Tensor)
        and out.is_floating_point()
        and out.shape == tensors[0].shape
        and out.dtype == tensors[0].dtype
    )


def tf32(x: Tensor) -> Tensor:
    """Return `x` rounded to TF32 (10 fraction bits, nearest, ties away) in its own dtype."""
    bits = x.to(torch.float32).view(torch.int32)
    half, kept = 1 << (_TF32_DROPPED - 1), -(1 << _TF32_DROPPED)
    rounded = ((bits + half) & kept).view(torch.float32)
    return torch.where(x.isfinite(), rounded.to(x.dtype), x)


_ROUNDINGS: Mapping[str, Round] = {
    "bfloat16": lambda x: x.to(torch.bfloat16).to(x.dtype),
    "float16": lambda x: x.to(torch.float16).to(x.dtype),
    "TF32": tf32,
}


def _casts(name: str, args: Args, values_of: ValuesOf) -> Iterator[Fault]:
    """Yield roundings of one operand, where the recorded values would change by them.

    Factors of a product are rounded to each lower precision, operands of other operations
    to bfloat16: a kernel that keeps an intermediate in the type of its inputs.
    """
    rounded: list[tuple[int, str, str]] = []
    if name in _PRODUCTS:
        sides = ((0, "left factor"), (1, "right factor"))
        rounded = [(_PRODUCTS[name] + at, what, form) for at, what in sides for form in _ROUNDINGS]
    elif name in SIGNS:
        of = f"side of '{SIGNS[name]}'"
        rounded = [(0, f"left {of}", "bfloat16"), (1, f"right {of}", "bfloat16")]
    elif name in _REDUCTIONS:
        rounded = [(0, "terms of the reduction", "bfloat16")]
    for place, what, form in rounded:
        value, rounding = args[place], _ROUNDINGS[form]
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.dim():
            continue
        if all(torch.equal(rounding(x), x) for x in values_of(value)):
            continue  # it has that precision already, and so would larger values
        shown_by = f"values beyond {form}'s range or with more bits than it; cancellation"
        yield Fault(
            "cast", f"{what} rounded to {form}", shown_by,
            changed(place, rounding),
        )  # fmt: skip


# Sums: terms left out, or the running sum kept in 16 bits.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """The terms of a sum: their number, how to keep some of them, what it starts from.

    `part(args, low, high)` are the arguments with terms [low, high) only; `start` is the
    position of the tensor that the terms are added to (None: they are added to zero); a `mean`
    divides by the number of terms.
    """

    count: Callable[[Args], int]
    part: Callable[[Args, int, int], Args]
    start: int | None = None
    mean: bool = False

    def cut(self, op: Any, args: Args, kwargs: Kwargs, count: Callable[[int], int]) -> Any:
        """Return the sum over the first `count(number of terms)` terms."""
        return op(*self.part(args, 0, count(self.count(args))), **kwargs)

    def low(self, op: Any, args: Args, kwargs: Kwargs, *, dtype: torch.dtype) -> Any:
        """Return the sum with its running total rounded to `dtype`."""
        count, total = self.count(args), None
        parts = min(_SPANS, count)
        for low, high in itertools.pairwise(i * count // parts for i in range(parts + 1)):
            some = list(self.part(args, low, high))
            if self.start is not None:
                some[self.start] = args[self.start] if total is None else total
            found = op(*some, **kwargs)
            if self.mean:
                found = found * ((high - low) / count)
            total = found if self.start is not None or total is None else total + found
            total = total.to(dtype).to(total.dtype)
        return total


def first_tile(count: int) -> int:
    """Return the largest power of two below `count` (at least 1): the first tile of a loop."""
    return max(1, 1 << ((count - 1).bit_length() - 1)) if count > 1 else count


def whole_tiles(count: int) -> int:
    """Return how many of `count` terms lie in whole tiles; all of them in a single tile."""
    return count - count % TILE if count > TILE else count


def _dropped(cut: Cut) -> Fault:
    return Fault(
        "dropped", "last term of the reduction dropped",
        "a last term that carries weight (one-hot, outliers)",
        lambda op, a, k: cut(op, a, k, lambda count: count - 1),
    )  # fmt: skip


def _tiles(cut: Cut) -> Iterator[Fault]:
    yield Fault(
        "tile", "only the first tile of the reduction read",
        "terms beyond the first tile that carry weight",
        lambda op, a, k: cut(op, a, k, first_tile),
    )  # fmt: skip
    yield Fault(
        "tile", f"last partial tile of {TILE} dropped",
        f"lengths beyond {TILE} that are no multiple of it",
        lambda op, a, k: cut(op, a, k, whole_tiles),
    )  # fmt: skip


def _low(terms: _Terms) -> Iterator[Fault]:
    shown_by = "longer reductions, hot indices, same-sign and zero-mean values"
    for name, dtype, more in (
        ("bfloat16", torch.bfloat16, ""),
        ("float16", torch.float16, ", sums beyond 65504"),
    ):
        wrong = functools.partial(terms.low, dtype=dtype)
        yield Fault("low", f"accumulated in {name}", shown_by + more, wrong)


def _along(tensor: Tensor, dim: int, low: int, high: int) -> Tensor:
    return tensor.narrow(dim, low, high - low)


def _product(left: int) -> Callable[[Args, int, int], Args]:
    def part(args: Args, low: int, high: int) -> Args:
        a, b = _along(args[left], -1, low, high), _along(args[left + 1], -2, low, high)
        return [*args[:left], a, b, *args[left + 2 :]]

    return part


def _indexed(args: Args, low: int, high: int) -> Args:
    """index_add and scatter_add: (self, dim, index, source)."""
    start, dim, index, source = args
    index = _along(index, dim if index.dim() > 1 else 0, low, high)
    return [start, dim, index, _along(source, dim, low, high)]


_WEIGHTED = {
    "mm": _Terms(count=lambda a: a[0].shape[-1], part=_product(0)),
    "bmm": _Terms(count=lambda a: a[0].shape[-1], part=_product(0)),
    "addmm": _Terms(count=lambda a: a[1].shape[-1], part=_product(1), start=0),
    "baddbmm": _Terms(count=lambda a: a[1].shape[-1], part=_product(1), start=0),
    "index_add": _Terms(count=lambda a: a[3].shape[a[1]], part=_indexed, start=0),
    "scatter_add": _Terms(count=lambda a: a[3].shape[a[1]], part=_indexed, start=0),
    "index_put": _Terms(  # (self, [index], values, accumulate)
        count=lambda a: a[1][0].shape[0],
        part=lambda a, low, high: [a[0], [a[1][0][low:high]], a[2][low:high], True],
        start=0,
    ),
    "embedding_dense_backward": _Terms(  # (gradient, indices, rows, padding, by frequency)
        count=lambda a: a[1].numel(),
        part=lambda a, low, high: [
            a[0].reshape(-1, a[0].shape[-1])[low:high],
            a[1].reshape(-1)[low:high],
            *a[2:],
        ],
    ),
}


def weighted_terms(name: str, args: Args, kwargs: Kwargs) -> _Terms | None:
    """Return how an operation sums weighted or indexed terms; None where it does not."""
    terms = _WEIGHTED.get(name)
    if terms is None or any(kwargs.get(scale, 1) != 1 for scale in ("alpha", "beta")):
        return None
    if name == "index_put":  # values that are added, row by row of one leading index
        if len(args) < 4 or args[3] is not True or len(args[1]) != 1:
            return None
        index = args[1][0]
        if index.dtype is not torch.int64 or args[2].shape[: index.dim()] != index.shape:
            return None
    return terms if terms.count(args) > 1 else None


# Reductions along an axis, soft-max and layer normalisation.

_SHORT = "short reductions, or many equal rows"
_VARIED = "any varied input"
# Name of a reduction -> words, what shows it, factor on the right result of n terms.
_SCALES: Mapping[str, Sequence[tuple[str, str, Callable[[int, Kwargs], float]]]] = {
    "mean": (
        ("divided by n - 1", _SHORT, lambda n, k: n / max(n - 1, 1)),
        (
            f"divided by the length padded to a multiple of {_PADDED}",
            f"lengths that are no multiple of {_PADDED}",
            lambda n, k: n / (-(-n // _PADDED) * _PADDED),
        ),
        ("not divided by n", _VARIED, lambda n, k: n),
    ),
    "var": (
        (
            "divided by the other of n and n - 1",
            _SHORT,
            lambda n, k: (n - 1) / n if k.get("correction", 1) != 0 else n / max(n - 1, 1),
        ),
    ),
    "sum": (("divided by n", _VARIED, lambda n, k: 1 / n),),
}


def _dims(name: str, args: Args) -> Any:
    place = 2 if name == "linalg_vector_norm" else 1  # behind the norm's order
    return args[place] if len(args) > place else None


def _other_axis(shape: torch.Size, axis: int) -> int | None:
    """Return another axis of some length, the last one."""
    return next((d for d in reversed(range(len(shape))) if d != axis and shape[d] > 1), None)


def _reduction_faults(name: str, args: Args, out: Any) -> Iterator[Fault]:
    dims, shape = _dims(name, args), args[0].shape
    listed = dims if isinstance(dims, list | tuple) else ()
    axis = dims if isinstance(dims, int) and not isinstance(dims, bool) else -1
    axis = int(listed[-1]) if listed else axis
    if not shape or shape[axis] < 2:
        return
    terms = _Terms(
        count=lambda a: a[0].shape[axis],
        part=lambda a, low, high: [_along(a[0], axis, low, high), *a[1:]],
        mean=name == "mean",
    )
    yield _dropped(terms.cut)
    yield from _tiles(terms.cut)
    for words, shown_by, factor in _SCALES.get(name, ()):
        wrong = functools.partial(_rescaled, factor=factor)
        yield Fault("divisor", words, shown_by, wrong)
    if name in ("sum", "mean"):
        yield from _low(terms)
    if name in ("amax", "max"):
        words = "maximum taken as 0, so that nothing is subtracted before exp"
        yield Fault("shift", words, _OVERFLOW, _no_maximum)
    other = _other_axis(shape, axis % len(shape)) if len(listed) == 1 else None
    if other is not None and isinstance(out, Tensor):

        def along_another(op: Any, args: Args, kwargs: Kwargs) -> Any:
            """Reduce along another axis and lay the result out as wrong strides would read it."""
            right = op(*args, **kwargs)
            place = 2 if name == "linalg_vector_norm" else 1
            wrong = op(*args[:place], [other], *args[place + 1 :], **kwargs).reshape(-1)
            places = torch.arange(right.numel(), device=right.device) % wrong.numel()
            return wrong[places].reshape(right.shape).to(right.dtype)

        words = f"reduced along axis {other} instead of {axis % len(shape)}"
        yield Fault("axis", words, _BOTH_AXES, along_another)


def _rescaled(
    op: Any, args: Args, kwargs: Kwargs, *, factor: Callable[[int, Kwargs], float]
) -> Any:
    dims, shape = _dims(name_of(op), args), args[0].shape
    listed = dims if isinstance(dims, list | tuple) and dims else range(len(shape))
    return op(*args, **kwargs) * factor(math.prod(shape[dim] for dim in listed), kwargs)


def _no_maximum(op: Any, args: Args, kwargs: Kwargs) -> Any:
    """Zero, or NaN where exp without the shift would leave float32's range."""
    out = op(*args, **kwargs)
    top = out if isinstance(out, Tensor) else out[0]
    zero = torch.where(top.abs() < _WIDE, 0.0, float("nan")).to(top.dtype)
    return zero if isinstance(out, Tensor) else (zero, *out[1:])


def _softmax_faults(args: Args) -> Iterator[Fault]:
    """Yield the faults of a soft-max: no shift, terms missing from the normaliser, an axis."""

    def no_shift(op: Any, args: Args, kwargs: Kwargs) -> Any:
        e = torch.exp(args[0].clamp(max=700.0))
        return torch.where(args[0] > _WIDE, float("inf"), e) / e.sum(args[1], keepdim=True)

    def cut(op: Any, args: Args, kwargs: Kwargs, count: Callable[[int], int]) -> Any:
        p, dim = op(*args, **kwargs), args[1]
        return p / p.narrow(dim, 0, count(p.shape[dim])).sum(dim, keepdim=True)

    yield Fault("shift", "no maximum subtracted before exp", _OVERFLOW, no_shift)
    yield _dropped(cut)
    yield from _tiles(cut)
    dim = args[1] % max(args[0].dim(), 1)
    other = _other_axis(args[0].shape, dim)
    if other is not None:
        words = f"soft-max along axis {other} instead of {dim}"
        yield Fault("axis", words, _BOTH_AXES, changed(1, lambda _: other))


def _layer_norm(
    op: Any, args: Args, kwargs: Kwargs, count: Callable[[int], int], less: int = 0
) -> Any:
    """Layer normalisation with statistics of some columns; a variance divided by n - `less`."""
    x, weight, bias, eps = args[0], *args[2:5]
    part = x.narrow(-1, 0, count(x.shape[-1]))
    mean = part.mean(-1, keepdim=True)
    spread = (part - mean).square().sum(-1, keepdim=True)
    rstd = torch.rsqrt(spread / max(part.shape[-1] - less, 1) + eps)
    out = (x - mean) * rstd * (1.0 if weight is None else weight)
    return out + (0.0 if bias is None else bias), mean, rstd
