"""Faults that rejected kernels turn out to have, beside those that a power test asks for.

A diagnosis compares wrong answers with every one of them. A trial's power leaves them out: they
are many, and inputs that tell the faults of `faults` apart tell most of these apart too.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cuassay.oracle.mutants.faults import (
    SIGNS,
    Args,
    Fault,
    Kwargs,
    Wrong,
    changed,
    name_of,
    weighted_terms,
)
from cuassay.tables import row

_SMALL = 1e-2  # a literal up to this size that is added guards a root or a quotient
_GUARDS = (1e-3, 1e-5, 1e-6, 1e-8, 1e-12)  # that kernels hold in the place of an argument
_TILES = (16, 32, 64, 128, 256, 512, 1024)  # of kernels that have one tile for every size
_ANY = "any varied input"
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
_TERMS = ("sum", "mean")
_ADDED: Mapping[str, Any] = {"index_add": torch.index_copy, "scatter_add": torch.scatter}


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of an operation's first argument.

    `guard` is the small number that was added to it last, `rooted` says that it is a square root.
    """

    guard: float | None = None
    rooted: bool = False


_Suspects: TypeAlias = Callable[[str, Args, Before], Iterator[Fault]]
_OF: dict[str, _Suspects] = {}  # the operations that have suspects of their own, by name


def suspects_of(op: Any, args: Args, kwargs: Kwargs, *, before: Before) -> Iterator[Fault]:
    """Yield the further faults that make sense for one recorded operation."""
    name = name_of(op)
    if name in _RELATED and isinstance(args[0], Tensor):
        for other, related in _RELATED[name]:
            words = f"`{other}` for `{name}`"
            yield Fault(
                "form",
                words,
                _ANY,
                functools.partial(lambda op, a, k, related: related(a[0]), related=related),
            )
    terms = weighted_terms(name, args, kwargs)
    if terms is not None:
        for tile in _TILES:
            if terms.count(args) % tile:
                yield Fault(
                    "tile", f"last partial tile of {tile} left out",
                    f"lengths that are no multiple of {tile}",
                    functools.partial(terms.cut, count=functools.partial(_in_whole_tiles, tile)),
                )  # fmt: skip
    if name in _OF:
        yield from _OF[name](name, args, before)


def _in_whole_tiles(tile: int, count: int) -> int:
    return count - count % tile


@row(_OF, *_SIGNED)
def _of_sign(name: str, args: Args, before: Before) -> Iterator[Fault]:
    """Yield an operation turned around, a factor used twice, and literals beside the right one."""
    second = args[1] if len(args) > 1 else None
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
    kind = "epsilon" if guards else "constant"
    if guards and before.rooted:
        words = f"epsilon {second:g} inside of the root"
        yield Fault(
            "epsilon", words, f"values near {second:g}",
            lambda op, a, k: torch.sqrt(a[0].square() + a[1]),
        )  # fmt: skip
    others = (100.0, 1e3, 0.1) if guards else (2.0, 0.5, math.sqrt(2.0), 1 / math.sqrt(2.0), -1.0)
    for factor in others:
        words = f"`{second * factor:.6g}` for `{second:.6g}`"
        if guards:
            words = f"epsilon {factor:g} times as large"
        yield Fault(
            kind, words, "inputs at which it matters",
            changed(1, functools.partial(operator.mul, factor)),
        )  # fmt: skip
    # One over a size where one over its root is meant, and the other way around.
    for power, said in ((2.0, "square"), (0.5, "root")) if not guards and second > 0 else ():
        yield Fault(
            "constant", f"the {said} of `{second:.6g}` in its place", _ANY,
            changed(1, functools.partial(pow, exp=power)),
        )  # fmt: skip
    literals: list[float] = list(_GUARDS) if guards else []
    if abs(second) > 1:
        literals += [second + 1, second - 1]
    elif not guards:  # such as a decay of 0.999, and the 0.001 that it leaves for the other term
        slower = 1 - 10 * (1 - second)
        literals.append(slower if slower > 0.5 else 10 * second)
    for value in literals:
        yield Fault(
            kind, f"`{value:.6g}` for `{second:.6g}`", "inputs at which the number matters",
            changed(1, functools.partial(lambda value, _: value, value)),
        )  # fmt: skip


