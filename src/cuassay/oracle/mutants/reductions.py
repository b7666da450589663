"""Faults of reductions along an axis, of soft-max and of layer normalisation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from cuassay.oracle.mutants.faults import Fault, dropped, first_slices, low, tiles
from cuassay.oracle.mutants.sums import Args, Kwargs, Wrong, low_sum, name_of, without_last

REDUCTIONS = {"sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp"}
REDUCTIONS |= {"linalg_vector_norm"}
_PADDED = 64  # a mean divided by its padded length is divided by a multiple of this
_WIDE = 88.0  # exp overflows float32 beyond it
_OVERFLOW = f"values beyond {_WIDE:g}, where exp overflows float32"


def reduction_faults(name: str, args: Args, out: Any) -> Iterator[Fault]:
    """Yield the faults of one reduction of ATen name `name`."""
    axis = axis_of(name, args)
    if args[0].dim() == 0 or args[0].shape[axis] < 2:
        return
    yield dropped(lambda op, a, k: op(without_last(a[0], axis), *a[1:], **k))
    yield from tiles(lambda count: _cut(axis, count))
    if name in ("mean", "var", "sum"):
        yield from _scales(name)
    if name in ("sum", "mean"):
        yield from low(lambda dtype: functools.partial(low_sum, axis=axis, dtype=dtype))
    if name in ("amax", "max"):
        words = "maximum taken as 0, so that nothing is subtracted before exp"
        yield Fault("shift", words, _OVERFLOW, _no_maximum)
    other = _other_axis(name, args, axis)
    if other is not None and isinstance(out, torch.Tensor):
        words = f"reduced along axis {other} instead of {axis % args[0].dim()}"
        along = functools.partial(_along, other=other)
        yield Fault("axis", words, "values that differ along both axes", along)


def _cut(axis: int, count: Callable[[int], int]) -> Wrong:
    def wrong(op: Any, args: Args, kwargs: Kwargs) -> Any:
        x = args[0]
        return op(first_slices(x, axis, count(x.shape[axis])), *args[1:], **kwargs)

    return wrong


def _scales(name: str) -> Iterator[Fault]:
    many = "short reductions, or many equal rows"
    if name != "sum":
        words = "divided by n - 1" if name == "mean" else "divided by the other of n and n - 1"
        yield Fault("divisor", words, many, _divisor)
    if name == "mean":
        words = f"divided by the length padded to a multiple of {_PADDED}"
        yield Fault("divisor", words, f"lengths that are no multiple of {_PADDED}", _padded)
    if name in ("mean", "sum"):
        words = "not divided by n" if name == "mean" else "divided by n"
        yield Fault("divisor", words, "any varied input", _rescaled)


def axis_of(name: str, args: Args) -> int:
    """Return the last reduced axis of a reduction's arguments (-1 where it reduces all)."""
    dims = _dims(name, args)
    if isinstance(dims, list | tuple) and dims:
        return int(dims[-1])
    return dims if isinstance(dims, int) and not isinstance(dims, bool) else -1


def _dims(name: str, args: Args) -> Any:
    place = 2 if name == "linalg_vector_norm" else 1  # behind the norm's order
    return args[place] if len(args) > place else None


def _other_axis(name: str, args: Args, axis: int) -> int | None:
    """Return another axis of some length where exactly one is reduced, nearest to its left."""
    dims = _dims(name, args)
    shape = args[0].shape
    if not isinstance(dims, list | tuple) or len(dims) != 1:
        return None
    own = axis % len(shape)
    return next((d for d in reversed(range(len(shape))) if d != own and shape[d] > 1), None)


def _along(op: Any, args: Args, kwargs: Kwargs, *, other: int) -> Any:
    """Reduce along another axis and lay the result out as wrong strides would read it."""
    right = op(*args, **kwargs)
    place = 2 if name_of(op) == "linalg_vector_norm" else 1
    changed = [*args[:place], [other], *args[place + 1 :]]
    wrong = op(*changed, **kwargs).reshape(-1)
    places = torch.arange(right.numel(), device=right.device) % wrong.numel()
    return wrong[places].reshape(right.shape).to(right.dtype)


