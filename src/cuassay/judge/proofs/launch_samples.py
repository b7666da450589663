"""Launches of a candidate at many sizes, without running its kernels: what launch laws are fit to.

Sizes are drawn so that ceilings, tails, powers of two and thresholds show: one axis at a time
around a middle, then all together, then the workloads' own as far as memory allows. Where other
code is launched at other sizes (Triton compiles a kernel for a power of two above a row's length),
each piece of the domain has a law of its own: more sizes are drawn around those that launch it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuassay.checks.base import Run
from cuassay.checks.endings.findings import first_raised, inconclusive_reason, termination_finding
from cuassay.checks.machine.faults import recorded_call, recording_of
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.state.answers import placed
from cuassay.errors import CuassayError
from cuassay.inputs.fills import family
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import JudgeTrial
from cuassay.model.axes import resolve, shape_of
from cuassay.model.case import Case, Fill
from cuassay.model.problem import Problem, TensorSpec, VarAxis
from cuassay.model.recording import Recording, decode
from cuassay.model.scenario import Call, ReadInputs, ReadResult, Scenario, Step
from cuassay.model.steps import ReadRecording
from cuassay.model.trace import done_steps
from cuassay.oracle.bits import raw_bytes

_SPECIAL = 16  # Triton compiles other code for arguments that are multiples of it
_ELEMENTS = 1 << 24  # of one call's tensors together
_FEW, MOST_ELEMENTS = 12, 1 << 28  # a problem of large tensors is recorded at this many times them
_LARGE = 1 << 18  # elements of a tensor that are not drawn
_LADDER = (
    *(1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 127, 128, 129),
    *(160, 200, 255, 256, 257, 384, 500, 511, 512, 513, 640, 777, 1000, 1023, 1024, 1025, 1536),
    *(2000, 2048, 2049, 3000, 4095, 4096, 4097, 6144, 8192, 10_000, 16_384, 20_000, 32_768),
    *(65_536, 100_000, 262_144, 1_000_000, 1_048_576, 4_000_000),
)
_ALONE, _TOGETHER = 14, 24  # sizes of one axis alone, and of all axes together
_PIECES, _PIECE = 3, 12  # from so many kinds of calls on, each is to have so many sizes
CALL_S = 120.0  # that one call may take
_AROUND, _MOST = 3, 800  # sizes around a kind's for each of the plan's, and all in all
_Kind: TypeAlias = tuple[tuple[str, str], ...]  # (PTX, kernel) a launch


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSample:
    """The launches of one call. `axes` are all axes of the problem with their sizes."""

    axes: Mapping[str, int]
    recording: Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What was recorded, and why nothing was at other sizes: (sizes, reason).

    `changed` are watched inputs that host code wrote to: kernels may find other integers there.
    `beyond` are calls on tensors without memory, mostly at larger sizes, that laws are not fitted
    to and have to agree with.
    """

    found: tuple[LaunchSample, ...]
    refused: tuple[tuple[Mapping[str, int], str], ...]
    changed: frozenset[str] = frozenset()
    beyond: tuple[LaunchSample, ...] = ()