def _other_axis(op: Any, args: Args, kwargs: Kwargs) -> Any:
    """Take the vector's element of the row where that of the column is meant."""
    rows = torch.arange(args[0].shape[-2], device=args[1].device)
    return op(args[0], args[1][rows % args[1].shape[0]].unsqueeze(-1))


@row(_OF, "sqrt", "rsqrt")
def _of_roots(name: str, args: Args, before: Before) -> Iterator[Fault]:
    if before.guard is None:
        return
    guard = before.guard

    def outside(x: Tensor, guard: float) -> Tensor:
        root = torch.sqrt((x - guard).clamp_min(0.0)) + guard
        return root if name == "sqrt" else 1.0 / root

    where = f"rows whose mean square is near {guard:g} squared, or smaller"
    yield Fault(
        "epsilon", "epsilon outside of the root", where,
        lambda op, a, k: outside(a[0], guard), guarded=outside,
    )  # fmt: skip


@row(_OF, "gelu")
def _of_gelu(name: str, args: Args, before: Before) -> Iterator[Fault]:
    words = "erf of x instead of x over the root of two"
    yield Fault("operand", words, _ANY, lambda op, a, k: a[0] * 0.5 * (1 + torch.erf(a[0])))


@row(_OF, *_TERMS, *_EXTREMES, "var")
def _of_rows(name: str, args: Args, before: Before) -> Iterator[Fault]:
    """Yield reductions whose result is that of another row, or that lack a term."""
    if name in _EXTREMES:
        extreme = _EXTREMES[name]
        words = f"`{extreme.__name__}` for `{name}`"
        yield Fault("form", words, _ANY, lambda op, a, k: extreme(*a, **k))
    if not isinstance(args[0], Tensor):
        return

    def first_row(op: Any, args: Args, kwargs: Kwargs) -> Tensor:
        out = op(*args, **kwargs)
        axis = next((n for n, size in enumerate(out.shape) if size > 1), None)
        if axis is None:
            raise ValueError("the reduction has one result")
        first: Tensor = out.narrow(axis, 0, 1).expand_as(out).clone()
        return first

    yield Fault("neighbour", f"the first row's {name} for every row", "rows that differ", first_row)
    dims = args[1] if len(args) > 1 else None
    if name not in _TERMS or not isinstance(dims, list | tuple) or len(dims) != 1:
        return
    (axis,) = dims
    count = args[0].shape[axis]

    def without(zeros: Callable[[int], range]) -> Wrong:
        """Return the reduction with zeros for some of its terms."""

        def reduced(op: Any, args: Args, kwargs: Kwargs) -> Any:
            x = args[0].clone()
            places = zeros(x.shape[axis])
            x.narrow(axis, places.start, len(places)).zero_()
            return op(x, *args[1:], **kwargs)

        return reduced

    def divided(op: Any, args: Args, kwargs: Kwargs, *, tile: int) -> Any:
        return op(*args, **kwargs) * (args[0].shape[axis] / tile)

    first, last = without(lambda n: range(1)), without(lambda n: range(n - 1, n))
    yield Fault("dropped", f"first term left out of the {name}", _ANY, first)
    yield Fault("dropped", f"last term left out of the {name}", _ANY, last)
    # A kernel has one number of terms, whatever their tile: the divisor stays that of all.
    for tile in _TILES:
        if count > tile:
            beyond = without(functools.partial(lambda n, tile: range(min(tile, n), n), tile=tile))
            words = f"terms beyond the first {tile} left out of the {name}"
            yield Fault("dropped", words, f"more than {tile} terms", beyond)
        if count % tile:
            partial = without(
                functools.partial(lambda n, tile: range(_in_whole_tiles(tile, n), n), tile=tile)
            )
            words = f"last partial tile of {tile} left out of the {name}"
            yield Fault("tile", words, f"lengths that are no multiple of {tile}", partial)
        if name == "mean" and count != tile:
            yield Fault(
                "divisor", f"divided by {tile}, whatever the number of terms",
                f"lengths other than {tile}",
                functools.partial(divided, tile=tile),
            )  # fmt: skip


