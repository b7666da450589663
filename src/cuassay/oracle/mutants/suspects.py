"""Faults that rejected kernels turn out to have, beside those that a power test asks for.

A diagnosis compares wrong answers with every one of them. A trial's power leaves them out: they
are many, and inputs that tell the faults of `faults` apart tell most of these apart too.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuassay.oracle.mutants.faults import (
    SIGNS,
    Args,
    Fault,
    Kwargs,
    name_of,
    second_scaled,
    weighted_terms,
)

_SMALL = 1e-2  # a literal up to this size that is added guards a root or a quotient
_GUARDS = (1e-3, 1e-5, 1e-6, 1e-8, 1e-12)  # that kernels hold in the place of an argument
_TILES = (16, 32, 64, 128, 256, 512, 1024)  # of kernels that have one tile for every size
_ANY = "any varied input"
_NORMS = ("native_layer_norm", "native_group_norm")
_LOSSES = ("nll_loss_forward", "nll_loss2d_forward")
_MEAN = 1  # torch's number of the reduction
_LOWEST = (-1e4, -1e9, -65504.0, -1e5, -1e30, torch.finfo(torch.float32).min)  # in kernels
_GUARDED: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "added": lambda x, guard: x + guard,
    "inside of the root": lambda x, guard: (x.square() + guard).sqrt(),
    "squared inside of the root": lambda x, guard: (x.square() + guard * guard).sqrt(),
    "left out": lambda x, guard: x.clone(),
    "ten times as large": lambda x, guard: x.clamp_min(10.0 * guard),
}
_SIGNED: Mapping[str, Any] = {
    "add": torch.sub,
    "sub": torch.add,
    "mul": torch.div,
    "div": torch.mul,
}
_SAID = {"add": "subtracted", "sub": "added", "mul": "divided by", "div": "multiplied by"}
_RELATED: Mapping[str, tuple[tuple[str, Callable[[Tensor], Tensor]], ...]] = {
    "exp": (("exp2", torch.exp2), ("expm1", torch.expm1)),
    "exp2": (("exp", torch.exp),),
    "log": (("log2", torch.log2), ("log1p", torch.log1p), ("log10", torch.log10)),
    "log2": (("log", torch.log),),
    "round": (("trunc", torch.trunc), ("floor", torch.floor), ("ceil", torch.ceil)),
    "floor": (("trunc", torch.trunc), ("round", torch.round), ("ceil", torch.ceil)),
    "ceil": (("floor", torch.floor), ("round", torch.round)),
    "trunc": (("round", torch.round), ("floor", torch.floor)),
    "sqrt": (("rsqrt", torch.rsqrt),),
    "rsqrt": (("1 / x", torch.reciprocal), ("sqrt", torch.sqrt)),
    "sin": (("cos", torch.cos),),
    "cos": (("sin", torch.sin),),
    "sigmoid": (("tanh", torch.tanh), ("silu", torch.nn.functional.silu)),
    "tanh": (("sigmoid", torch.sigmoid),),
    "silu": (("sigmoid", torch.sigmoid), ("gelu", torch.nn.functional.gelu)),
    "relu": (("abs", torch.abs),),
    "erf": (("tanh", torch.tanh),),
}
_EXTREMES: Mapping[str, Any] = {"amax": torch.amin, "amin": torch.amax}
_ADDED: Mapping[str, Any] = {"index_add": torch.index_copy, "scatter_add": torch.scatter}


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of an operation's first argument.

    `guard` is the small number that was added to it last, `rooted` says that it is a square root.
    """

    guard: float | None = None
    rooted: bool = False