def _length(op: Any, args: Args) -> int:
    """Return how many terms each result of a reduction has."""
    dims, count = _dims(name_of(op), args), 1
    if not isinstance(dims, list | tuple) or not dims:
        return int(args[0].numel())
    for dim in dims:
        count *= args[0].shape[dim]
    return count


def _divisor(op: Any, args: Args, kwargs: Kwargs) -> Any:
    n = _length(op, args)
    unbiased = name_of(op) == "var" and kwargs.get("correction", 1) != 0
    return op(*args, **kwargs) * ((n - 1) / n if unbiased else n / max(n - 1, 1))


def _padded(op: Any, args: Args, kwargs: Kwargs) -> Any:
    n = _length(op, args)
    return op(*args, **kwargs) * (n / (-(-n // _PADDED) * _PADDED))


def _rescaled(op: Any, args: Args, kwargs: Kwargs) -> Any:
    n = _length(op, args)
    return op(*args, **kwargs) * (n if name_of(op) == "mean" else 1 / n)


def _no_maximum(op: Any, args: Args, kwargs: Kwargs) -> Any:
    """Zero, or NaN where exp without the shift would leave float32's range."""
    out = op(*args, **kwargs)
    top = out if isinstance(out, torch.Tensor) else out[0]
    zero = torch.where(top.abs() < _WIDE, 0.0, float("nan")).to(top.dtype)
    return zero if isinstance(out, torch.Tensor) else (zero, *out[1:])


def softmax_faults(args: Args) -> Iterator[Fault]:
    """Yield the faults of a soft-max: no shift, terms missing from the normaliser, an axis."""

    def no_shift(op: Any, args: Args, kwargs: Kwargs) -> Any:
        e = torch.exp(args[0].clamp(max=700.0))
        return torch.where(args[0] > _WIDE, float("inf"), e) / e.sum(args[1], keepdim=True)

    def over(count: Callable[[int], int]) -> Wrong:
        def wrong(op: Any, args: Args, kwargs: Kwargs) -> Any:
            p = op(*args, **kwargs)
            return p / first_slices(p, args[1], count(p.shape[args[1]])).sum(args[1], keepdim=True)

        return wrong

    words = "no maximum subtracted before exp"
    yield Fault("shift", words, _OVERFLOW, no_shift)
    yield dropped(over(lambda count: count - 1))
    yield from tiles(over)
    dim, shape = args[1] % max(args[0].dim(), 1), args[0].shape
    other = next((d for d in reversed(range(len(shape))) if d != dim and shape[d] > 1), None)
    if other is not None:
        yield Fault(
            "axis", f"soft-max along axis {other} instead of {dim}",
            "values that differ along both axes", lambda op, a, k: op(a[0], other, *a[2:], **k),
        )  # fmt: skip


def layer_norm_faults() -> Iterator[Fault]:
    """Yield the faults of a layer normalisation's own statistics."""

    def of(count: Callable[[int], int], less: int) -> Wrong:
        def wrong(op: Any, args: Args, kwargs: Kwargs) -> Any:
            x, weight, bias, eps = args[0], *args[2:5]
            part = first_slices(x, -1, count(x.shape[-1]))
            mean = part.mean(-1, keepdim=True)
            spread = (part - mean).square().sum(-1, keepdim=True)
            rstd = torch.rsqrt(spread / max(part.shape[-1] - less, 1) + eps)
            out = (x - mean) * rstd * (1.0 if weight is None else weight)
            return out + (0.0 if bias is None else bias), mean, rstd

        return wrong

    many = "short rows, or many of them"
    yield Fault("divisor", "variance divided by n - 1", many, of(lambda count: count, 1))
    yield from tiles(lambda count: of(count, 0))
