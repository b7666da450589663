"""Shapes beside the listed ones: v-1, v+1, 1, 2, 3, 24, primes, tiles +-1 and -2, 0 where legal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from cuassay.inputs.covering import Row, cover
from cuassay.inputs.geometry import (
    elements,
    fitted_sizes,
    least,
    legal,
    shrunk_sizes,
    tensor_inputs,
    try_sizes,
    within,
)
from cuassay.inputs.named_sizes import NamedSize, SizeUse
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC, Regime, fill
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.problem import Problem, VarAxis

TILES = (16, 32, 64, 128, 256)
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 61, 97, 127, 131, 257, 521, 1031)
# All axes at once finds most shape faults in a handful of cases; one axis at a time follows.
# Axes of 24 are of one size, where a transposed operand has the right shape, and of whole vectors
# of 8 with half of a tile of 16. Each axis twice the one before, or half of it, is a relation that
# a size alone does not show. Two short of a tile is even, as pairs of elements ask for.
_JOINT = (
    "v-1", "v+1", "1", "prime", "24", "twice", "tile+1", "tile-2", "2", "half tile", "tile-1", "3",
    "half",
)  # fmt: skip
_RELATED = 40  # the least of sizes that are twice one another
_WIDE_TILE = 128  # its odd half is a residue of its own: kernels work in two steps of 64
_MOST_ROWS = 4096  # of sizes of all axes that pairs are chosen from
_LEVELS = 6  # sizes of one axis in them, at most, beside the small one
_REGIME: Regime = NUMERIC[0]
# A branch of the sources has one case, so that its values have to tell an epsilon, a mask of rows,
# a scale and a sum that ends early at once: rows of many sizes whose last elements count, scalars
# that are not the usual ones.
_BRANCH: Regime = replace(
    next(one for one in NUMERIC if one.name == "mixed row sizes"),
    main=fill("mixed_scale", zero=1 / 32, late=4.0),
    usual_scalars=False,
)


def shapes(planner: Planner) -> tuple[Case, ...]:
    """Return cases at neighbouring shapes, most telling first, each shape once.

    Sizes stay within each axis's declared bounds and steps. Axes without declared bounds
    are tried as well; only size 0 and broken constraints make such a case out of domain.
    """
    base = _base(planner)
    limit = _limit(planner, base)
    seen: set[tuple[int, ...]] = {tuple(base.values())}
    cases: list[Case] = []
    budget = planner.budget
    zeros = [  # within the domain where the minimum says so, else advice on undeclared axes
        (f"{axis.name}=0", {axis.name: 0})
        for axis in planner.problem.var_axes()
        if axis.minimum == 0 or (not axis.declared and budget.shape_cases > 8)
    ]
    plain = (*_joint(planner, base), *zeros, *_single(planner, base))
    beside = tuple((name, changes, False) for name, changes in plain)
    large = budget.named_large  # cases above a threshold that are left to be beyond the limit
    for planned, most, regime in (
        (tuple(_listed_alone(planner, base)), budget.listed_axes, _REGIME),
        (beside, budget.shape_cases, _REGIME),
        (tuple(_named(planner, base)), budget.named_cases, _BRANCH),
        (tuple(_written(planner, base)), budget.written_cases, _REGIME),
        (tuple(_pairs(planner, base)), budget.pair_cases, _BRANCH),
    ):
        for name, changes, above in planned:
            if most <= 0:
                break
            sizes = try_sizes(planner.problem, base, changes)
            if sizes is None or tuple(sizes.values()) in seen:
                continue
            count = elements(planner.problem, sizes)
            if count > (max(limit, budget.named_elements) if above and large else limit):
                continue
            if not planner.is_affordable(sizes):
                continue
            large -= count > limit
            seen.add(tuple(sizes.values()))
            cases.append(
                planner.case(
                    f"shape {name}",
                    sizes,
                    regime,
                    workload=planner.first_workload,
                    in_domain=legal(planner.problem, sizes),
                )
            )
            most -= 1
    return tuple(cases)


def _listed_alone(
    planner: Planner, base: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, int], bool]]:
    """Yield listed sizes of one axis, above what `base` was cut to, the others small.

    Where a whole listed call has no room, a kernel that stops at a block's 1024 threads is right
    everywhere else. The longest axis comes first.
    """
    axes = planner.problem.var_axes()
    low = _small(axes, base)
    _, home = planner.workloads()[0]
    cut = [axis.name for axis in axes if home[axis.name] > 2 * max(base[axis.name], TILES[-1])]
    for name in sorted(cut, key=lambda name: -home[name]):
        yield f"{name}={home[name]} as listed, others small", {**low, name: home[name]}, False


def _small(axes: Iterable[VarAxis], base: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of axes of which another one is the point: 2, or what they must have.

    Where the listed call that the others are taken from has an empty axis, it stays empty.
    """
    return {axis.name: min(least(axis, 2), base[axis.name]) for axis in axes}


