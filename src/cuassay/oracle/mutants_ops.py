"""How one operation of a reference can be computed wrongly, as real kernels do.

Each fault is a function from the operation and its lifted arguments to the wrong result. They
are the faults of kernels that were seen in the wild: a step left out, one operand ignored, a
last tile dropped, a neighbour's row read, a low-precision accumulator, a wrong divisor.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from cuassay.oracle.mutants_sums import (
    Args,
    Kwargs,
    Wrong,
    accumulation,
    low_sum,
    name_of,
    without_last,
)

_KEPT = {"_to_copy", "clone", "copy", "lift_fresh", "fill", "zero", "_unsafe_view", "detach"}
_REDUCTIONS = {"sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp"}
_REDUCTIONS |= {"linalg_vector_norm"}
_GATHERS = {"gather", "embedding", "index", "index_select"}
_EPSILON = 1e-3  # literals up to this size guard against zero rather than carry meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A wrong way to compute an operation: its kind, in words, and what shows it."""

    kind: str
    words: str
    shown_by: str
    wrong: Wrong


def faults_of(op: Any, args: Args, kwargs: Kwargs, out: Any) -> Iterator[Fault]:
    """Yield the faults that make sense for one recorded operation."""
    name = name_of(op)
    if name in ("add", "sub", "mul", "div"):
        yield from _operands(name, args)
    elif name == "where" and len(args) == 3:
        yield _mask(lambda op, a, k: torch.broadcast_to(a[1], _shape(a)))
    elif name == "masked_fill":
        yield _mask(lambda op, a, k: a[0].clone())
    elif name in _GATHERS:
        yield _neighbour()
    elif (terms := accumulation(name, args, kwargs)) is not None:
        yield _dropped(terms.dropped)
        yield _low(terms.low)
    elif name in _REDUCTIONS or (name == "max" and isinstance(out, tuple)):
        yield from _reductions(name, args)
    elif _is_unary(name, args, kwargs, out):
        yield _bypass(name)
    if name in ("_softmax", "_safe_softmax"):
        yield from _softmax()
    if name == "native_layer_norm":
        yield _layer_norm()


def _operands(name: str, args: Args) -> Iterator[Fault]:
    second = args[1]
    if _is_number(second, 1 if name in ("mul", "div") else 0):
        return  # neutral: nobody could tell
    if isinstance(second, float) and name == "add" and 0 < abs(second) <= _EPSILON:
        yield Fault(
            kind="epsilon",
            words=f"epsilon {second:g} ten times as large",
            shown_by=f"inputs whose guarded quantity is near {second:g}",
            wrong=lambda op, a, k: op(a[0], a[1] * 10, *a[2:], **k),
        )
        return
    sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}[name]
    yield Fault(
        kind="operand",
        words=f"right side of '{sign}' ignored",
        shown_by="inputs at which the right side is far from neutral",
        wrong=lambda op, a, k: torch.broadcast_to(a[0], _shape(a)).clone(),
    )
    if isinstance(second, torch.Tensor) and name in ("add", "mul"):
        yield Fault(
            kind="operand",
            words=f"left side of '{sign}' ignored",
            shown_by="inputs at which the left side is far from neutral",
            wrong=lambda op, a, k: torch.broadcast_to(a[1], _shape(a)).to(a[0].dtype).clone(),
        )


def _shape(args: Args) -> torch.Size:
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return torch.broadcast_tensors(*tensors)[0].shape  # type: ignore[no-untyped-call, no-any-return]


def _mask(wrong: Wrong) -> Fault:
    return Fault(
        kind="mask",
        words="mask ignored",
        shown_by="masks that are neither all true nor all false",
        wrong=wrong,
    )


def _neighbour() -> Fault:
    return Fault(
        kind="neighbour",
        words="neighbouring row read",
        shown_by="rows that differ from their neighbours",
        wrong=lambda op, a, k: torch.roll(op(*a, **k), 1, 0),
    )


def _reductions(name: str, args: Args) -> Iterator[Fault]:
    axis = _axis(name, args)
    if args[0].dim() == 0 or args[0].shape[axis] < 2:
        return
    yield _dropped(lambda op, a, k: op(without_last(a[0], axis), *a[1:], **k))
    if name in ("mean", "var"):
        yield Fault(
            kind="divisor",
            words="divided by n - 1" if name == "mean" else "divided by the other of n and n - 1",
            shown_by="short reductions, or many equal rows",
            wrong=_divisor,
        )
    if name in ("sum", "mean"):
        yield _low(functools.partial(low_sum, axis=axis))
    if name in ("amax", "max"):
        yield Fault(
            kind="shift",
            words="maximum taken as 0, so that nothing is subtracted before exp",
            shown_by="values beyond 88, where exp overflows float32",
            wrong=_no_maximum,
        )


