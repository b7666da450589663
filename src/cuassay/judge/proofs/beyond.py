"""Calls at sizes beyond those that launch laws are fitted to, on tensors without memory.

Laws are fitted to small calls. Host code that takes another path from a threshold on shows it at a
larger size: these calls, which no law is fitted to, have to agree with it (`ptxsan.prove.beyond`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuassay.checks.machine.declared_sizes import without_memory
from cuassay.checks.state.answers import placed
from cuassay.errors import CuassayError
from cuassay.judge.proofs.launch_samples import LaunchSample, legal_size, light
from cuassay.judge.run.executor import Executor
from cuassay.model.axes import resolve, shape_of
from cuassay.model.case import Case
from cuassay.model.problem import Problem, TensorSpec, VarAxis
from cuassay.model.recording import decode
from cuassay.model.scenario import Allocate
from cuassay.model.steps import Outline
from cuassay.model.trace import done_steps

_ALONE, _TOGETHER, _NAMED = 6, 8, 8  # sizes of an axis, of all axes, and numbers of the sources
_OF_THE_TOP = (1, 0.87, 0.71, 0.53, 0.34)  # where grids have stopped to grow
_STEPS, _MOST_SIZE = 64, 1 << 40
_BATCH, _BATCH_S = 8, 30.0  # calls in one process, and its time


def plan_beyond(
    problem: Problem, small: Mapping[str, int], named: Iterable[int], *, limit: int
) -> list[dict[str, int]]:
    """Return sizes to call host code at, without repeats.

    Each axis alone, the others `small`, and all of them at once, evenly spread up to the largest
    call whose tensors have fewer than `limit` elements each; then around each number that is
    `named`, as the size of an axis and as the elements of the largest tensor.
    """
    axes = problem.var_axes()
    sizes = _Sizes(problem, {axis.name: small[axis.name] for axis in axes}, limit)
    found: list[dict[str, int]] = []
    for one in (*sizes.alone(), *sizes.together(), *sizes.around(named)):
        legal = {axis.name: legal_size(axis, one[axis.name], axis.multiple_of) for axis in axes}
        if legal not in found and sizes.largest(legal) < limit:
            found.append(legal)
    return found


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of the variable axes of a problem whose tensors have fewer than `limit` elements."""

    problem: Problem
    small: Mapping[str, int]
    limit: int

    def largest(self, sizes: Mapping[str, int]) -> int:
        """Return the elements of the largest tensor; `limit` where sizes are illegal."""
        try:
            found = resolve(self.problem.axes, sizes)
            return max(
                math.prod(shape_of(one.shape, found))
                for one in (*self.problem.inputs, *self.problem.outputs)
                if isinstance(one, TensorSpec)
            )
        except (CuassayError, ValueError):
            return self.limit

    def last_below(self, axis: VarAxis, elements: int) -> int:
        """Return the last size of an axis at which tensors have fewer elements, by halving."""

        def fits(size: int) -> bool:
            return self.largest({**self.small, axis.name: size}) < elements

        low = max(axis.minimum, 1)
        if axis.sizes:
            return max(filter(fits, axis.sizes), default=low)
        high = axis.maximum if axis.maximum is not None else _MOST_SIZE
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low

    def alone(self) -> Iterator[dict[str, int]]:
        """Yield large sizes of each axis, the largest first."""
        for axis in self.problem.var_axes():
            low, top = max(self.small[axis.name], 1), self.last_below(axis, self.limit)
            steps = [round(low * (top / low) ** (step / _ALONE)) for step in range(_ALONE)]
            for size in (*(round(top * part) for part in _OF_THE_TOP), *reversed(steps)):
                yield {**self.small, axis.name: size}

    def together(self) -> Iterator[dict[str, int]]:
        """Yield sizes of all axes at once, as large as tensors may be."""
        axes = self.problem.var_axes()
        tops = {axis.name: self.last_below(axis, self.limit) for axis in axes}
        draw = random.Random(len(axes))
        for _ in range(_TOGETHER if len(axes) > 1 else 0):
            share = {name: draw.random() for name in tops}
            for scale in range(_STEPS, 0, -1):
                part = scale / _STEPS / max(share.values())
                sizes = {name: round(top ** (share[name] * part)) for name, top in tops.items()}
                if self.largest(sizes) < self.limit:
                    yield sizes
                    break

    def around(self, named: Iterable[int]) -> Iterator[dict[str, int]]:
        """Yield sizes of each axis around numbers, and those that make tensors of so many."""
        for number in itertools.islice(dict.fromkeys(named), _NAMED):
            for axis in self.problem.var_axes():
                for size in (number, self.last_below(axis, number)):
                    for step in (-axis.multiple_of, 0, axis.multiple_of):
                        yield {**self.small, axis.name: size + step}


def record_beyond(
    runner: Executor,
    problem: Problem,
    case: Case,
    sizes: Sequence[Mapping[str, int]],
    *,
    going: Callable[[], bool],
) -> tuple[LaunchSample, ...]:
    """Return what is launched at sizes by calls on tensors without memory, as long as `going` says.

    A call that asks for data, raises or launches nothing says nothing; where the first ones do, no
    other is made.
    """
    found: list[LaunchSample] = []
    small = light(problem, case)
    for start in range(0, len(sizes), _BATCH):
        if not going():
            break
        batch = sizes[start : start + _BATCH]
        large = [placed(case, resolve(problem.axes, one)) for one in batch]
        scenario = dataclasses.replace(
            without_memory(small, large[0]),
            cases=(small, *large),
            timeout_s=_BATCH_S,
            steps=(
                Allocate(slot="a", case=0),
                *(Outline(slot="a", case=number + 1) for number in range(len(large))),
            ),
        )
        try:
            run = runner(scenario)
            records = [
                (step, record)
                for step, record in done_steps(scenario, run.result, Outline)
                if record.items
            ]
            for step, record in records:
                data = run.tensor(record.items[0]).cpu().contiguous()
                recording = decode(bytes(data.numpy()))
                asked = any(one.results_read for one in recording.launches)
                if recording.launches and not recording.notes and not asked:
                    axes = scenario.cases[step.case].axes
                    found.append(LaunchSample(axes=axes, recording=recording))
        except CuassayError:
            continue
        if not found:
            break
    return tuple(found)
