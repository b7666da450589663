"""Mutants that misread an input: ignored, frozen, confused with another or with its own rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.oracle.lift.run import Value

Change: TypeAlias = Callable[[Sequence[Value]], list[Value]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Misreading:
    """A wrong reading of a call's inputs: its kind, in words, what shows it, and how."""

    kind: str
    words: str
    shown_by: str
    change: Change


def misreadings(
    inputs: Sequence[Value], names: Sequence[str], usual: Mapping[str, Value]
) -> Iterator[Misreading]:
    """Yield the misreadings of a call; shapes, dtypes and index ranges stay as they are.

    `usual` are the values that scalars are usually passed, by name.
    """
    for position, value in enumerate(inputs):
        name = _name(names, position)
        for kind, words, shown_by, change in _changes(value, usual.get(name)):
            yield Misreading(
                kind=kind,
                words=f"input {name} {words}",
                shown_by=shown_by.format(name),
                change=_at(position, change),
            )
    yield from _exchanges(inputs, names)


def _name(names: Sequence[str], position: int) -> str:
    return names[position] if position < len(names) else f"number {position}"


def _at(position: int, change: Callable[[Value], Value]) -> Change:
    def changed(inputs: Sequence[Value]) -> list[Value]:
        return [change(v) if i == position else v for i, v in enumerate(inputs)]

    return changed


_Row: TypeAlias = tuple[str, str, str, Callable[[Value], Value]]


def _changes(value: Value, usual: Value | None) -> Iterator[_Row]:
    if isinstance(value, torch.Tensor):
        if value.numel() > 1:
            yield from _tensor_changes(value)
        return
    matters = "values of {0} of the size at which it matters"
    if isinstance(value, bool):
        yield "input scaled", "negated", matters, lambda v: not v
    elif isinstance(value, float):
        yield "input scaled", "ten times as large", matters, lambda v: v * 10
        ones = "values of {0} other than 1"
        yield "input ignored", "taken as 1", ones, lambda v: 1.0
    else:
        yield "input scaled", "one larger", matters, lambda v: v + 1
    if usual is not None and not isinstance(usual, torch.Tensor):
        other = f"values of {{0}} other than {usual:g}"
        yield "input frozen", f"frozen at {usual:g}", other, lambda v: type(v)(usual)


def _tensor_changes(value: torch.Tensor) -> Iterator[_Row]:
    varied = "values of {0} that differ from each other"
    ignored = "input ignored"
    if value.is_floating_point() and value.dtype.itemsize > 1:
        zeros, ones = "values of {0} other than 0", "values of {0} other than 1"
        yield ignored, "taken as zeros", zeros, lambda v: torch.zeros_like(_tensor(v))
        yield ignored, "taken as ones", ones, lambda v: torch.ones_like(_tensor(v))
        yield ignored, "replaced by its mean", varied, _mean
    elif value.dtype is torch.bool:
        both = "a mask {0} with true and false"
        yield ignored, "taken as true", both, lambda v: torch.ones_like(_tensor(v))
    axis = next(i for i, size in enumerate(value.shape) if size > 1)
    order = f"rows of {{0}} (axis {axis}) that differ and an answer that depends on their order"
    rows = "input rows"
    yield rows, "read one row off", order, lambda v: torch.roll(_tensor(v), 1, axis)
    yield rows, "read at row 0 only", varied, lambda v: row_zero(_tensor(v), axis)


def _exchanges(inputs: Sequence[Value], names: Sequence[str]) -> Iterator[Misreading]:
    """Yield exchanges of two inputs that a wrong order of arguments would go unnoticed for."""
    for left, right in itertools.combinations(range(len(inputs)), 2):
        if _alike(inputs[left], inputs[right]):
            first, second = _name(names, left), _name(names, right)
            yield Misreading(
                kind="inputs exchanged",
                words=f"inputs {first} and {second} exchanged",
                shown_by=f"values of {first} and {second} that differ",
                change=_exchange(left, right),
            )


def _alike(left: Value, right: Value) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.shape == right.shape and left.dtype is right.dtype
    return isinstance(left, float) and isinstance(right, float)


def _exchange(left: int, right: int) -> Change:
    def changed(inputs: Sequence[Value]) -> list[Value]:
        out = list(inputs)
        out[left], out[right] = out[right], out[left]
        return out

    return changed


def _tensor(value: Value) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value


def _mean(value: Value) -> torch.Tensor:
    tensor = _tensor(value)
    return torch.full_like(tensor, float(tensor.double().mean()))


def row_zero(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Return `tensor` with its first slice along `axis` in place of every slice."""
    return tensor.narrow(axis, 0, 1).expand_as(tensor).clone()