def _axis(name: str, args: Args) -> int:
    """Return the last reduced axis of a reduction's arguments (-1 where it reduces all)."""
    place = 2 if name == "linalg_vector_norm" else 1  # behind the norm's order
    dims = args[place] if len(args) > place else None
    if isinstance(dims, list | tuple) and dims:
        return int(dims[-1])
    return dims if isinstance(dims, int) and not isinstance(dims, bool) else -1


def _divisor(op: Any, args: Args, kwargs: Kwargs) -> Any:
    n = args[0].shape[_axis(name_of(op), args)]
    unbiased = name_of(op) == "var" and kwargs.get("correction", 1) != 0
    return op(*args, **kwargs) * ((n - 1) / n if unbiased else n / (n - 1))


def _no_maximum(op: Any, args: Args, kwargs: Kwargs) -> Any:
    """Zero, or NaN where exp without the shift would leave float32's range."""
    out = op(*args, **kwargs)
    top = out if isinstance(out, torch.Tensor) else out[0]
    zero = torch.where(top.abs() < 88.0, 0.0, float("nan")).to(top.dtype)
    return zero if isinstance(out, torch.Tensor) else (zero, *out[1:])


def _softmax() -> Iterator[Fault]:
    def no_shift(op: Any, args: Args, kwargs: Kwargs) -> Any:
        e = torch.exp(args[0].clamp(max=700.0))
        return torch.where(args[0] > 88.0, float("inf"), e) / e.sum(args[1], keepdim=True)

    def shortened(op: Any, args: Args, kwargs: Kwargs) -> Any:
        p = op(*args, **kwargs)
        return p / without_last(p, args[1]).sum(args[1], keepdim=True)

    yield Fault(
        kind="shift",
        words="no maximum subtracted before exp",
        shown_by="logits beyond 88, where exp overflows float32",
        wrong=no_shift,
    )
    yield _dropped(shortened)


def _layer_norm() -> Fault:
    def biased(op: Any, args: Args, kwargs: Kwargs) -> Any:
        x, (n, *_), weight, bias, eps = args[0], args[1], *args[2:5]
        centred = x - x.mean(-1, keepdim=True)
        rstd = torch.rsqrt(centred.square().sum(-1, keepdim=True) / max(n - 1, 1) + eps)
        out = centred * rstd * (1.0 if weight is None else weight)
        return out + (0.0 if bias is None else bias), x.mean(-1, keepdim=True), rstd

    return Fault(
        kind="divisor",
        words="variance divided by n - 1",
        shown_by="short rows, or many of them",
        wrong=biased,
    )


def _is_unary(name: str, args: Args, kwargs: Kwargs, out: Any) -> bool:
    values = [*args, *kwargs.values()]
    tensors = [v for v in values if isinstance(v, torch.Tensor)]
    return (
        name not in _KEPT
        and not name.startswith("new_")
        and not name.endswith("_like")
        and not (name == "pow" and _is_number(args[1], 1))
        and len(tensors) == 1
        and isinstance(args[0], torch.Tensor)
        and isinstance(out, torch.Tensor)
        and out.is_floating_point()
        and out.shape == tensors[0].shape
        and out.dtype == tensors[0].dtype
    )


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, int | float) and value == number


def _bypass(name: str) -> Fault:
    return Fault(
        kind="bypass",
        words=f"{name.strip('_')} left out",
        shown_by=f"values at which {name.strip('_')} is far from the identity (larger ones)",
        wrong=lambda op, a, k: a[0].clone(),
    )


def _dropped(wrong: Wrong) -> Fault:
    return Fault(
        kind="dropped",
        words="last term of the reduction dropped",
        shown_by="a last term that carries weight (one-hot, outliers)",
        wrong=wrong,
    )


def _low(wrong: Wrong) -> Fault:
    return Fault(
        kind="low",
        words="accumulated in bfloat16",
        shown_by="longer reductions, hot indices, same-sign and zero-mean values",
        wrong=wrong,
    )
