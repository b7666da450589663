"""Recipes as Hypothesis strategies: sizes, fills with parameters, scalars; never elements.

Needs Hypothesis (extra `fuzz`): only the search imports this module. A recipe is a `Case`,
some hundred bytes that describe a tensor of any size, so that drawing and mutating one costs
about a millisecond. Public API of Hypothesis only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

from cuassay.inputs.fills import family
from cuassay.inputs.geometry import elements, least, legal, step_to, tensor_inputs, try_sizes
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC, fills_for, scalars_for
from cuassay.inputs.scalars import drawn_scalar
from cuassay.inputs.seeds import derive
from cuassay.model import serial
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Opaque, Positive, Probability
from cuassay.model.problem import Problem, Scalar, ScalarSpec, TensorSpec, VarAxis

Fills = st.SearchStrategy[Fill]
_TILES = (16, 32, 64, 128, 256, 512, 1024)
_WIDE, _NARROW = (-16, 16), (-12, 5)  # quarter decades of scale; float16 ends at 65504
_SCALAR_DRAWS = 64
_SCATTER, _MULTIPLES = 1 << 30, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the strategy draws: all that a case needs but its label and seed."""

    axes: Mapping[str, int]
    fills: Mapping[str, Fill]
    scalars: Mapping[str, Scalar]
    variant: int


def recipes(planner: Planner, *, max_elements: int) -> st.SearchStrategy[Case | None]:
    """Return the strategy of legal cases up to `max_elements` elements of inputs and outputs.

    None stands for a draw whose sizes break a constraint. The planner's root seed and the
    recipe give the case its seed.
    """
    return drawn(planner, max_elements=max_elements).map(lambda one: _case(planner, one))


@st.composite
def drawn(draw: st.DrawFn, planner: Planner, *, max_elements: int) -> Drawn | None:
    """Draw sizes axis by axis in a drawn order, then fills and scalars."""
    problem = planner.problem
    sizes = _sizes(draw, problem, max_elements)
    if sizes is None:
        return None
    regime = draw(st.sampled_from(NUMERIC))
    fills = fills_for(problem, regime)
    for spec in tensor_inputs(problem):
        if not isinstance(spec.domain, Opaque) and draw(st.booleans()):
            fills[spec.name] = draw(fill_strategy(spec))
    scalars = scalars_for(problem, planner.first_workload, seed=planner.root_seed)
    for scalar in problem.inputs:
        if isinstance(scalar, ScalarSpec) and draw(st.booleans()):
            number = draw(st.integers(0, _SCALAR_DRAWS - 1))
            scalars[scalar.name] = drawn_scalar(scalar, seed=number)
    return Drawn(axes=sizes, fills=fills, scalars=scalars, variant=draw(st.integers(0, 3)))


def _sizes(draw: st.DrawFn, problem: Problem, max_elements: int) -> dict[str, int] | None:
    """Draw each axis within what the axes drawn before leave of the elements."""
    axes = problem.var_axes()
    sizes = try_sizes(problem, _any_sizes(problem), {axis.name: least(axis) for axis in axes})
    if sizes is None:
        return None
    for axis in draw(st.permutations(axes)) if len(axes) > 1 else axes:
        cap = _cap(problem, sizes, axis, max_elements)
        changed = try_sizes(problem, sizes, {axis.name: draw(size_strategy(axis, cap))})
        if changed is None:
            return None
        sizes = changed
    return sizes if legal(problem, sizes) else None


def _any_sizes(problem: Problem) -> dict[str, int]:
    workload = problem.workloads[0]
    return dict(workload.axes)


def _cap(problem: Problem, sizes: Mapping[str, int], axis: VarAxis, max_elements: int) -> int:
    """Return the largest size of the axis that keeps to the elements, at least its least."""
    low = least(axis)
    high = max_elements if axis.maximum is None else axis.maximum
    while low < high:
        middle = (low + high + 1) // 2
        changed = try_sizes(problem, sizes, {axis.name: middle})
        if changed is not None and elements(problem, changed) > max_elements:
            high = middle - 1
        else:
            low = middle
    return low


def size_strategy(axis: VarAxis, cap: int) -> st.SearchStrategy[int]:
    """Return sizes up to `cap`: any, and scattered ones near multiples of tiles.

    Hypothesis favours the ends of a range and repeats itself, which suits climbing; sizes
    scattered by a hash are what meets a remainder that nobody listed.
    """
    low = least(axis)
    high = max(cap, low)
    scattered = st.integers(0, _SCATTER - 1).map(lambda number: _scattered(number, high))
    drawn_size = st.one_of(st.integers(low, high), scattered, scattered)
    return drawn_size.map(lambda size: min(max(step_to(axis, size), low), high))