@row(_OF, *_ADDED)
def _of_added_rows(name: str, args: Args, before: Before) -> Iterator[Fault]:
    if len(args) > 3:
        store = _ADDED[name]
        yield Fault(
            "dropped", "rows stored over each other instead of added", "indices that repeat",
            lambda op, a, k: store(a[0], a[1], a[2], a[3].to(a[0].dtype)),
        )  # fmt: skip


@row(_OF, "masked_fill", "where")
def _of_masks(name: str, args: Args, before: Before) -> Iterator[Fault]:
    """Yield masks a place off, and finite numbers for the minus infinity that hides scores."""
    if len(args) < 3:
        return

    def moved(op: Any, args: Args, kwargs: Kwargs, *, places: int) -> Any:
        mask = torch.roll(args[1], places, -1)
        edge = 0 if places > 0 else -1
        mask[..., edge] = args[1][..., edge]
        return op(args[0], mask, *args[2:], **kwargs)

    if name == "masked_fill" and isinstance(args[1], Tensor) and args[1].dim():
        for places, said in ((1, "later"), (-1, "earlier")):
            one_off = functools.partial(moved, places=places)
            yield Fault("mask", f"mask one column {said}", "masks that end inside of rows", one_off)

    def lowest(value: float, hidden: Any) -> Any:
        return torch.full_like(hidden, value) if isinstance(hidden, Tensor) else value

    for place, value in itertools.product((1, 2), _LOWEST):
        hiding = args[place]
        if isinstance(hiding, Tensor) and hiding.is_floating_point() and hiding.numel() == 1:
            hiding = float(hiding)
        if isinstance(hiding, float) and hiding == -math.inf:
            shown_by = "scores whose largest one is not far above it"
            wrong = changed(place, functools.partial(lowest, value))
            yield Fault("constant", f"`{value:g}` for `-inf` behind the mask", shown_by, wrong)


@row(_OF, "nll_loss_forward", "nll_loss2d_forward")
def _of_losses(name: str, args: Args, before: Before) -> Iterator[Fault]:
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


@row(_OF, "clamp_min")
def _of_guards(name: str, args: Args, before: Before) -> Iterator[Fault]:
    if isinstance(args[1], float) and 0 < args[1] <= _SMALL:
        for words, guarded in _GUARDED.items():
            yield Fault(
                "epsilon", f"epsilon {args[1]:g} {words}", f"values near {args[1]:g}, or smaller",
                functools.partial(lambda op, a, k, guarded: guarded(a[0], a[1]), guarded=guarded),
            )  # fmt: skip


@row(_OF, "_softmax", "_log_softmax")
def _of_soft_max(name: str, args: Args, before: Before) -> Iterator[Fault]:
    words = "soft-max to the base of two"
    yield Fault("form", words, _ANY, changed(0, lambda x: x * math.log(2.0)))

    def binary(op: Any, args: Args, kwargs: Kwargs) -> Tensor:
        moved: Tensor = args[0] - args[0].amax(args[1], keepdim=True)
        return moved - torch.log2(moved.exp().sum(args[1], keepdim=True))

    if name == "_log_softmax":
        yield Fault("form", "`log2` for the `log` of the sum", "sums other than one", binary)


@row(_OF, "cumsum")
def _of_running_sums(name: str, args: Args, before: Before) -> Iterator[Fault]:
    words = "each sum without its own term"
    yield Fault("dropped", words, _ANY, lambda op, a, k: op(*a, **k) - a[0])


@row(_OF, "native_layer_norm", "native_group_norm")
def _of_norms(name: str, args: Args, before: Before) -> Iterator[Fault]:
    def outside(op: Any, args: Args, kwargs: Kwargs) -> tuple[Tensor, ...]:
        x, eps, weight, bias, dims = args[0], args[-1], *args[2:4], [-1]
        rows, shape = x, x.shape
        if name == "native_group_norm":  # (input, weight, bias, N, C, HxW, group, eps)
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

    small = "rows of small variance"
    yield Fault("epsilon", "epsilon outside of the root", small, outside)
    for factor, said in ((0.0, "left out"), (10.0, "ten times as large"), (100.0, "too large")):
        yield Fault(
            "epsilon", f"epsilon {said}", small,
            changed(-1, functools.partial(operator.mul, factor)),
        )  # fmt: skip
