"""Mutants that misread an input: ignored, frozen, confused with another or with its own rows."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import torch

from cuassay.oracle.lift.run import Value
from cuassay.oracle.mutants.kinds import Implementation, Mutant, Outputs

Change: TypeAlias = Callable[[Value], Value]
_Row: TypeAlias = tuple[str, str, str, Change]


def misread(
    right: Implementation,
    inputs: Sequence[Value],
    names: Sequence[str],
    usual: Mapping[str, Value],
) -> Iterator[Mutant]:
    """Yield mutants that misread an input; shapes, dtypes and index ranges stay as they are.

    `usual` are the values that scalars are usually passed, by name.
    """
    names = [*names, *(f"number {position}" for position in range(len(names), len(inputs)))]
    for position, value in enumerate(inputs):
        name = names[position]
        for kind, words, shown_by, change in _changes(value, usual.get(name)):
            run = functools.partial(_misread, right, position, change)
            yield Mutant(kind, f"input {name} {words}", shown_by.format(name), run)
    # A wrong order of arguments goes unnoticed where two are alike.
    for left, right_ in itertools.combinations(range(len(inputs)), 2):
        if _alike(inputs[left], inputs[right_]):
            first, second = names[left], names[right_]
            run = functools.partial(_exchanged, right, left, right_)
            shown_by = f"values of {first} and {second} that differ"
            words = f"inputs {first} and {second} exchanged"
            yield Mutant("inputs exchanged", words, shown_by, run)


def _misread(
    right: Implementation, position: int, change: Change, inputs: Sequence[Value]
) -> Outputs:
    return right([change(v) if i == position else v for i, v in enumerate(inputs)])


def _exchanged(right: Implementation, first: int, second: int, inputs: Sequence[Value]) -> Outputs:
    out = list(inputs)
    out[first], out[second] = out[second], out[first]
    return right(out)


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


def _alike(left: Value, right: Value) -> bool:
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.shape == right.shape and left.dtype is right.dtype
    return isinstance(left, float) and isinstance(right, float)


def _tensor(value: Value) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value


def _mean(value: Value) -> torch.Tensor:
    tensor = _tensor(value)
    return torch.full_like(tensor, float(tensor.double().mean()))


def row_zero(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Return `tensor` with its first slice along `axis` in place of every slice."""
    return tensor.narrow(axis, 0, 1).expand_as(tensor).clone()