def _scattered(number: int, high: int) -> int:
    """Return a size up to `high`: a tile's multiple plus 0, 1, -1, half the tile, or anything."""
    bits = derive(number, "size")
    fitting = [tile for tile in _TILES if tile <= high] or [1]
    bits, place = divmod(bits, len(fitting))
    tile = fitting[place]
    bits, multiple = divmod(bits, min(max(high // tile, 1), _MULTIPLES))
    bits, kind = divmod(bits, 6)
    offset = (0, 1, -1, tile // 2, tile // 2 + 1, bits % tile)[kind]
    return (multiple + 1) * tile + offset if kind < 3 else multiple * tile + offset


def fill_strategy(spec: TensorSpec) -> Fills:
    """Return the fills of one input with drawn parameters, within its domain."""
    if isinstance(spec.domain, Positive):
        return _kinds("normal", "sorted", "ones")
    if isinstance(spec.domain, Probability):
        scales = st.sampled_from((0.1, 1.0, 2.0, 10.0))
        return st.one_of(_one("normal", scale=scales), _kinds("one_hot"))
    return _FAMILIES[family(spec)](spec)


def _real(spec: TensorSpec) -> Fills:
    narrow = spec.dtype.is_liftable and spec.dtype.float_format.maximum < 1e5
    quarters = _NARROW if narrow else _WIDE
    scale = st.integers(*quarters).map(lambda quarter: float(f"{10 ** (quarter / 4):.2g}"))
    scaled = ("normal", "same_sign", "alternating", "cancelling", "cauchy", "sorted")
    return st.one_of(
        *(_one(kind, scale=scale) for kind in scaled),
        _one("offset", mean=scale, scale=st.sampled_from((0.01, 0.1, 1.0))),
        _one("lognormal", sigma=st.sampled_from((0.5, 1.0, 2.0))),
        _one("outlier", scale=scale, factor=st.sampled_from((10.0, 100.0))),
        _one("constant", value=scale),
        _one("one_hot", value=scale),
        _one("late_peak", value=scale),
        _one("near_constant", relative=st.sampled_from((1e-4, 1e-3, 1e-2))),
        _kinds("large_mean_small_variance", "ones", "zeros", "small_integers"),
        _kinds("powers_of_two", "mixed_scale", "tiny", "confident", "low_bits"),
    )


def _index(_: TensorSpec) -> Fills:
    exponents = st.sampled_from((0.5, 1.0, 1.2, 2.0))
    rows = st.sampled_from((0.0, 1.0, 2.0**40))
    return st.one_of(
        _kinds("uniform", "single_hot", "two_hot", "arange", "distinct", "sorted", "sentinel"),
        _one("zipf", exponent=exponents),
        _one("single_hot", row=rows),
    )


_FAMILIES: Mapping[str, Callable[[TensorSpec], Fills]] = {
    "real": _real,
    "index": _index,
    "offsets": lambda _: _kinds("uniform", "even", "ragged"),
    "mask": lambda _: st.one_of(
        _kinds("ones"), _one("uniform", share=st.sampled_from((0.05, 0.3, 0.7, 0.95)))
    ),
    "integers": lambda _: _kinds("uniform", "ones", "zeros", "arange"),
    "choice": lambda _: _kinds("uniform", "ones", "zeros", "arange"),
}


def _kinds(*kinds: str) -> Fills:
    return st.sampled_from([Fill(kind=kind) for kind in kinds])


def _one(kind: str, **parameters: st.SearchStrategy[float]) -> Fills:
    return st.fixed_dictionaries(parameters).map(lambda made: Fill(kind=kind, parameters=made))


def _case(planner: Planner, one: Drawn | None) -> Case | None:
    if one is None:
        return None
    plain = Case(
        label="",
        axes=one.axes,
        fills=one.fills,
        scalars=one.scalars,
        generator=planner.needs_generator,
    )
    seed = derive(planner.root_seed, "recipe", serial.dumps(plain), one.variant)
    names = [axis.name for axis in planner.problem.var_axes()]
    sizes = " ".join(f"{name}={one.axes[name]}" for name in names)
    kinds = ", ".join(f"{name} {fill.kind}" for name, fill in one.fills.items())
    return Case(
        label=f"{sizes}; {kinds}",
        axes=one.axes,
        fills=one.fills,
        scalars=one.scalars,
        seed=seed,
        generator=planner.needs_generator,
    )
