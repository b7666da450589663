"""Mutants that need no reference: trivial answers, and outputs of an earlier call left in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from cuassay.oracle.lift.run import Value
from cuassay.oracle.mutants.inputs import row_zero
from cuassay.oracle.mutants.kinds import Implementation, Mutant, Outputs

_SHOWN_BY = "any varied input"


def answers(right: Implementation, inputs_list: Sequence[Sequence[Value]]) -> Iterator[Mutant]:
    """Yield every trivial and every stale answer."""
    trivial: list[tuple[str, Implementation]] = [
        ("zeros returned", _every(right, torch.zeros_like)),
        ("ones returned", _every(right, torch.ones_like)),
        ("a constant returned", _every(right, _constant)),
        ("the negative returned", _every(right, lambda y: ~y if y.dtype is torch.bool else -y)),
        ("the first row repeated", _every(right, _first_row)),
        ("the first column broadcast", _every(right, _first_column)),
        (
            "an input returned",
            lambda inputs: tuple(_same_shape(out, inputs) for out in right(inputs)),
        ),
    ]
    for words, run in trivial:
        yield Mutant("trivial answer", words, _SHOWN_BY, run)

    def previous(inputs: Sequence[Value]) -> Outputs:
        found = next((other for other in inputs_list if _same_call(inputs, other)), None)
        return right(found if found is not None else _moved(inputs))

    stale: list[tuple[str, Implementation]] = [
        ("another seed's answer returned", previous),
        ("last row left from the call before", _mixed(right, previous, _last_kept)),
        ("added to the answer of the call before", _mixed(right, previous, _added)),
    ]
    for words, run in stale:
        yield Mutant("stale answer", words, _SHOWN_BY, run)


def _every(right: Implementation, change: Callable[[torch.Tensor], torch.Tensor]) -> Implementation:
    return lambda inputs: tuple(change(out) for out in right(inputs))


def _mixed(
    right: Implementation,
    previous: Implementation,
    mix: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Implementation:
    def run(inputs: Sequence[Value]) -> Outputs:
        pairs = zip(right(inputs), previous(inputs), strict=True)
        return tuple(mix(new, old) for new, old in pairs)

    return run


def _same_call(inputs: Sequence[Value], other: Sequence[Value]) -> bool:
    """Whether `other` is another call with tensors of the same shapes and other values."""
    pairs = [
        (a, b)
        for a, b in zip(inputs, other, strict=True)
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
    ]
    same_shapes = all(a.shape == b.shape and a.dtype is b.dtype for a, b in pairs)
    return same_shapes and not all(torch.equal(a, b) for a, b in pairs)


def _moved(inputs: Sequence[Value]) -> list[Value]:
    """Return a call of the same shapes with other values: every tensor moved by one place."""
    return [
        torch.roll(value.reshape(-1), 1).reshape(value.shape)
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    ]


def _last_kept(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    if new.shape != old.shape or not new.numel() or not new.dim():
        raise ValueError("the outputs of both calls differ in shape, or have no rows")
    axis = next((i for i, size in enumerate(new.shape) if size > 1), 0)
    last = new.shape[axis] - 1
    return torch.cat([new.narrow(axis, 0, last), old.narrow(axis, last, 1)], axis)


def _added(new: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    if new.shape != old.shape or not new.is_floating_point():
        raise ValueError("the outputs of both calls cannot be added")
    return (new.double() + old.double()).to(new.dtype)


def _constant(out: torch.Tensor) -> torch.Tensor:
    if not out.is_floating_point() or out.numel() < 2:
        return torch.ones_like(out)  # its own mean would be the answer
    return torch.full_like(out.double(), float(out.double().mean())).to(out.dtype)


def _first_row(out: torch.Tensor) -> torch.Tensor:
    axis = next((i for i, size in enumerate(out.shape) if size > 1), None)
    if axis is None:
        raise ValueError("the output has one row")
    return row_zero(out, axis)


def _first_column(out: torch.Tensor) -> torch.Tensor:
    """Return each row's first value in all of its columns, as broadcasting would spread it."""
    axis = next((i for i in reversed(range(out.ndim)) if out.shape[i] > 1), None)
    if axis is None:
        raise ValueError("the output has one column")
    return out.narrow(axis, 0, 1).expand_as(out).contiguous()


def _same_shape(out: torch.Tensor, inputs: Sequence[Value]) -> torch.Tensor:
    for value in inputs:
        if isinstance(value, torch.Tensor) and value.shape == out.shape:
            return value.to(out.dtype)
    raise ValueError("no input has the output's shape")
