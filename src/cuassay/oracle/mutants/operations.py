"""How one operation of a reference can be computed wrongly, as real kernels do.

Each fault is a function from the operation and its lifted arguments to the wrong result. They
are the faults of kernels that were seen in the wild: a step left out, one operand ignored or
rounded, a last tile dropped, a neighbour's row read, a low-precision accumulator, a wrong
divisor.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

from cuassay.oracle.mutants.faults import (
    ROUNDINGS,
    Fault,
    Round,
    broadcast_shape,
    bypass,
    dropped,
    equals_number,
    low,
    tiles,
)
from cuassay.oracle.mutants.reductions import (
    REDUCTIONS,
    layer_norm_faults,
    reduction_faults,
    softmax_faults,
)
from cuassay.oracle.mutants.sums import Args, Kwargs, accumulation, name_of

__all__ = ["Fault", "constant_of", "faults_of", "replaced_constant"]

_KEPT = {"_to_copy", "clone", "copy", "lift_fresh", "fill", "zero", "_unsafe_view", "detach"}
_GATHERS = {"gather", "embedding", "index", "index_select"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}  # where the two factors begin
_SCALED = 2.0**18  # takes ordinary values out of float16's range, and changes no fraction
_MASKS = "masks that are neither all true nor all false"
_EPSILON = 1e-3  # literals up to this size guard against zero rather than carry meaning


def faults_of(
    op: Any, args: Args, kwargs: Kwargs, out: Any, *, as_written: Round
) -> Iterator[Fault]:
    """Yield the faults that make sense for one recorded operation.

    `as_written` gives an argument with the 16-bit rounding that the reference itself makes.
    """
    name = name_of(op)
    if name in _SIGNS:
        yield from _operands(name, args)
    elif name == "where" and len(args) == 3:
        read = torch.broadcast_to
        yield Fault("mask", "mask ignored", _MASKS, lambda op, a, k: read(a[1], broadcast_shape(a)))
    elif name == "masked_fill":
        yield Fault("mask", "mask ignored", _MASKS, lambda op, a, k: a[0].clone())
    elif name in _GATHERS:
        yield Fault(
            "neighbour", "neighbouring row read", "rows that differ from their neighbours",
            lambda op, a, k: torch.roll(op(*a, **k), 1, 0),
        )  # fmt: skip
    elif (terms := accumulation(name, args, kwargs)) is not None:
        yield dropped(terms.dropped)
        yield from low(terms.low)
        yield from tiles(terms.first)
    elif name in REDUCTIONS or (name == "max" and isinstance(out, tuple)):
        yield from reduction_faults(name, args, out)
    elif _is_unary(name, args, kwargs, out):
        yield bypass(name)
    if name in ("_softmax", "_safe_softmax"):
        yield from softmax_faults(args)
    if name == "native_layer_norm":
        yield from layer_norm_faults()
    yield from _casts(name, args, as_written)


def _operands(name: str, args: Args) -> Iterator[Fault]:
    second, sign = args[1], _SIGNS[name]
    if equals_number(second, 1 if name in ("mul", "div") else 0):
        return  # neutral: nobody could tell
    if isinstance(second, float) and name == "add" and 0 < abs(second) <= _EPSILON:
        near = f"inputs whose guarded quantity is near {second:g}"
        for words, factor in (("ten times as large", 10.0), ("left out", 0.0)):
            wrong = functools.partial(_scaled, factor=factor)
            yield Fault("epsilon", f"epsilon {second:g} {words}", near, wrong)
        return
    yield Fault(
        "operand", f"right side of '{sign}' ignored",
        "inputs at which the right side is far from neutral",
        lambda op, a, k: torch.broadcast_to(a[0], broadcast_shape(a)).clone(),
    )  # fmt: skip
    if isinstance(second, torch.Tensor):
        neutral = 1.0 if name in ("mul", "div") else 0.0
        yield Fault(
            "operand", f"left side of '{sign}' ignored",
            "inputs at which the left side is far from neutral",
            lambda op, a, k: op(torch.full(broadcast_shape(a), neutral).to(a[0]), a[1], **k),
        )  # fmt: skip
    elif isinstance(second, int | float) and not isinstance(second, bool):
        yield replaced_constant(name, second * 1.01, f"constant {second:g} one percent off")


def _scaled(op: Any, args: Args, kwargs: Kwargs, *, factor: float) -> Any:
    return op(args[0], args[1] * factor, *args[2:], **kwargs)


def constant_of(op: Any, args: Args) -> float | None:
    """Return the literal that an operation adds or multiplies by, where it carries meaning."""
    name = name_of(op)
    if name not in _SIGNS or not isinstance(args[1], int | float) or isinstance(args[1], bool):
        return None
    neutral = equals_number(args[1], 1 if name in ("mul", "div") else 0)
    return None if neutral or abs(args[1]) <= _EPSILON else float(args[1])


def replaced_constant(name: str, value: float, words: str) -> Fault:
    """Return the fault that uses `value` for an operation's literal."""
    shown_by = "inputs at which the constant matters"
    return Fault("constant", words, shown_by, lambda op, a, k: op(a[0], value, *a[2:], **k))


def _casts(name: str, args: Args, as_written: Round) -> Iterator[Fault]:
    """Yield roundings of one operand, where the recorded values would change by them.

    Factors of a product are rounded to each lower precision, operands of other operations
    to bfloat16: a kernel that keeps an intermediate in the type of its inputs.
    """
    held = [as_written(a) if isinstance(a, torch.Tensor) else a for a in args]
    if name in _PRODUCTS:
        first = _PRODUCTS[name]
        for side, place in (("left", first), ("right", first + 1)):
            for format_name, rounding in ROUNDINGS:
                yield from _cast(held, place, f"{side} factor", format_name, rounding)
    elif name in _SIGNS:
        for side, place in (("left", 0), ("right", 1)):
            what = f"{side} side of '{_SIGNS[name]}'"
            yield from _cast(held, place, what, *ROUNDINGS[0])
    elif name in REDUCTIONS:
        yield from _cast(held, 0, "terms of the reduction", *ROUNDINGS[0])


def _cast(args: Args, place: int, what: str, format_name: str, rounding: Round) -> Iterator[Fault]:
    value = args[place]
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.dim():
        return
    if all(torch.equal(rounding(x), x) for x in (value, value * _SCALED)):
        return  # it has that precision already, and so would larger values

    def wrong(op: Any, args: Args, kwargs: Kwargs) -> Any:
        return op(*args[:place], rounding(args[place]), *args[place + 1 :], **kwargs)

    shown_by = f"values beyond {format_name}'s range or with more bits than it; cancellation"
    yield Fault("cast", f"{what} rounded to {format_name}", shown_by, wrong)


def _is_unary(name: str, args: Args, kwargs: Kwargs, out: Any) -> bool:
    values = [*args, *kwargs.values()]
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    return (
        name not in _KEPT
        and not name.startswith("new_")
        and not name.endswith("_like")
        and not (name == "pow" and equals_number(args[1], 1))
        and len(tensors) == 1
        and isinstance(args[0], torch.Tensor)
        and isinstance(out, torch.Tensor)
        and out.is_floating_point()
        and out.shape == tensors[0].shape
        and out.dtype == tensors[0].dtype
    )