def suspects_of(  # noqa: C901, PLR0912  # a branch a kind of operation
    op: Any, args: Args, kwargs: Kwargs, *, before: Before
) -> Iterator[Fault]:
    """Yield the further faults that make sense for one recorded operation."""
    name = name_of(op)
    if name in _SIGNED and len(args) > 1:
        yield from _of_sign(name, args, before)
    if name in _RELATED and isinstance(args[0], Tensor):
        for other, function in _RELATED[name]:
            related = functools.partial(_instead, function=function)
            yield Fault("form", f"`{other}` for `{name}`", _ANY, related)
    if name in ("sqrt", "rsqrt") and before.guard is not None:
        guard = before.guard

        def outside(x: Tensor, guard: float) -> Tensor:
            root = torch.sqrt((x - guard).clamp_min(0.0)) + guard
            return root if name == "sqrt" else 1.0 / root

        where = f"rows whose mean square is near {guard:g} squared, or smaller"
        yield Fault(
            "epsilon", "epsilon outside of the root", where,
            lambda op, a, k: outside(a[0], guard), guarded=outside,
        )  # fmt: skip
    if name == "gelu":
        words = "erf of x instead of x over the root of two"
        yield Fault("operand", words, _ANY, lambda op, a, k: a[0] * 0.5 * (1 + torch.erf(a[0])))
    if name in _EXTREMES:
        extreme = _EXTREMES[name]
        words = f"`{extreme.__name__}` for `{name}`"
        yield Fault("form", words, _ANY, lambda op, a, k: extreme(*a, **k))
    if name in ("sum", "mean", "amax", "amin", "var") and isinstance(args[0], Tensor):
        yield from _of_rows(name, args)
    terms = weighted_terms(name, args, kwargs)
    for tile in _TILES if terms is not None else ():
        if terms is not None and terms.count(args) % tile:
            cut = functools.partial(terms.cut, count=functools.partial(_in_whole_tiles, tile=tile))
            words = f"last partial tile of {tile} left out"
            yield Fault("tile", words, f"lengths that are no multiple of {tile}", cut)
    if name in _ADDED and len(args) > 3:
        copied = functools.partial(_stored_over, store=_ADDED[name])
        words = "rows stored over each other instead of added"
        yield Fault("dropped", words, "indices that repeat", copied)
    yield from _of_masks(name, args)
    if name == "clamp_min" and isinstance(args[1], float) and 0 < args[1] <= _SMALL:
        for words, guarded in _GUARDED.items():
            kept = functools.partial(_instead_of_clamp, guarded=guarded)
            near = f"values near {args[1]:g}, or smaller"
            yield Fault("epsilon", f"epsilon {args[1]:g} {words}", near, kept)
    if name in ("_softmax", "_log_softmax"):
        words = "soft-max to the base of two"
        yield Fault("form", words, _ANY, lambda op, a, k: op(a[0] * math.log(2.0), *a[1:], **k))
    if name == "_log_softmax":
        words = "`log2` for the `log` of the sum"
        yield Fault("form", words, "sums other than one", _binary_log_of_sum)
    if name == "cumsum":
        words = "each sum without its own term"
        yield Fault("dropped", words, _ANY, lambda op, a, k: op(*a, **k) - a[0])
    if name in _NORMS:
        words = "epsilon outside of the root"
        yield Fault("epsilon", words, "rows of small variance", _guarded_outside)
        for factor, said in ((0.0, "left out"), (10.0, "ten times as large"), (100.0, "too large")):
            scaled = functools.partial(_last_scaled, factor=factor)
            yield Fault("epsilon", f"epsilon {said}", "rows of small variance", scaled)


def _instead_of_clamp(
    op: Any, args: Args, kwargs: Kwargs, *, guarded: Callable[[Tensor, float], Tensor]
) -> Tensor:
    return guarded(args[0], args[1])


def _of_masks(name: str, args: Args) -> Iterator[Fault]:
    """Yield masks a place off, and finite numbers for the minus infinity that hides scores."""
    if name in _LOSSES:
        yield from _of_ignored(args)
    if name not in ("masked_fill", "where") or len(args) < 3:
        return
    if name == "masked_fill" and isinstance(args[1], Tensor) and args[1].dim():
        for places, said in ((1, "later"), (-1, "earlier")):
            moved = functools.partial(_moved_mask, places=places)
            yield Fault("mask", f"mask one column {said}", "masks that end inside of rows", moved)
    hiding = [place for place in (1, 2) if _is_lowest(args[place])]
    for place, value in itertools.product(hiding, _LOWEST):
        shown_by = "scores whose largest one is not far above it"
        hidden = functools.partial(_with_hidden, place=place, value=value)
        yield Fault("constant", f"`{value:g}` for `-inf` behind the mask", shown_by, hidden)


