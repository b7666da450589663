"""Mutants around the right answer: misread inputs, trivial answers, outputs of an earlier call."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from cuassay.oracle.bits import raw_bytes
from cuassay.oracle.lift.run import Value
from cuassay.oracle.mutants.kinds import Implementation, Mutant, Outputs

# What of an input is changed: kind, words, what shows it, the change.
_Change: TypeAlias = tuple[str, str, str, Callable[[Any], Value]]

_SPANS = (2, 4, 8)  # groups that lie in one tile of a kernel that reads one scale for a tile


def misread(
    right: Implementation,
    inputs: Sequence[Value],
    names: Sequence[str],
    usual: Mapping[str, Value],
    *,
    fixed: Collection[str] = (),
    suspects: bool = False,
) -> Iterator[Mutant]:
    """Yield mutants that misread an input; shapes, dtypes and index ranges stay as they are.

    `usual` are the values that scalars are usually passed, by name. Scalars that are `fixed` stay:
    no call has others, as of sizes of the tensors beside them. With `suspects` tensors are also
    read in other orders, which a diagnosis alone asks for.
    """
    names = [*names, *(f"number {position}" for position in range(len(names), len(inputs)))]

    def with_one(position: int, change: Callable[[Any], Value]) -> Implementation:
        return lambda given: right([change(v) if i == position else v for i, v in enumerate(given)])

    def exchanged(first: int, second: int) -> Implementation:
        order = list(range(len(inputs)))
        order[first], order[second] = second, first
        return lambda given: right([given[i] for i in order])

    most = max((v.numel() for v in inputs if isinstance(v, Tensor)), default=0)
    for position, value in enumerate(inputs):
        name = names[position]
        if name in fixed:
            continue
        further: list[_Change] = []
        if suspects and isinstance(value, Tensor):
            further += _other_orders(value)
            further += _by_tile(value) if value.numel() < most else ()
        for kind, words, shown_by, change in (*_changes(value, usual.get(name)), *further):
            run = with_one(position, change)
            yield Mutant(kind, f"input {name} {words}", shown_by.format(name), run)
    # A wrong order of arguments goes unnoticed where two are alike.
    for one, two in itertools.combinations(range(len(inputs)), 2):
        left, other = inputs[one], inputs[two]
        alike = isinstance(left, float) and isinstance(other, float)
        if isinstance(left, Tensor) and isinstance(other, Tensor):
            alike = left.shape == other.shape and left.dtype is other.dtype
        if alike:
            words = f"inputs {names[one]} and {names[two]} exchanged"
            shown_by = f"values of {names[one]} and {names[two]} that differ"
            yield Mutant("inputs exchanged", words, shown_by, exchanged(one, two))


def _changes(value: Value, usual: Value | None) -> Iterator[_Change]:
    matters = "values of {0} of the size at which it matters"
    zeros, ones = "values of {0} other than 0", "values of {0} other than 1"
    varied = "values of {0} that differ from each other"
    if isinstance(value, Tensor):
        if value.numel() < 2:
            return
        if value.is_floating_point() and value.dtype.itemsize > 1:
            yield "input ignored", "taken as zeros", zeros, torch.zeros_like
            yield "input ignored", "taken as ones", ones, torch.ones_like
            yield (
                "input ignored", "replaced by its mean", varied,
                lambda v: torch.full_like(v, float(v.double().mean())),
            )  # fmt: skip
        elif value.dtype is torch.bool:
            both = "a mask {0} with true and false"
            yield "input ignored", "taken as true", both, torch.ones_like
        axis = next(i for i, size in enumerate(value.shape) if size > 1)
        order = f"rows of {{0}} (axis {axis}) that differ and an answer that depends on their order"
        yield "input rows", "read one row off", order, lambda v: torch.roll(v, 1, axis)
        yield "input rows", "read at row 0 only", varied, lambda v: _row_zero(v, axis)
        return
    if isinstance(value, bool):
        yield "input scaled", "negated", matters, lambda v: not v
    elif isinstance(value, float):
        yield "input scaled", "ten times as large", matters, lambda v: v * 10
        yield "input ignored", "taken as 1", ones, lambda v: 1.0
    else:
        yield "input scaled", "one larger", matters, lambda v: v + 1
    if usual is not None and not isinstance(usual, Tensor):
        other = f"values of {{0}} other than {usual:g}"
        yield "input frozen", f"frozen at {usual:g}", other, lambda v: type(v)(usual)


def _other_orders(value: Tensor) -> Iterator[_Change]:
    """Yield a tensor read backwards, one place off, by columns, or with its halves for pairs."""
    varied = "values of {0} that differ from each other"
    long = [axis for axis, size in enumerate(value.shape) if size > 1]
    for axis in long:
        backwards = functools.partial(torch.flip, dims=(axis,))
        yield "input rows", f"read backwards along axis {axis}", varied, backwards
    for axis in long[1:]:
        one_off = functools.partial(torch.roll, shifts=1, dims=axis)
        yield "input rows", f"read one place off along axis {axis}", varied, one_off

    def turned(v: Tensor, *shape: int) -> Tensor:
        return v.reshape(shape).transpose(-1, -2).reshape(v.shape)

    if len(long) > 1 and value.dim() > 1:
        yield (
            "input rows", "read as if it were laid out by columns", varied,
            lambda v: turned(v, *v.shape[:-2], v.shape[-1], v.shape[-2]),
        )  # fmt: skip
    if long and long[-1] == value.dim() - 1 and value.shape[-1] % 2 == 0:
        for words, pair in (
            ("read in halves instead of pairs", (2, -1)),
            ("read in pairs instead of halves", (-1, 2)),
        ):
            halved = functools.partial(lambda v, pair: turned(v, *v.shape[:-1], *pair), pair=pair)
            yield "input rows", words, varied, halved


def _by_tile(value: Tensor) -> Iterator[_Change]:
    """Yield a tensor of which one element serves a tile that spans several: scales of groups."""
    varied = "values of {0} that differ from each other"

    def held(v: Tensor, axis: int, span: int) -> Tensor:
        places = torch.arange(v.shape[axis], device=v.device)
        return v.index_select(axis, places - places % span)

    for axis, size in enumerate(value.shape):
        # The first one alone is what `_changes` takes of the first axis.
        spans = [(span, f"the first of each {span}") for span in _SPANS if span < size]
        spans += [(size, "the first one")] if axis and size > 1 else []
        for span, words in spans:
            change = functools.partial(held, axis=axis, span=span)
            yield "input rows", f"read at {words} alone along axis {axis}", varied, change


def answers(right: Implementation, inputs_list: Sequence[Sequence[Value]]) -> Iterator[Mutant]:
    """Yield every trivial and every stale answer."""

    def every(change: Callable[[Tensor], Tensor]) -> Implementation:
        return lambda inputs: tuple(change(out) for out in right(inputs))

    def previous(inputs: Sequence[Value]) -> Outputs:
        """Answer another call of the same shapes, of moved values where there is none."""
        moved = [
            torch.roll(v.reshape(-1), 1).reshape(v.shape) if isinstance(v, Tensor) else v
            for v in inputs
        ]
        for other in inputs_list:
            pairs = [
                (a, b)
                for a, b in zip(inputs, other, strict=True)
                if isinstance(a, Tensor) and isinstance(b, Tensor)
            ]
            same = all(a.shape == b.shape and a.dtype is b.dtype for a, b in pairs)
            if same and not all(torch.equal(raw_bytes(a), raw_bytes(b)) for a, b in pairs):
                return right(other)
        return right(moved)

    def mixed(mix: Callable[[Tensor, Tensor], Tensor]) -> Implementation:
        return lambda inputs: tuple(
            mix(new, old) for new, old in zip(right(inputs), previous(inputs), strict=True)
        )

    trivial: Mapping[str, Implementation] = {
        "zeros returned": every(torch.zeros_like),
        "ones returned": every(torch.ones_like),
        "a constant returned": every(_constant),
        "the negative returned": every(lambda y: ~y if y.dtype is torch.bool else -y),
        "the first row repeated": every(lambda y: _row_zero(y, _long_axes(y)[0])),
        # what each row's first value is, as broadcasting would spread it
        "the first column broadcast": every(lambda y: _row_zero(y, _long_axes(y)[-1])),
        "an input returned": lambda inputs: tuple(_input_like(y, inputs) for y in right(inputs)),
    }
    stale: Mapping[str, Implementation] = {
        "another seed's answer returned": previous,
        "last row left from the call before": mixed(_last_kept),
        "added to the answer of the call before": mixed(_added),
    }
    for kind, table in (("trivial answer", trivial), ("stale answer", stale)):
        for words, run in table.items():
            yield Mutant(kind, words, "any varied input", run)


def _last_kept(new: Tensor, old: Tensor) -> Tensor:
    if new.shape != old.shape or not new.numel() or not new.dim():
        raise ValueError("the outputs of both calls differ in shape, or have no rows")
    axis = next((i for i, size in enumerate(new.shape) if size > 1), 0)
    last = new.shape[axis] - 1
    return torch.cat([new.narrow(axis, 0, last), old.narrow(axis, last, 1)], axis)


def _added(new: Tensor, old: Tensor) -> Tensor:
    if new.shape != old.shape or not new.is_floating_point():
        raise ValueError("the outputs of both calls cannot be added")
    return (new.double() + old.double()).to(new.dtype)


def _constant(out: Tensor) -> Tensor:
    if not out.is_floating_point() or out.numel() < 2:
        return torch.ones_like(out)  # its own mean would be the answer
    return torch.full_like(out.double(), float(out.double().mean())).to(out.dtype)


def _long_axes(out: Tensor) -> list[int]:
    found = [axis for axis, size in enumerate(out.shape) if size > 1]
    if not found:
        raise ValueError("the output has one element")
    return found


def _row_zero(tensor: Tensor, axis: int) -> Tensor:
    """Return `tensor` with its first slice along `axis` in place of every slice."""
    return tensor.narrow(axis, 0, 1).expand_as(tensor).clone()


def _input_like(out: Tensor, inputs: Sequence[Value]) -> Tensor:
    for value in inputs:
        if isinstance(value, Tensor) and value.shape == out.shape:
            return value.to(out.dtype)
    raise ValueError("no input has the output's shape")