def _named(planner: Planner, base: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int], bool]]:
    """Yield sizes beside those that the candidate's sources speak of, the other axes small.

    Each with whether it lies above a threshold.

    Each number gives its most telling case before any gives a second one: listed sizes that the
    source compares with, as the smallest workload has them; the sizes above its thresholds; the
    same for thresholds as counts of elements (of all axes that vary, or of a tensor); other sizes
    that it compares with; two of its steps and a rest. Last come the other sides, what the cases of
    other purposes lie on both sides of anyway, and sizes that constant axes have.
    """
    problem, axes = planner.problem, planner.problem.var_axes()
    low = _small(axes, base)
    calls = [sizes for _, sizes in planner.workloads()]
    others = [base, *(sizes for _, sizes in planner.fitting(planner.budget.numeric_elements, 2))]
    constant = set(base.values()) - {base[axis.name] for axis in axes}
    rounds: list[list[tuple[str, dict[str, int], bool]]] = [[] for _ in range(6)]
    for named in planner.named:
        for axis in axes:
            text = f"{axis.name}={{}} beside {named.value} of the source"
            listed = [sizes for sizes in calls if sizes[axis.name] == named.value]
            if listed and named.kind is SizeUse.EQUAL:
                whole = {one.name: listed[0][one.name] for one in axes}
                rounds[0].append((f"{text.format(named.value)}, as listed", whole, False))
            tried = [sizes[axis.name] for sizes in others]
            first = _turn(named, is_constant=named.value in constant, tried=tried)
            first = first if _may_mean(problem, named, axis) else -1
            for turn, size in zip((first, -1, -1), _beside(named, axis), strict=False):
                if within(axis, size):
                    above = named.kind is SizeUse.BOUND and size > named.value
                    rounds[turn].append((text.format(size), {**low, axis.name: size}, above))
        for last in axes[-1:] if named.kind is SizeUse.BOUND else ():
            for count in _counts(problem, {**base, **low}, last.name):
                below = named.value // count
                for turn, size in ((2, below + 1), (-1, below)):
                    if size > low[last.name] and within(last, size):
                        text = f"{count * size} elements beside {named.value} of the source"
                        rounds[turn].append((text, {**low, last.name: size}, size > below))
    for planned in rounds:
        yield from planned


def _written(
    planner: Planner, base: Mapping[str, int]
) -> Iterator[tuple[str, dict[str, int], bool]]:
    """Yield sizes that the sources hold for something else than a comparison, the others small."""
    axes = planner.problem.var_axes()
    low = _small(axes, base)
    for value in (one.value for one in planner.named if one.kind is SizeUse.WRITTEN):
        for axis in axes:
            if within(axis, value):
                name = f"{axis.name}={value} that the source holds"
                yield name, {**low, axis.name: value}, False


def _pairs(planner: Planner, base: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int], bool]]:
    """Yield sizes with two axes or more beside numbers of the sources at once.

    A branch may ask for many rows and for a length of one kind, which cases of one axis at a time
    never have together. In few cases every pair of axes has every pair of sizes that there is
    room for: above a threshold, a size that is looked up, a multiple of a step.
    """
    axes = planner.problem.var_axes()
    low = _small(axes, base)
    compared = [one for one in planner.named if one.kind is not SizeUse.WRITTEN]
    found = [_levels(planner.problem, compared, axis) for axis in axes]
    count = _LEVELS
    while prod(1 + len(levels[:count]) for levels in found) > _MOST_ROWS:
        count -= 1
    factors = [[low[axis.name], *levels[:count]] for axis, levels in zip(axes, found, strict=True)]
    most = max(_limit(planner, base), planner.budget.named_elements)

    def fits(row: Row) -> bool:
        changes = {axis.name: size for axis, size in zip(axes, row, strict=True)}
        sizes = try_sizes(planner.problem, base, changes)
        return sizes is not None and elements(planner.problem, sizes) <= most

    small = tuple(low.values())
    alone = [
        (*small[:place], size, *small[place + 1 :])
        for place, sizes in enumerate(factors)
        for size in sizes
    ]
    rows = cover(factors, strength=2, legal=fits, first=alone)[len(alone) :]
    seen: set[tuple[int, int]] = set()
    while rows:  # few of them will run: first those with sizes that no other has had
        row = max(rows, key=lambda one: len(set(enumerate(one)) - seen))
        rows.remove(row)
        seen |= set(enumerate(row))
        changes = {axis.name: size for axis, size in zip(axes, row, strict=True)}
        words = ", ".join(f"{name}={size}" for name, size in changes.items())
        yield f"{words} beside numbers of the source", changes, True


