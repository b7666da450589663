"""Outputs that hold places along an axis (top-k, sort, argmax): what any honest choice obeys.

Where values tie, or noise makes them tie, a kernel may choose another place than truth and than
any draw. It may not leave the axis, nor choose one place twice, nor, among exact ties, one that
does not tie. Which outputs are such choices is read from a run of the reference: the result of
a choosing operation, or a plain copy of it, that nothing wrote to afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from cuassay.hooks import Hook, Operation, PassThrough

_SEVERAL = frozenset({"topk", "sort", "argsort"})  # places of one row are all different
_ONE = frozenset({"argmax", "argmin", "max", "min", "kthvalue", "median"})
_COPIES = frozenset({"_to_copy", "clone"})
_PLACES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_MOST_TIES = 1 << 27  # elements; sorting more of them for ties costs more than it tells


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChosenPlaces:
    """Places in [0, `bound`). Along `dim` they are all different; None where that is not known.

    `values` are what was chosen from, `tied` marks places whose value occurs again in their row
    without any noise: torch does not say which of them a top-k or a sort takes. Both are None
    where nothing ties.
    """

    bound: int
    dim: int | None = None
    values: Tensor | None = None
    tied: Tensor | None = None

    def illegal(self, got: Tensor, right: Tensor) -> Tensor:
        """Return which elements of `got` no honest choice can show; `right` is truth."""
        found = (got < 0) | (got >= self.bound)
        if self.dim is not None:
            again, wrong = (_equal_neighbours(t, self.dim, both=False) for t in (got, right))
            found = found | (again & ~wrong.any(self.dim, keepdim=True))
        if self.tied is not None:
            found = found | (self.tied & ~self.equal(got, right))
        return found

    def settled(self, right: Tensor, flipped: Tensor | None) -> ChosenPlaces | None:
        """Return the choice as truth has it: ties of one draw that others break are no ties.

        None where truth itself shows what a choice cannot: it is none, whatever made it.
        """
        if bool(((right < 0) | (right >= self.bound)).any()):
            return None
        if self.tied is None:
            return self
        tied = self.tied if flipped is None else self.tied & ~flipped
        if bool(tied.any()):
            return replace(self, tied=tied)
        return replace(self, values=None, tied=None)

    def repeated(self, count: int) -> ChosenPlaces:
        """Return the choice as `count` copies along a new first axis have it."""
        values, tied = (
            None if one is None else one.expand(count, *one.shape)
            for one in (self.values, self.tied)
        )
        dim = None if self.dim is None else self.dim + 1
        return ChosenPlaces(bound=self.bound, dim=dim, values=values, tied=tied)

    def equal(self, first: Tensor, second: Tensor) -> Tensor:
        """Whether two choices hold equal values, element by element."""
        assert self.values is not None
        assert self.dim is not None
        a, b = (
            self.values.gather(self.dim, places.long().clamp(0, self.bound - 1))
            for places in (first, second)
        )
        return (a == b) | (a.isnan() & b.isnan())


def _equal_neighbours(values: Tensor, dim: int, *, both: bool = True) -> Tensor:
    """Return which values occur again in their row: all of them, or without `both` the later."""
    ordered = values.sort(dim=dim, stable=True)
    equal = torch.zeros_like(values, dtype=torch.bool)
    pairs = max(values.shape[dim] - 1, 0)
    first, second = (ordered.values.narrow(dim, at, pairs) for at in (0, min(1, pairs)))
    equal.narrow(dim, min(1, pairs), pairs).copy_(first == second)
    if both:
        equal.narrow(dim, 0, pairs).logical_or_(first == second)
    return torch.zeros_like(equal).scatter_(dim, ordered.indices, equal)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Made:
    """A tensor of places, its version when made, and how to say what choice it is."""

    places: Tensor
    version: int
    choice: Callable[[], ChosenPlaces]


class ChoiceWatch:
    """Passes a run on to another hook and keeps the choices that the run makes."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._made: dict[int, _Made] = {}  # by address: what is kept here keeps its memory

    def replace(self, operation: Operation) -> object:
        """Leave it to the other hook."""
        return self._hook.replace(operation)

    def after(self, operation: Operation, out: Any) -> object:
        """Note a choice; the result is the other hook's."""
        found, name = self._hook.after(operation, out), operation.name
        if name in _SEVERAL or name in _ONE:
            self._chosen(name, operation.named, found)
        elif name in _COPIES and isinstance(found, Tensor) and found.dtype in _PLACES:
            source = operation.args[0]
            choice = self.choice_of(source) if isinstance(source, Tensor) else None
            if choice is not None and choice.bound - 1 <= torch.iinfo(found.dtype).max:
                self._keep(found, lambda: choice)
        return found

    def choice_of(self, output: Tensor) -> ChosenPlaces | None:
        """Return the choice that an output is; None for others and where it was written to."""
        made = self._made.get(_address(output))
        if made is None or made.places._version != made.version:
            return None
        if output.dim() > made.places.dim() and not output.stride(0) and output.shape[0]:
            # One result repeated along a new first axis, as each rank's copy of it is.
            one = self.choice_of(output[0])
            return None if one is None else one.repeated(output.shape[0])
        choice = made.choice()
        layouts = [(t.dim(), t.stride(), t.storage_offset()) for t in (output, made.places)]
        if layouts[0] != layouts[1]:  # neither the places nor the first along their axes
            return ChosenPlaces(bound=choice.bound)
        if choice.tied is None:
            return choice
        return replace(choice, tied=choice.tied[tuple(slice(size) for size in output.shape)])

    def _chosen(self, name: str, named: Mapping[str, Any], out: Any) -> None:
        results = out if isinstance(out, list | tuple) else (out,)
        chosen = [t for t in results if isinstance(t, Tensor) and t.dtype == torch.int64]
        source, dim = named.get("self"), named.get("dim")
        if not chosen or not isinstance(source, Tensor) or not source.dim():
            return
        places = chosen[0]
        bound = source.numel() if dim is None else source.shape[dim]
        if name not in _SEVERAL or dim is None:
            self._keep(places, lambda: ChosenPlaces(bound=bound))
            return
        along = dim % source.dim()

        def several() -> ChosenPlaces:
            choice = ChosenPlaces(bound=bound, dim=along)
            if named.get("stable") or source.numel() > _MOST_TIES:
                return choice
            tied = _equal_neighbours(source, along).gather(along, places)
            return replace(choice, values=source, tied=tied) if bool(tied.any()) else choice

        self._keep(places, several)

    def _keep(self, places: Tensor, choice: Callable[[], ChosenPlaces]) -> None:
        self._made[_address(places)] = _Made(places=places, version=places._version, choice=choice)


class TieBreak(PassThrough):
    """Runs choosing operations so that ties go to the first place, or with `last` to the last.

    What then differs from truth depends on how ties are broken, which is nobody's fault:
    groups of equal scores may hold different members. `chose` says whether any was met. A
    stable sort keeps its order, which is part of what it means, and so does an argmax.
    """

    def __init__(self, *, last: bool) -> None:
        self._last = last
        self.chose = False

    def replace(self, operation: Operation) -> object:
        """Choose from the wanted end."""
        name = operation.name
        if name not in _SEVERAL:  # of equal maxima torch promises the first
            return NotImplemented
        named = operation.named
        source, dim = named.get("self"), named.get("dim", -1)
        if not isinstance(source, Tensor) or dim is None or not source.dim():
            return NotImplemented
        if named.get("stable"):
            return NotImplemented
        self.chose = True
        given = source.flip(dim) if self._last else source
        down = bool(named.get("largest", named.get("descending", False)))
        values, places = given.sort(dim=dim, descending=down, stable=True)
        if name == "topk":
            values, places = (t.narrow(dim, 0, int(named["k"])) for t in (values, places))
        if self._last:
            places = source.shape[dim] - 1 - places
        return places if name == "argsort" else (values, places)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
