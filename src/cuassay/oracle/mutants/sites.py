"""Where in a reference a fault can sit: one operation of one expression of its source.

A site is named by the expression's position and by the operation's turn within it, so that
the same site is found again on inputs of another shape; an expression that runs one operation
more than `_MANY` times is a loop, and is one site.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuassay.hooks import Operation, PassThrough, mapped
from cuassay.oracle.lift.index_range import in_range
from cuassay.oracle.lift.source import Position, source_position
from cuassay.oracle.lift.tensor import nominal_of
from cuassay.oracle.mutants.faults import (
    SCALED,
    Fault,
    constant_of,
    faults_of,
    name_of,
    replaced_constant,
)
from cuassay.oracle.mutants.suspects import Before, suspects_of

_MANY = 8
_NARROW = (torch.bfloat16, torch.float16)
_CODES = (torch.float8_e4m3fn, torch.float8_e5m2)
_CARRIES = {"_to_copy", "clone", "_unsafe_view", "masked_fill"}
_CARRIES |= {"gather", "embedding", "index", "index_select"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MutantSite:
    """One operation of one expression; `turn` -1 stands for every time that it runs."""

    position: Position
    op: str
    turn: int

    def is_at(self, met: MutantSite) -> bool:
        """Whether an operation that was met is this site's."""
        same = met.position == self.position and met.op == self.op
        return same and self.turn in (-1, met.turn)

    def words(self) -> str:
        """Return the place for a reader: the expression and its line."""
        text = self.position.text
        return f"in `{text}` ({self.position.where})" if text else f"at {self.position.where}"


class _Turns:
    """Counts how often each operation ran within the current run of one expression."""

    def __init__(self) -> None:
        self._here: Position | None = None
        self._counts: Counter[str] = Counter()

    def next(self, op: Any) -> MutantSite:
        position = source_position()
        if self._here != position:
            self._counts.clear()
        self._here = position
        self._counts[str(op)] += 1
        return MutantSite(position=position, op=str(op), turn=self._counts[str(op)] - 1)


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class SiteRecorder(PassThrough):
    """A lift hook that lists the sites of a reference and the faults each can have.

    It follows the values that the reference as written rounds to 16 bits, through later copies: a
    lifted run keeps float64's bits where the reference says `.to(bfloat16).to(float32)`, and a
    kernel that rounds there does as the reference does. With `suspects` the faults that only a
    diagnosis asks for are listed too.
    """

    def __init__(self, *, suspects: bool = False) -> None:
        self._suspects = suspects
        self._turns = _Turns()
        self._found: dict[MutantSite, list[Fault]] = {}
        self._shifts: set[MutantSite] = set()
        self._constants: dict[MutantSite, float] = {}
        # By address. The tensors are kept: freed memory would lend its address to another.
        self._maxima: dict[int, tuple[MutantSite, Tensor]] = {}
        self._held: dict[int, tuple[torch.dtype, Tensor]] = {}
        self._codes: dict[int, Tensor] = {}  # 8-bit floats, cast to a wider type or not
        self._before: dict[int, tuple[Before, Tensor]] = {}

    def after(self, operation: Operation, out: Any) -> object:
        """Note the operation where its result is a float."""
        op, args = operation.op, operation.args
        site, name = self._turns.next(op), name_of(op)
        if operation.nominal is None:
            return out
        if isinstance(out, Tensor):
            carried = self._held_in(args[0]) if name in _CARRIES and args else None
            held = operation.nominal if operation.nominal in _NARROW else carried
            if held is not None:
                self._held[_address(out)] = (held, out)
            of = args[0] if name in _CARRIES and args else None
            if isinstance(of, Tensor) and (nominal_of(of) in _CODES or _address(of) in self._codes):
                self._codes[_address(out)] = out
        if name in ("amax", "max"):
            top = out if isinstance(out, Tensor) else out[0]
            self._maxima[_address(top)] = (site, top)
        shift = None
        if name == "sub" and isinstance(args[1], Tensor):
            shift, _ = self._maxima.get(_address(args[1]), (None, None))
        if shift is not None:
            self._shifts.add(shift)
        if site not in self._found:
            found = faults_of(op, args, operation.kwargs, out, values_of=self._values_of)
            if self._suspects:
                before = self._known_of(args[0]) if args else Before()
                found = itertools.chain(
                    found, suspects_of(op, args, operation.kwargs, before=before)
                )
            self._found[site] = [f for f in found if not (shift and f.kind == "operand")]
            constant = constant_of(op, args)
            if constant is not None:
                self._constants[site] = constant
        if self._suspects and isinstance(out, Tensor):
            guards = name == "add" and isinstance(args[1], float)
            known = Before(guard=args[1] if guards else None, rooted=name == "sqrt")
            self._before[_address(out)] = known, out
            if guards and self._known_of(args[0]) == Before():
                # Where it was added in place, which is shown as if it were not.
                self._before[_address(args[0])] = known, args[0]
        return out

    def _known_of(self, value: Any) -> Before:
        known = self._before.get(_address(value)) if isinstance(value, Tensor) else None
        return Before() if known is None else known[0]

    def _held_in(self, value: Any) -> torch.dtype | None:
        """Return the 16-bit dtype that the reference as written holds `value` in, if any."""
        return (
            self._held.get(_address(value), (None, None))[0] if isinstance(value, Tensor) else None
        )

    def _values_of(self, value: Tensor) -> tuple[Tensor, ...]:
        """Return an operand as the reference holds it, and as larger inputs would make it.

        Codes of 8 bits have no larger ones.
        """
        dtype = self._held_in(value)
        held = value if dtype is None else value.to(dtype).to(value.dtype)
        return (held,) if _address(value) in self._codes else (held, held * SCALED)

    def sites(self) -> list[tuple[MutantSite, Fault]]:
        """Return every pair of site and fault, in the order of the reference."""
        # Every literal may be the next different one of the reference.
        places, self._constants = list(self._constants.items()), {}
        for position, (site, value) in enumerate(places):
            others = [*places[position + 1 :], *places[:position]]
            other = next((v for _, v in others if v != value), None)
            if other is not None:
                words = f"constant {value:g} exchanged for {other:g}"
                self._found[site].append(replaced_constant(other, words))
        # A maximum that only shifts an exponent may be any number; others may not be 0.
        maxima = {known for known, _ in self._maxima.values()}
        most = Counter((site.position, site.op) for site in self._found)
        pairs = []
        for site, faults in self._found.items():
            looped = most[site.position, site.op] > _MANY
            if looped and site.turn:
                continue
            place = MutantSite(position=site.position, op=site.op, turn=-1) if looped else site
            pairs += [
                (place, fault)
                for fault in faults
                if site not in maxima or (fault.kind == "shift") == (site in self._shifts)
            ]
        return pairs


