"""Sizes at which a candidate's launches change: thresholds that no text of the sources shows.

The host code is called at many sizes and launches nothing (`proofs.launch_samples`). Where one size
of an axis launches other kernels or blocks than the next, it takes another path from there on;
where a grid that followed the size stops to grow, each block does several tiles. Both are found to
the step by halving, and planned as sizes that the sources name. The same calls tell how many
threads a call has, which is what it costs on a CPU.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from cuassay.build.cuda_facade import MULTIPROCESSORS
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.errors import CuassayError
from cuassay.inputs.named_sizes import NamedSize, SizeUse
from cuassay.judge.proofs.launch_samples import CALL_S, legal_sizes, record
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import JudgeTrial
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.problem import Problem, VarAxis

_MOST_SIZE = 1 << 20
_ELEMENTS = 1 << 23  # of a call's tensors, which take memory
_LADDER = 14  # sizes of an axis, evenly spread over those that are legal
_CHANGES = 4  # of an axis that are found to the step: the first ones
_FOLLOWS = 0.5  # least power of a size that a grid grows by where it follows it
_THREAD_S = 4e-7  # of the PTX machine, a thread of a short kernel: 65,537 blocks of 128 took 3.4 s

Launched: TypeAlias = tuple[tuple[str, tuple[int, ...], int], ...]  # kernel, block, blocks


class _TooLongError(Exception):
    """A call was ended, or did not begin, since it takes longer than it may."""


class LaunchProbe:
    """Calls a candidate's host code at sizes of our choice; no kernel runs.

    `runner` runs it on a CPU, where its host code sees `MULTIPROCESSORS`.
    """

    def __init__(self, trial: JudgeTrial, runner: Executor) -> None:
        self._trial, self._runner = trial, runner

    def sizes(
        self,
        *,
        limit_s: float,
        most: int = _LADDER,
        multiprocessors: int = MULTIPROCESSORS,
        call_s: float = math.inf,
    ) -> tuple[NamedSize, ...]:
        """Return the largest size of each path that the launches show, as thresholds.

        A grid that is full here may be full on a GPU of `multiprocessors` at so many times the
        size: both are named. `most` sizes of an axis are tried at first. Empty where no launch
        can be recorded without running it. A call ends where it takes longer than `call_s`, or
        where all took `limit_s` (the first one, which builds the candidate, aside), and no other
        begins: some kernels are compiled for each size, which takes seconds for a long row.
        """
        problem, case = self._trial.problem, self._trial.cases("small")[0]
        found: dict[NamedSize, None] = {}
        until = math.inf

        def at(sizes: Mapping[str, int]) -> Launched:
            nonlocal until
            started, most_s = time.monotonic(), CALL_S
            if until < math.inf:  # the first call builds the candidate
                most_s = min(call_s, until - started)
            if most_s <= 0.0:
                raise _TooLongError
            launched = self._launched(case, sizes, call_s=most_s)
            if time.monotonic() - started > most_s:
                raise _TooLongError
            until = min(until, time.monotonic() + limit_s)
            return launched

        with suppress(_TooLongError):
            for axis in problem.var_axes():
                for size, is_full in changes(problem, axis, dict(case.axes), at, most=most):
                    found[NamedSize(value=size, kind=SizeUse.BOUND)] = None
                    if is_full:
                        scaled = size * multiprocessors // MULTIPROCESSORS
                        found[NamedSize(value=scaled, kind=SizeUse.BOUND)] = None
        return tuple(found)

    def executed_s(self, sizes: Mapping[str, int]) -> float:
        """Return the seconds that a call at the sizes of all axes takes in the PTX machine.

        By the count of its threads; 0.0 where its launches cannot be recorded.
        """
        bound = {axis.name: sizes[axis.name] for axis in self._trial.problem.var_axes()}
        launched = self._launched(self._trial.cases("small")[0], bound)
        return _THREAD_S * sum(blocks * math.prod(block) for _, block, blocks in launched)

    def _launched(
        self, case: Case, sizes: Mapping[str, int], *, call_s: float = CALL_S
    ) -> Launched:
        taken = record(self._trial, self._runner, case, [dict(sizes)], call_s=call_s).found
        launches = taken[0].recording.launches if taken else ()
        return tuple((one.kernel, one.block, math.prod(one.grid)) for one in launches)


def changes(
    problem: Problem,
    axis: VarAxis,
    small: Mapping[str, int],
    at: Callable[[Mapping[str, int]], Launched],
    *,
    most: int = _LADDER,
) -> Iterator[tuple[int, bool]]:
    """Yield the sizes of an axis after which launches change, and whether a grid is full there.

    The other axes are small. `at` gives the launches of a call at the sizes of the variable axes,
    () where there are none. `most` sizes, evenly spread, are tried before any is found to the step.
    """
    names = [one.name for one in problem.var_axes()]

    def bound(size: int) -> dict[str, int]:
        return {name: small[name] for name in names} | {axis.name: size}

    def fits(size: int) -> bool:
        try:
            return elements_of(problem, resolve(problem.axes, bound(size))) <= _ELEMENTS
        except CuassayError:
            return False

    def launched(size: int) -> Launched:
        return at(bound(size))

    def takes(path: object) -> Callable[[int], bool]:
        return lambda size: _path(launched(size)) == path

    def has_fewer(blocks: int) -> Callable[[int], bool]:
        return lambda size: _blocks(launched(size)) < blocks

    sizes = [size for size in legal_sizes(axis, _MOST_SIZE) if fits(size)]
    places = {round(n * (len(sizes) - 1) / (most - 1)) for n in range(most)}
    ladder = [sizes[place] for place in sorted(places)] if sizes else []
    seen = [(size, what) for size in ladder if (what := launched(size))]
    left, capped, step = _CHANGES, False, axis.multiple_of
    for number, ((low, before), (high, after)) in enumerate(itertools.pairwise(seen)):
        if not left:
            return
        path, full = _path(before), _blocks(after)
        if _path(after) != path:
            yield _last(low, high, step, takes(path)), False
        elif not capped and _stops(seen[: number + 2]):
            # The first size with all the blocks: above it one of them has a second tile.
            capped = True
            start = max(n for n, what in seen if _path(what) == path and _blocks(what) < full)
            yield _last(start, high, step, has_fewer(full)) + step, True
        else:
            continue
        left -= 1


def _path(launched: Launched) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((kernel, block) for kernel, block, _ in launched)


def _blocks(launched: Launched) -> int:
    return sum(blocks for _, _, blocks in launched)


def _stops(seen: Sequence[tuple[int, Launched]]) -> bool:
    """Whether the grid grew with the sizes but the last, and does not follow that one."""
    *_, (low, before), (high, after) = seen
    same = [_blocks(what) for _, what in seen[:-1] if _path(what) == _path(before)]
    grew = min(_blocks(before), _blocks(after)) > min(same)
    return grew and _blocks(after) / _blocks(before) < (high / low) ** _FOLLOWS


def _last(low: int, high: int, step: int, same: Callable[[int], bool]) -> int:
    """Return the last size from `low` on for which `same` holds, by halving; not for `high`."""
    while high - low > step:
        middle = low + max((high - low) // (2 * step), 1) * step
        if same(middle):
            low = middle
        else:
            high = middle
    return low