def _may_mean(problem: Problem, named: NamedSize, axis: VarAxis) -> bool:
    """Whether the sources may compare a number with an axis: not where they name others alone."""
    variable = {each.name for each in problem.var_axes()}
    dimensions = {
        f"{spec.name}.{place}": name
        for spec in tensor_inputs(problem)
        for number, name in enumerate(spec.shape)
        for place in (number, number - len(spec.shape))
    }
    told = {dimensions.get(name, name) for name in named.of}
    known = told <= variable | set(dimensions.values())
    return not (named.of and known and axis.name not in told)


def _levels(problem: Problem, named: Iterable[NamedSize], axis: VarAxis) -> list[int]:
    """Return the sizes of an axis that a branch may ask for, one a number, each kind in turn.

    A number that the sources compare with another size is left out.
    """
    kinds: dict[SizeUse, list[int]] = {kind: [] for kind in SizeUse}
    for one in named:
        if not _may_mean(problem, one, axis):
            continue
        match one.kind:
            case SizeUse.EQUAL | SizeUse.WRITTEN:
                size = one.value
            case SizeUse.BOUND:
                size = one.value + axis.multiple_of
            case SizeUse.STEP:
                size = max(TILES[0] // one.value, 1) * one.value
        if within(axis, size):
            kinds[one.kind].append(size)
    longest = max(map(len, kinds.values()))
    turns = product(range(longest), kinds.values())
    return list(dict.fromkeys(sizes[turn] for turn, sizes in turns if turn < len(sizes)))


def _turn(named: NamedSize, *, is_constant: bool, tried: Iterable[int]) -> int:
    """Return the round of the first case beside a number, where axes of `tried` sizes run too."""
    match named.kind:
        case SizeUse.EQUAL:
            return -1 if is_constant else 3
        case SizeUse.BOUND:
            return -1 if min(tried) < named.value < max(tried) else 1
        case SizeUse.STEP:
            return -1 if named.value < TILES[0] else 4
        case SizeUse.WRITTEN:
            return -1


def beyond(planner: Planner) -> tuple[Case, ...]:
    """Return cases beyond the highest threshold of the candidate's sources that can be tried.

    One with every axis beyond it where there is room for that, else two with one axis each: the
    sources do not say which axis they mean. Only thresholds count that lie above the sizes of the
    smallest workload: below them that workload and small sizes lie on both sides.
    """
    problem, axes, base = planner.problem, planner.problem.var_axes(), _base(planner)
    low = _small(axes, base)
    home = planner.workloads()[0][1]
    listed = [home[axis.name] for axis in axes]
    above = [
        named.value
        for named in planner.named
        if named.kind is SizeUse.BOUND and named.value > max(listed, default=0)
    ]

    def fits(sizes: Mapping[str, int] | None) -> bool:
        if sizes is None or not legal(problem, sizes):
            return False
        room = elements(problem, sizes) <= _limit(planner, base)
        return room and planner.is_affordable(sizes)

    for value in sorted(above, reverse=True):
        over = {axis.name: value + axis.multiple_of for axis in axes}
        alone = [{**low, axis.name: over[axis.name]} for axis in axes]
        counted = [
            {**low, axis.name: value // count + axis.multiple_of}
            for axis in axes
            for count in _counts(problem, {**base, **low}, axis.name)
        ]
        for tried in ([over], alone, counted):
            found = [try_sizes(problem, base, changes) for changes in tried]
            apart = [sizes for n, sizes in enumerate(found) if sizes not in found[:n]]
            kept = [sizes for sizes in apart if sizes is not None and fits(sizes)][-2:]
            if kept:
                return tuple(
                    planner.case(f"beyond {value} of the source: {sizes}", sizes, _REGIME)
                    for sizes in kept
                )
    return ()


def _limit(planner: Planner, base: Mapping[str, int]) -> int:
    return 2 * max(planner.budget.shape_elements, elements(planner.problem, base))


def _counts(problem: Problem, sizes: Mapping[str, int], axis: str) -> list[int]:
    """Return how many elements one step of an axis has: of all axes that vary, of each tensor."""
    one = try_sizes(problem, sizes, {axis: 1})
    if one is None:
        return []
    specs = [spec for spec in (*tensor_inputs(problem), *problem.outputs) if axis in spec.shape]
    varying = prod(one[each.name] for each in problem.var_axes())
    return sorted({varying, *(prod(shape_of(spec.shape, one)) for spec in specs)} - {0, 1})


def _beside(named: NamedSize, axis: VarAxis) -> tuple[int, ...]:
    """Return sizes on the sides of a number, in steps of the axis, the most telling first."""
    value, step = named.value, axis.multiple_of
    match named.kind:
        case SizeUse.EQUAL:
            return value, value + step
        case SizeUse.BOUND:
            return value + step, value, value - step
        case SizeUse.STEP:
            return 2 * value + step, 2 * value
        case SizeUse.WRITTEN:
            return ()


def _base(planner: Planner) -> dict[str, int]:
    """Return a listed workload within the shape budget, the largest there is.

    Where none fits the smallest is cut, but not below tiles of 16: constant axes may make
    every shape large.
    """
    budget = planner.budget.shape_elements
    problem = planner.problem
    for _, sizes in reversed(planner.workloads()):
        if elements(problem, sizes) <= budget and legal(problem, sizes):
            return sizes
    cut = fitted_sizes(problem, planner.workloads()[0][1], budget=budget, floor=17)
    return shrunk_sizes(problem, cut, small_enough=planner.is_affordable, floor=3)


def _joint(planner: Planner, base: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    axes = planner.problem.var_axes()
    for rule in _JOINT:
        changes = {}
        for position, axis in enumerate(axes):
            size = base[axis.name]
            match rule:
                case "v-1" | "v+1":
                    size = size + int(rule[1:])
                case "prime":
                    below = [prime for prime in _PRIMES if prime < max(size, 6)]
                    size = below[max(len(below) - 1 - position, 0)]
                case "twice" | "half" if len(axes) == 1:
                    continue
                case "twice":
                    size = _RELATED << position
                case "half":
                    size = _RELATED << (len(axes) - 1 - position)
                case "half tile":
                    size = max(size // _WIDE_TILE, 1) * _WIDE_TILE + _WIDE_TILE // 2
                case "tile+1" | "tile-1" | "tile-2":
                    fitting = [tile for tile in TILES if tile <= max(size, TILES[0])]
                    size = fitting[max(len(fitting) - 1 - position, 0)] + int(rule[4:])
                case _:
                    size = int(rule)
            if within(axis, size):
                changes[axis.name] = size
        if changes:
            yield f"every axis {rule}" if len(axes) > 1 else f"{axes[0].name} {rule}", changes


def _single(planner: Planner, base: Mapping[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    """One axis at a time, round-robin over the axes so that a short budget meets all."""
    listed = [
        [(axis, value) for value in _values(axis, base[axis.name]) if within(axis, value)]
        for axis in planner.problem.var_axes()
    ]
    for step in range(max(map(len, listed), default=0)):
        for values in listed:
            if step < len(values):
                axis, value = values[step]
                yield f"{axis.name}={value}", {axis.name: value}


def _values(axis: VarAxis, size: int) -> Iterable[int]:
    step = axis.multiple_of
    near = [size - step, size + step, axis.minimum, 1, 2, 3, size - 1, size + 1]
    tiles = [tile + delta for tile in TILES for delta in (-1, 1, 0)]
    primes = [prime for prime in _PRIMES if prime < 2 * size]
    stepped = [max(value // step, 1) * step for value in (*tiles, *primes)]
    ends = [] if axis.maximum is None else [axis.maximum]
    return dict.fromkeys((*near, *tiles, *reversed(primes), *stepped, *ends))