class Mutation(PassThrough):
    """A lift hook that computes one site wrongly; `met` says whether it came by."""

    def __init__(self, site: MutantSite, fault: Fault) -> None:
        self.site, self.fault = site, fault
        self._turns = _Turns()
        self._guards: dict[int, tuple[float, Tensor]] = {}  # what was added last, by address
        self.met = False

    def replace(self, operation: Operation) -> object:
        """Compute the site's operation wrongly."""
        args = operation.args
        if not self.site.is_at(self._turns.next(operation.op)):
            return NotImplemented
        self.met = True
        if self.fault.guarded is not None:
            known = self._guards.get(_address(args[0]))
            return NotImplemented if known is None else self.fault.guarded(args[0], known[0])
        with in_range(args):
            return self.fault.wrong(operation.op, args, operation.kwargs)

    def after(self, operation: Operation, out: Any) -> object:
        """Note what is added to a value, where the site's operation may take it away again."""
        args = operation.args
        guards = self.fault.guarded is not None and name_of(operation.op) == "add"
        if guards and isinstance(out, Tensor) and isinstance(args[1], float):
            self._guards[_address(out)] = args[1], out
            self._guards[_address(args[0])] = args[1], args[0]  # where it was added in place
        return out


class NanProbe(PassThrough):
    """A lift hook that makes one site's result NaN, to see whether anything depends on it.

    A forward result that only a loss needs, in a reference that returns gradients, reaches no
    output: breaking it is no fault. Selections pass NaN on from the side not taken, as other
    inputs would take it.
    """

    def __init__(self, site: MutantSite) -> None:
        self.site = site
        self.observed = False
        self._turns = _Turns()

    def after(self, operation: Operation, out: Any) -> object:
        """Return NaN at the site; note decisions that a NaN would change."""
        if self.site.is_at(self._turns.next(operation.op)):
            return mapped(out, _poisoned)
        floats = [a for a in operation.args if isinstance(a, Tensor) and a.is_floating_point()]
        if not any(bool(a.isnan().any()) for a in floats):
            return out
        if operation.nominal is None:
            self.observed = True
        passes = name_of(operation.op) in ("where", "masked_fill")
        return mapped(out, _poisoned) if passes else out


def _poisoned(out: Tensor) -> Tensor:
    return torch.full_like(out, float("nan")) if out.is_floating_point() else out
