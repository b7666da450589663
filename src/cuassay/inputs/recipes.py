"""Recipes of a search: sampled anew from a number, or changed step by step from a good one.

A recipe is a `Case`: sizes, fills with parameters, scalars, a seed, never elements. Some
hundred bytes describe a tensor of any size. Both ways are pure functions of numbers, so that
whoever searches (Hypothesis, in the judge) needs to know numbers only.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

from cuassay.inputs.fills import family
from cuassay.inputs.geometry import elements, least, legal, step_to, tensor_inputs, try_sizes
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC, fills_for, scalars_for
from cuassay.inputs.scalars import drawn_scalar
from cuassay.inputs.seeds import derive
from cuassay.model import serial
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque, Positive, Probability, SizeOf, Swizzled
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec, VarAxis

Change: TypeAlias = tuple[int, int]  # which aspect (taken modulo their number), how much
_Table: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
REACH = 32  # changes go from -REACH to REACH
_TILES = (16, 32, 64, 128, 256, 512, 1024)
_MULTIPLES = 8
_WIDE, _NARROW = (-16, 16), (-12, 5)  # quarter decades of scale; float16 ends at 65504
_SCALED = ("scale", "mean", "value")


class _Way(enum.Enum):
    """What of an aspect a change changes."""

    MAGNITUDE = enum.auto()
    FILL = enum.auto()
    MULTIPLIED = enum.auto()
    SHIFTED = enum.auto()
    VALUE = enum.auto()
    SEED = enum.auto()


def sample(planner: Planner, number: int, *, max_elements: int) -> Case | None:
    """Return the recipe of a number, at most `max_elements` elements of inputs and outputs.

    None where the drawn sizes break a constraint.
    """
    random = Random(derive(planner.root_seed, "recipe", number))
    sizes = _sizes(random, planner.problem, max_elements)
    if sizes is None:
        return None
    fills = fills_for(planner.problem, random.choice(NUMERIC))
    for spec in _filled(planner.problem):
        if random.random() < 0.5:
            fills[spec.name] = draw_fill(random, spec)
    scalars = scalars_for(planner.problem, planner.first_workload, seed=planner.root_seed)
    for scalar in _scalars(planner.problem):
        if random.random() < 0.5:
            scalars[scalar.name] = drawn_scalar(scalar, seed=random.randrange(1 << 30))
    return _case(planner, sizes, fills=fills, scalars=scalars, variant=number)


def change(planner: Planner, case: Case, changes: Sequence[Change], *, max_elements: int) -> Case:
    """Return `case` with changes of single aspects.

    Aspects: each axis multiplied and shifted, each input's magnitude and kind of fill, each
    scalar, the seed. A change of amount 0 changes nothing, nor does one to sizes that are illegal
    or have more than `max_elements` elements of inputs and outputs.
    """
    problem = planner.problem
    aspects: list[tuple[_Way, TensorSpec | VarAxis | ScalarSpec | None]] = [
        *((way, spec) for spec in _filled(problem) for way in (_Way.MAGNITUDE, _Way.FILL)),
        *((way, axis) for axis in problem.var_axes() for way in (_Way.MULTIPLIED, _Way.SHIFTED)),
        *((_Way.VALUE, scalar) for scalar in _scalars(problem)),
        (_Way.SEED, None),
    ]
    variant = case.seed
    for aspect, amount in changes:
        if not amount:
            continue
        changed = _changed(problem, case, *aspects[aspect % len(aspects)], amount)
        if changed is None or elements(problem, changed.axes) > max_elements:
            continue
        case = changed
        variant = derive(variant, amount)
    return _case(planner, case.axes, fills=case.fills, scalars=case.scalars, variant=variant)


def draw_fill(random: Random, spec: TensorSpec) -> Fill:
    """Return a fill with drawn parameters within the input's domain."""
    if isinstance(spec.domain, Positive | Swizzled):
        table: _Table = {"normal": {}, "sorted": {}, "ones": {}}
    elif isinstance(spec.domain, Probability):
        table = {"normal": {"scale": (0.1, 1.0, 2.0, 10.0)}, "one_hot": {}}
    elif family(spec) != "real":
        table = _TABLES[family(spec)]
    else:
        low, high = _NARROW if _is_narrow(spec) else _WIDE
        scale = [float(f"{10 ** (quarter / 4):.2g}") for quarter in range(low, high + 1)]
        scaled = ("normal", "same_sign", "alternating", "cancelling", "cauchy", "sorted")
        plain = (
            *("ones", "zeros", "small_integers", "powers_of_two", "mixed_scale", "tiny"),
            *("confident", "low_bits", "large_mean_small_variance"),
        )
        table = {
            **{name: {"scale": scale} for name in scaled},
            **{name: {} for name in plain},
            "offset": {"mean": scale, "scale": (0.01, 0.1, 1.0)},
            "lognormal": {"sigma": (0.5, 1.0, 2.0)},
            "outlier": {"scale": scale, "factor": (10.0, 100.0)},
            "constant": {"value": scale},
            "one_hot": {"value": scale},
            "late_peak": {"value": scale},
            "near_constant": {"relative": (1e-4, 1e-3, 1e-2)},
        }
    kind = random.choice(list(table))
    parameters = {name: random.choice(values) for name, values in table[kind].items()}
    return Fill(kind=kind, parameters=parameters)