def _is_lowest(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.is_floating_point() and value.numel() == 1 and bool((value == -math.inf).all())
    return isinstance(value, float) and value == -math.inf


def _with_hidden(op: Any, args: Args, kwargs: Kwargs, *, place: int, value: float) -> Any:
    lowest = torch.full_like(args[place], value) if isinstance(args[place], Tensor) else value
    return op(*args[:place], lowest, *args[place + 1 :], **kwargs)


def _of_ignored(args: Args) -> Iterator[Fault]:
    """Yield losses that count targets which are to be ignored: their terms, or their number."""
    shown_by = "targets of which some are to be ignored"

    def counted(op: Any, args: Args, kwargs: Kwargs) -> Any:
        scores, target, weight, reduction, ignored = args
        classes = scores.shape[1] if scores.dim() > 1 else scores.shape[0]
        kept = torch.where(target == ignored, target % classes, target)
        return op(scores, kept, weight, reduction, -classes - 1, **kwargs)

    yield Fault("mask", "targets counted that are to be ignored", shown_by, counted)

    def divided(op: Any, args: Args, kwargs: Kwargs) -> Any:
        loss, total = op(*args, **kwargs)
        return loss * total / args[1].numel(), total

    if args[2] is None and args[3] == _MEAN:
        words = "the mean over all targets, ignored ones too,"
        yield Fault("divisor", words, shown_by, divided)


def _instead(
    op: Any, args: Args, kwargs: Kwargs, *, function: Callable[[Tensor], Tensor]
) -> Tensor:
    return function(args[0])


def _stored_over(op: Any, args: Args, kwargs: Kwargs, *, store: Any) -> Any:
    return store(args[0], args[1], args[2], args[3].to(args[0].dtype))


def _of_rows(name: str, args: Args) -> Iterator[Fault]:
    """Yield reductions whose result is that of another row, or that lack a term."""

    def first_row(op: Any, args: Args, kwargs: Kwargs) -> Tensor:
        out = op(*args, **kwargs)
        axis = next((n for n, size in enumerate(out.shape) if size > 1), None)
        if axis is None:
            raise ValueError("the reduction has one result")
        first: Tensor = out.narrow(axis, 0, 1).expand_as(out).clone()
        return first

    yield Fault("neighbour", f"the first row's {name} for every row", "rows that differ", first_row)
    dims = args[1] if len(args) > 1 else None
    if name not in ("sum", "mean") or not isinstance(dims, list | tuple) or len(dims) != 1:
        return
    (axis,) = dims

    def without(op: Any, args: Args, kwargs: Kwargs, *, place: int) -> Tensor:
        x = args[0].clone()
        x.select(axis, place).zero_()
        result: Tensor = op(x, *args[1:], **kwargs)
        return result

    for place, said in ((0, "first"), (-1, "last")):
        missing = functools.partial(without, place=place)
        yield Fault("dropped", f"{said} term left out of the {name}", _ANY, missing)
    count = args[0].shape[axis]
    # A kernel has one number of terms, whatever their tile: the divisor stays that of all.
    for tile in _TILES:
        first = functools.partial(_first_terms, axis=axis, kept=functools.partial(min, tile))
        if count > tile:
            words = f"terms beyond the first {tile} left out of the {name}"
            yield Fault("dropped", words, f"more than {tile} terms", first)
        if count % tile:
            whole = functools.partial(
                _first_terms, axis=axis, kept=functools.partial(_in_whole_tiles, tile=tile)
            )
            words = f"last partial tile of {tile} left out of the {name}"
            yield Fault("tile", words, f"lengths that are no multiple of {tile}", whole)
        if name == "mean" and count != tile:
            words = f"divided by {tile}, whatever the number of terms"
            scaled = functools.partial(_divided_by, axis=axis, divisor=tile)
            yield Fault("divisor", words, f"lengths other than {tile}", scaled)


def _in_whole_tiles(count: int, *, tile: int) -> int:
    return count - count % tile


def _first_terms(
    op: Any, args: Args, kwargs: Kwargs, *, axis: int, kept: Callable[[int], int]
) -> Tensor:
    """Reduce with zeros for the terms from a place on."""
    x = args[0].clone()
    count = x.shape[axis]
    low = kept(count)
    x.narrow(axis, low, count - low).zero_()
    result: Tensor = op(x, *args[1:], **kwargs)
    return result


def _divided_by(op: Any, args: Args, kwargs: Kwargs, *, axis: int, divisor: int) -> Tensor:
    result: Tensor = op(*args, **kwargs) * (args[0].shape[axis] / divisor)
    return result


def _of_sign(name: str, args: Args, before: Before) -> Iterator[Fault]:
    """Yield an operation turned around, a factor used twice, and literals beside the right one."""
    second = args[1]
    if isinstance(second, Tensor):
        other = _SIGNED[name]
        words = f"right side {_SAID[name]}"
        yield Fault("form", words, _ANY, lambda op, a, k: other(a[0], a[1]))
        if name == "mul":
            twice = "right side of '*' used twice", "left side of '*' used twice"
            yield Fault("operand", twice[0], _ANY, lambda op, a, k: op(op(a[0], a[1]), a[1]))
            yield Fault("operand", twice[1], _ANY, lambda op, a, k: op(op(a[0], a[1]), a[0]))
        if second.dim() == 1 and second.numel() > 1 and args[0].dim() > 1:
            words = f"right side of '{SIGNS[name]}' laid along the other axis"
            yield Fault("neighbour", words, "values that differ along both axes", _other_axis)
        if name == "sub" and second.shape != torch.Size(()):
            yield Fault("form", "sides of '-' exchanged", _ANY, lambda op, a, k: op(a[1], a[0]))
        return
    if not isinstance(second, int | float) or isinstance(second, bool) or not second:
        return
    guards = name == "add" and abs(second) <= _SMALL
    if guards and before.rooted:
        words = f"epsilon {second:g} inside of the root"
        yield Fault(
            "epsilon", words, f"values near {second:g}",
            lambda op, a, k: torch.sqrt(a[0].square() + a[1]),
        )  # fmt: skip
    others = (100.0, 1e3, 0.1) if guards else (2.0, 0.5, math.sqrt(2.0), 1 / math.sqrt(2.0), -1.0)
    for factor in others:
        scaled = functools.partial(second_scaled, factor=factor)
        kind = "epsilon" if guards else "constant"
        words = f"`{second * factor:.6g}` for `{second:.6g}`"
        if guards:
            words = f"epsilon {factor:g} times as large"
        yield Fault(kind, words, "inputs at which it matters", scaled)
    # One over a size where one over its root is meant, and the other way around.
    for power, said in ((2.0, "square"), (0.5, "root")) if not guards and second > 0 else ():
        other_power = functools.partial(_second_to_the, power=power)
        yield Fault("constant", f"the {said} of `{second:.6g}` in its place", _ANY, other_power)
    for value in _GUARDS if guards else ():
        yield _with_literal(value, second, guards=True)
    if abs(second) > 1:
        yield _with_literal(second + 1, second, guards=False)
        yield _with_literal(second - 1, second, guards=False)
    elif not guards:  # such as a decay of 0.999, and the 0.001 that it leaves for the other term
        slower = 1 - 10 * (1 - second)
        yield _with_literal(slower if slower > 0.5 else 10 * second, second, guards=False)


def _other_axis(op: Any, args: Args, kwargs: Kwargs) -> Tensor:
    """Take the vector's element of the row where that of the column is meant."""
    rows = torch.arange(args[0].shape[-2], device=args[1].device)
    result: Tensor = op(args[0], args[1][rows % args[1].shape[0]].unsqueeze(-1))
    return result


def _with_literal(value: float, right: float, *, guards: bool) -> Fault:
    kind = "epsilon" if guards else "constant"
    words = f"`{value:.6g}` for `{right:.6g}`"
    where = "inputs at which the number matters"
    return Fault(kind, words, where, lambda op, a, k: op(a[0], value, *a[2:], **k))


def _second_to_the(op: Any, args: Args, kwargs: Kwargs, *, power: float) -> Any:
    return op(args[0], args[1] ** power, *args[2:], **kwargs)


def _guarded_outside(op: Any, args: Args, kwargs: Kwargs) -> tuple[Tensor, ...]:
    """Return the result of a fused norm whose epsilon is added to the deviation."""
    x, eps, weight, bias, dims = args[0], args[-1], *args[2:4], [-1]
    rows, shape = x, x.shape
    if name_of(op) == "native_group_norm":  # (input, weight, bias, N, C, HxW, group, eps)
        weight, bias = args[1:3]
        rows = x.reshape(args[3], args[6], -1)
        each = (1, -1, *[1] * (x.dim() - 2))
        weight, bias = (None if one is None else one.reshape(each) for one in (weight, bias))
    else:
        dims = list(range(x.dim() - len(args[1]), x.dim()))
    mean = rows.mean(dims, keepdim=True)
    rstd = 1.0 / ((rows - mean).square().mean(dims, keepdim=True).sqrt() + eps)
    out = ((rows - mean) * rstd).reshape(shape)
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), mean, rstd


def _moved_mask(op: Any, args: Args, kwargs: Kwargs, *, places: int) -> Any:
    mask = torch.roll(args[1], places, -1)
    edge = 0 if places > 0 else -1
    mask[..., edge] = args[1][..., edge]
    return op(args[0], mask, *args[2:], **kwargs)


def _binary_log_of_sum(op: Any, args: Args, kwargs: Kwargs) -> Tensor:
    moved: Tensor = args[0] - args[0].amax(args[1], keepdim=True)
    return moved - torch.log2(moved.exp().sum(args[1], keepdim=True))


def _last_scaled(op: Any, args: Args, kwargs: Kwargs, *, factor: float) -> Any:
    return op(*args[:-1], args[-1] * factor, **kwargs)