def legal_sizes(axis: VarAxis, most: int) -> list[int]:
    """Return sizes of one axis to sample, in ascending order, `most` at most each."""
    if axis.sizes:
        return sorted(size for size in axis.sizes if size <= most)
    step = axis.multiple_of
    high = min(most, axis.maximum if axis.maximum is not None else most)
    low = max(axis.minimum, 1)
    found = {-(-size // step) * step for size in _LADDER} | {
        size * step for size in (1, 2, 3, 5, 7, 9)
    }
    found |= {-(-low // step) * step, high // step * step if axis.maximum is not None else low}
    return sorted(size for size in found if low <= size <= high and size % step == 0)


def plan(problem: Problem, *, seed: int = 0) -> list[dict[str, int]]:
    """Return sizes of all axes to record launches at, without repeats; the first is small."""
    draw = random.Random(seed)
    axes = problem.var_axes()
    most = _most_elements(problem)
    ladders = {axis.name: legal_sizes(axis, _ELEMENTS) for axis in axes}
    if any(not ladder for ladder in ladders.values()):
        return []
    wanted: list[dict[str, int]] = []
    middle = {name: min(ladder, key=lambda size: abs(size - 9)) for name, ladder in ladders.items()}
    if not _fits(problem, middle, most):
        middle = {name: ladder[0] for name, ladder in ladders.items()}
    wanted.append(middle)
    alone = []
    for name, ladder in ladders.items():
        fitting = [s for s in ladder if _fits(problem, {**middle, name: s}, most)]
        chosen = sorted(draw.sample(fitting, min(_ALONE, len(fitting))))
        alone.append([{**middle, name: size} for size in chosen])
    together: list[dict[str, int]] = []
    for _ in range(_TOGETHER * 8):
        if len(together) + sum(map(len, alone)) >= _TOGETHER + _ALONE * len(axes):
            break
        sizes = {name: draw.choice(ladder) for name, ladder in ladders.items()}
        if _fits(problem, sizes, most):
            together.append(sizes)
    # In turns: where the time for calls is short, each axis was seen at other sizes.
    for turn in itertools.zip_longest(*alone, together):
        wanted += [sizes for sizes in turn if sizes is not None]
    wanted += [
        {axis.name: workload.axes[axis.name] for axis in axes if axis.name in workload.axes}
        for workload in problem.workloads
    ]
    found: list[dict[str, int]] = []
    for sizes in wanted:
        if len(sizes) == len(axes) and sizes not in found and _fits(problem, sizes, most):
            found.append(sizes)
    return found


def _most_elements(problem: Problem) -> int:
    """Return how many elements a recorded call may have: more where the least call has many."""
    least = {axis.name: legal_sizes(axis, _ELEMENTS)[:1] for axis in problem.var_axes()}
    try:
        sizes = {name: ladder[0] for name, ladder in least.items() if ladder}
        count = elements_of(problem, resolve(problem.axes, sizes))
    except CuassayError:
        return _ELEMENTS
    return max(_ELEMENTS, min(_FEW * count, MOST_ELEMENTS))


def _fits(problem: Problem, sizes: Mapping[str, int], most: int) -> bool:
    try:
        return elements_of(problem, resolve(problem.axes, sizes)) <= most
    except CuassayError:
        return False


def record(
    trial: JudgeTrial,
    runner: Executor,
    case: Case,
    sizes: list[dict[str, int]],
    *,
    watched: Collection[str] = (),
    going: Callable[[], bool] = lambda: True,
    call_s: float = CALL_S,
) -> Samples:
    """Return the launches of one call at each of the sizes, as long as `going` says so.

    A call that takes longer than `call_s` is ended with its process. Inputs that are `watched` are
    compared before and after each call, in which no kernel runs.
    """
    found: list[LaunchSample] = []
    refused: list[tuple[Mapping[str, int], str]] = []
    kinds: dict[_Kind, list[LaunchSample]] = {}
    changed: set[str] = set()
    tried: set[tuple[int, ...]] = set()
    free = [axis.name for axis in trial.problem.var_axes()]
    waiting, around = deque(sizes), 0
    while going():
        near = None
        if (around < _AROUND or not waiting) and len(found) < _MOST:
            near = sizes_around(trial.problem, list(kinds.values()), tried)
        if near is None and not waiting:
            break
        around = around + 1 if near is not None else 0
        bound = near if near is not None else waiting.popleft()
        key = tuple(bound[name] for name in free)
        if key in tried:
            continue
        tried.add(key)
        axes = resolve(trial.problem.axes, bound)
        try:
            scenario = _outline(light(trial.problem, placed(case, axes)), watched, call_s)
            run = runner(scenario)
            changed |= _changed(scenario, run)
            reason = inconclusive_reason(run)
            ended = termination_finding(scenario, run, problem=trial.problem)
            recording = recording_of(scenario, run)
            if reason or ended is not None or recording is None:
                raised = first_raised(run)
                said = f"{raised.exception}: {raised.message}" if raised else "nothing was recorded"
                raise CuassayError(reason or (ended.message if ended else said))
            sample = LaunchSample(
                axes=axes, recording=decode(bytes(recording.cpu().contiguous().numpy()))
            )
            found.append(sample)
            texts = sample.recording.modules
            kind = tuple((texts[one.module], one.kernel) for one in sample.recording.launches)
            if kind:
                kinds.setdefault(kind, []).append(sample)
        except CuassayError as error:
            refused.append((axes, str(error)))
            if len(refused) > 8 and not found:
                break
    return Samples(found=tuple(found), refused=tuple(refused), changed=frozenset(changed))


def _outline(case: Case, watched: Collection[str], call_s: float) -> Scenario:
    """Return the scenario that records a call of at most `call_s` without running a kernel.

    It reads inputs before and after the call, and no result, as nothing is in one.
    """
    read = tuple(ReadInputs(slot="a", only=name) for name in sorted(watched))
    steps: list[Step] = []
    recorded = recorded_call(case, outline=True)
    for step in recorded.steps:
        match step:
            case Call():
                steps += [*read, step]
            case ReadRecording():
                steps += [ReadRecording(), *read]
            case ReadResult():
                pass
            case _:
                steps.append(step)
    return dataclasses.replace(recorded, steps=tuple(steps), timeout_s=call_s)


def _changed(scenario: Scenario, run: Run) -> set[str]:
    """Return the inputs that are not the same after the call."""
    seen: dict[str, list[torch.Tensor]] = {}
    for step, record in done_steps(scenario, run.result, ReadInputs):
        for item in record.items:
            if item.name == step.only and item.buffer >= 0:
                seen.setdefault(item.name, []).append(raw_bytes(run.tensor(item)))
    return {
        name for name, (first, *others) in seen.items()
        if any(not torch.equal(first, one) for one in others)
    }  # fmt: skip


def light(problem: Problem, case: Case) -> Case:
    """Return a case with zeros in its large tensors of numbers.

    No kernel runs, and to draw them takes longer than the call. Indices, offsets and masks, which
    host code may read, are drawn.
    """
    fills = {
        spec.name: Fill(kind="zeros")
        for spec in problem.inputs
        if isinstance(spec, TensorSpec)
        and family(spec) in ("real", "integers")
        and math.prod(shape_of(spec.shape, case.axes)) > _LARGE
    }
    return dataclasses.replace(case, fills={**case.fills, **fills})


def sizes_around(
    problem: Problem, kinds: Sequence[Sequence[LaunchSample]], tried: Collection[tuple[int, ...]]
) -> dict[str, int] | None:
    """Return sizes that may launch what few of the others did, or None.

    `kinds` are samples by what they launch, `tried` the sizes of all axes that were recorded.
    They are between the sizes that did, or near them along one axis; the kind that is nearest to
    having enough comes first, as every kind costs a compilation.
    """
    if len(kinds) < _PIECES:
        return None
    axes = problem.var_axes()
    most = _most_elements(problem)
    few = [one for one in kinds if len(one) < _PIECE]
    for kind in sorted(few, key=len, reverse=True):
        draw = random.Random(len(tried))
        middle = draw.choice(kind).axes
        for attempt in range(4 * _PIECE):
            sizes = {axis.name: middle[axis.name] for axis in axes}
            for axis in axes if attempt % 2 else [draw.choice(axes)]:
                low = min(one.axes[axis.name] for one in kind)
                high = max(one.axes[axis.name] for one in kind)
                if attempt % 4 < 2 or low == high:  # beyond what was seen
                    low, high = max(1, low * 3 // 4), high * 4 // 3 + 2
                step = axis.multiple_of if attempt % 3 else math.lcm(axis.multiple_of, _SPECIAL)
                sizes[axis.name] = legal_size(axis, draw.randint(low, high), step)
            key = tuple(sizes[axis.name] for axis in axes)
            if key not in tried and _fits(problem, sizes, most):
                return sizes
    return None


def legal_size(axis: VarAxis, size: int, step: int) -> int:
    """Return a legal size of an axis near another one, a multiple of `step` if there is one."""
    if axis.sizes:
        return min(axis.sizes, key=lambda one: abs(one - size))
    found = max(-(-size // step) * step, axis.minimum)
    if axis.maximum is not None and found > axis.maximum:
        found = axis.maximum // axis.multiple_of * axis.multiple_of
    return found