_INTEGERS: _Table = {"uniform": {}, "ones": {}, "zeros": {}, "arange": {}}
_TABLES: Mapping[str, _Table] = {
    "index": {
        "uniform": {},
        "zipf": {"exponent": (0.5, 1.0, 1.2, 2.0)},
        "single_hot": {"row": (-1.0, 0.0, 1.0, 2.0**40)},
        "two_hot": {},
        "arange": {},
        "distinct": {},
        "sorted": {},
        "sentinel": {},
    },
    "lengths": {"uniform": {}, "edges": {}, "one_long": {}, "full": {}},
    "offsets": {"uniform": {}, "even": {}, "ragged": {}},
    # No mask that blocks whole rows: what a soft-max of nothing is, few references define.
    "mask": {"ones": {}, "uniform": {"share": (0.05, 0.3, 0.7, 0.95)}},
    "integers": _INTEGERS,
    "packed": {**_INTEGERS, "edges": {}},
    "choice": _INTEGERS,
}


def _is_narrow(spec: TensorSpec) -> bool:
    return spec.dtype.is_liftable and spec.dtype.float_format.maximum < 1e5


def _filled(problem: Problem) -> list[TensorSpec]:
    return [spec for spec in tensor_inputs(problem) if not isinstance(spec.domain, Opaque)]


def _scalars(problem: Problem) -> list[ScalarSpec]:
    free = (spec for spec in problem.inputs if not isinstance(spec.domain, SizeOf))
    return [spec for spec in free if isinstance(spec, ScalarSpec)]


def _sizes(random: Random, problem: Problem, max_elements: int) -> dict[str, int] | None:
    """Draw axis by axis in random order, each within what the earlier ones leave."""
    axes = list(problem.var_axes())
    least_sizes = {axis.name: least(axis) for axis in axes}
    sizes = try_sizes(problem, problem.workloads[0].axes, least_sizes)
    random.shuffle(axes)
    for axis in axes:
        if sizes is None:
            return None
        # The largest size of the axis that keeps to the elements, at least its least.
        low = least(axis)
        high = max_elements if axis.maximum is None else min(axis.maximum, max_elements)
        while low < high:
            middle = (low + high + 1) // 2
            changed = try_sizes(problem, sizes, {axis.name: middle})
            if changed is not None and elements(problem, changed) > max_elements:
                high = middle - 1
            else:
                low = middle
        # A size goes up to `low`: of any magnitude, or near a multiple of a tile or of half one.
        smallest, largest = least(axis), max(low, least(axis))
        tiles = [tile for tile in _TILES if tile <= largest]
        if not tiles or random.random() < 0.3:
            size = (
                round(smallest * (largest / smallest) ** random.random())
                if smallest
                else random.randint(0, largest)
            )
        else:
            tile = random.choice(tiles)
            whole = tile * random.randint(0, min(largest // tile, _MULTIPLES))
            offset = random.choice((0, 1, -1, tile // 2, tile // 2 + 1, random.randrange(tile)))
            size = whole + offset
        size = min(max(step_to(axis, size), smallest), largest)
        sizes = try_sizes(problem, sizes, {axis.name: size})
    return sizes if sizes is not None and legal(problem, sizes) else None


def _changed(
    problem: Problem,
    case: Case,
    way: _Way,
    of: TensorSpec | VarAxis | ScalarSpec | None,
    amount: int,
) -> Case | None:
    """Return a case with one aspect changed; None where no such size is legal."""
    match of:
        case TensorSpec():
            if way is _Way.MAGNITUDE:
                # The fill's size times 10**(amount / 8), within what the dtype may hold
                fill = case.fills[of.name]
                low, high = (10.0 ** (end / 4) for end in (_NARROW if _is_narrow(of) else _WIDE))
                parameters = dict(fill.parameters)
                for name, value in fill.parameters.items():
                    if name in _SCALED and isinstance(value, float | int):
                        scaled = min(max(abs(value) * 10 ** (amount / 8), low), high)
                        parameters[name] = float(f"{scaled:.3g}")
                if not parameters and fill.kind in ("normal", "same_sign", "cauchy", "alternating"):
                    parameters["scale"] = min(max(float(f"{10 ** (amount / 8):.3g}"), low), high)
                fill = Fill(kind=fill.kind, parameters=parameters)
            else:
                fill = draw_fill(Random(amount), of)
            return dataclasses.replace(case, fills={**case.fills, of.name: fill})
        case VarAxis():
            size = case.axes[of.name]
            if way is _Way.MULTIPLIED:
                size = round(size * 2 ** (amount / 8))
            else:
                size += amount * of.multiple_of
            sizes = try_sizes(problem, case.axes, {of.name: step_to(of, size)})
            if sizes is None or not legal(problem, sizes):
                return None
            return dataclasses.replace(case, axes=sizes)
        case ScalarSpec():
            scalars = {**case.scalars, of.name: drawn_scalar(of, seed=amount)}
            return dataclasses.replace(case, scalars=scalars)
        case None:
            return case  # with another seed


def _case(
    planner: Planner,
    sizes: Mapping[str, int],
    *,
    fills: Mapping[str, Fill],
    scalars: Mapping[str, Scalar],
    variant: int,
) -> Case:
    names = [axis.name for axis in planner.problem.var_axes()]
    plain = Case(
        label=" ".join(f"{name}={sizes[name]}" for name in names)
        + "; "
        + ", ".join(f"{name} {fill.kind}" for name, fill in fills.items()),
        axes=dict(sizes),
        fills=dict(fills),
        scalars=dict(scalars),
        generator=planner.needs_generator,
    )
    seed = derive(planner.root_seed, serial.dumps(plain), variant)
    return dataclasses.replace(plain, seed=seed)
