"""Members of a family as programs: the reference with some of its roundings really made.

Half of the draws give every element an error of the size of a rounding, independent of the others.
A real rounding is a function of the value: rows of nearly equal values err alike, and so do all
rows that read one table. A mean along a slice averages independent errors away and so condemns
such a kernel. What these programs make of each group is therefore part of its yardstick
(`truth/yardstick.py`), beside the draws, which still say what single elements may err by: a real
rounding may be 0 by luck.

The programs are those that people write: every intermediate stored in 16 bits, with float32 side
inputs cast or not; fused ones that cast side inputs alone; ones that store some intermediates and
keep others in registers. Two roundings that err alike can cancel where both are made, and a kernel
that makes one of them alone then errs more than any program that makes both. So of each four
intermediates in a row, every two are stored apart from one another in some program.

Where products of float32 operands are met, one more program leaves them to the tensor cores, which
cut off what TF32 does not hold: every product leans toward zero, which no rounding to 16 bits does.
A kernel may cut the operands of one product and store those of another.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cuassay.hooks import Operation, PassThrough, floating_in
from cuassay.oracle.lift.tensor import nominal_of
from cuassay.oracle.lift.together import NotTogether
from cuassay.oracle.truth.associations import Makes
from cuassay.oracle.truth.noises import in_turn, mask_of_runs
from cuassay.oracle.truth.operations import EXACT
from cuassay.oracle.truth.precision import GRIDS, Family, Stored
from cuassay.oracle.truth.random_errors import TF32, Grid, cut_off, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Which roundings a member makes: of intermediates with these codes, and casts of side inputs.

    The codes 0 to 3 are those of four intermediates in a row, in an order of the seed's. One that
    `cuts` has operands of products cut off to TF32.
    """

    stores: frozenset[int]
    casts: bool
    cuts: bool = False


_ALL = frozenset(range(4))
_PROGRAMS = (
    Program(stores=_ALL, casts=True),
    Program(stores=frozenset({0, 1}), casts=False),
    Program(stores=frozenset({2, 3}), casts=True),
    Program(stores=frozenset({0, 2}), casts=True),
    Program(stores=frozenset({1, 3}), casts=False),
    Program(stores=_ALL, casts=False),
    Program(stores=frozenset(), casts=True),
)
_CUTTING = Program(stores=frozenset(), casts=False, cuts=True)
_BELOW = 1.0 - 2.0**-22  # two roundings of float32
_FEW = 5  # where few draws are made: of large outputs


def programs(family: Family, seed: int, *, few: bool) -> Iterator[ProgramHook]:
    """Yield the hooks of the programs of a family that stores something.

    Each is run before the next: the last one comes where they met products of float32 operands.
    """
    multiplies_wide = False
    for turn, program in enumerate(_chosen(few=few)):
        hook = ProgramHook(family, _Made((program,), seed, (turn,)))
        yield hook
        multiplies_wide |= hook.multiplies_wide
    if multiplies_wide:
        yield cutting_program(family, seed)


def programs_of_one_run(family: Family, seed: int, *, few: bool) -> tuple[ProgramHook, int]:
    """Return a hook that makes all programs in one run (`lift.together`), and how many they are.

    None of them cuts operands off: that one comes by itself (`cutting_program`).
    """
    chosen = _chosen(few=few)
    return ProgramHook(family, _Made(chosen, seed, range(len(chosen)))), len(chosen)


def cutting_program(family: Family, seed: int) -> ProgramHook:
    """Return the hook of the program that leaves products to the tensor cores."""
    return ProgramHook(family, _Made((_CUTTING,), seed, (0,)))


def _chosen(*, few: bool) -> tuple[Program, ...]:
    return _PROGRAMS[: _FEW if few else len(_PROGRAMS)]


class _Made:
    """Makes the roundings of one program, or of several: of each in a run of its own.

    `turns` say in which order each adds and multiplies.
    """

    def __init__(self, programs: Sequence[Program], seed: int, turns: Sequence[int]) -> None:
        self._programs, self._random, self._turns = programs, random.Random(seed), turns
        self._cuts = any(program.cuts for program in programs)
        self._codes: list[int] = []  # of the next intermediates, the last one first

    def intermediate(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values rounded to nearest, if the program stores them.

        Where operands are cut off, those of a kernel may lie a rounding below the reference's: a
        number that TF32 holds then loses a whole step. So do all of them in the program that cuts.
        """
        if self._cuts:
            return values * _BELOW
        if not self._codes:
            self._codes = self._random.sample(sorted(_ALL), len(_ALL))
        code = self._codes.pop()
        return self._rounded(values, grid, [code in one.stores for one in self._programs])

    def operand(self, values: Tensor, grid: Grid, *, stored: bool) -> Tensor:
        """Return values rounded to nearest or cut off: tensor cores take no others."""
        if self._cuts:
            return cut_off(values, TF32)
        rounds = [bool(one.stores) and not stored for one in self._programs]
        return self._rounded(values, grid, rounds)

    def reassociated(
        self, values: Tensor, excess: Callable[[], Tensor | None], grid: Grid
    ) -> Tensor:
        """Return values: a program multiplies as the reference does."""
        return values

    def part(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values rounded to nearest: an order is what it stores in between."""
        return nearest(values, grid)

    def one_of(self, orders: Makes) -> Tensor:
        """Return a result in the order of each program."""
        return in_turn(orders, self._turns)

    form_of = one_of

    def beside(self, values: Tensor, grid: Grid) -> Tensor:
        """Return values rounded to nearest, if the program casts what it reads beside others."""
        return self._rounded(values, grid, [one.casts for one in self._programs])

    def start(self, terms: int) -> int | None:
        """Return the first place where side inputs are cast, None elsewhere.

        Raises NotTogether for several programs: a place is a number of one run.
        """
        if len(self._programs) > 1:
            raise NotTogether("a place where a sum begins")
        return 0 if self._programs[0].casts else None

    def _rounded(self, values: Tensor, grid: Grid, which: Sequence[bool]) -> Tensor:
        """Return values rounded to nearest in the runs of `which` programs."""
        if not any(which):
            return values
        rounded = nearest(values, grid)
        if all(which):
            return rounded
        return torch.where(mask_of_runs(tuple(which), values.device), rounded, values)


class ProgramHook(PassThrough):
    """Makes the roundings of one program in a lifted run."""

    def __init__(self, family: Family, made: _Made) -> None:
        self._made, self._stored = made, Stored(family, made)

    @property
    def multiplies_wide(self) -> bool:
        """Whether its run met a product of float32 operands."""
        return self._stored.multiplies_wide

    def replace(self, operation: Operation) -> object:
        """Run operations on operands as the program has them."""
        if operation.nominal is None:
            return NotImplemented
        return self._stored.replace(operation)

    def after(self, operation: Operation, out: Any) -> object:
        """Round what the program stores, and what the reference as written rounds."""
        return self._stored.result(operation, out, self._as_written(operation, out))

    def _as_written(self, operation: Operation, out: Any) -> Any:
        if not isinstance(out, Tensor):
            return out
        nominal = nominal_of(out)
        if nominal not in GRIDS or out.is_complex():
            return out
        if operation.name in EXACT:
            given = floating_in([*operation.args, *operation.kwargs.values()])
            if not given or {nominal_of(one) for one in given} == {nominal}:
                return out
        return nearest(out, GRIDS[nominal])
