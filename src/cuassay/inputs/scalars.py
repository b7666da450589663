"""Values of Python scalar arguments: the usual one, another legal one, a random legal one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

from cuassay.model.axes import evaluate
from cuassay.model.domain import Choice, Domain, IntegerRange, Positive, Real, SizeOf
from cuassay.model.dtype import DType
from cuassay.model.problem import STATE_SOURCE, Problem, Scalar, ScalarSpec

_WIDE = 100.0  # high / low from which a range is drawn in logarithms
_SCALAR_RANGE = (0.5, 2.0)  # for a positive scalar without bounds and without a default


def sizes_given(problem: Problem, sizes: Mapping[str, int]) -> dict[str, Scalar]:
    """Return the scalars that repeat the size of an axis: they follow it in every case."""
    return {
        spec.name: evaluate(spec.domain.axis, sizes)
        for spec in problem.inputs
        if isinstance(spec, ScalarSpec) and isinstance(spec.domain, SizeOf)
    }


def may_be_sizes(problem: Problem) -> bool:
    """Whether some integer argument follows no axis: outputs may be of any size it says.

    One that is the same in every call, and what says where a module's state comes from, are not
    meant.
    """

    def may_be(spec: ScalarSpec) -> bool:
        if spec.dtype.is_floating or spec.dtype is DType.BOOL or spec.name == STATE_SOURCE:
            return False
        match spec.domain:
            case SizeOf():
                return False
            case Choice(values=values):
                return len(values) > 1
        return True

    return any(isinstance(spec, ScalarSpec) and may_be(spec) for spec in problem.inputs)


def default_scalar(spec: ScalarSpec, *, seed: int = 0) -> Scalar:
    """Return the value that the problem usually passes, or a plain legal one."""
    if spec.default is not None:
        return spec.default
    return drawn_scalar(spec, seed=seed)


def drawn_share(*seed: object) -> float:
    """Return a number in [0, 1) that depends on nothing but the seed."""
    text = " ".join(map(str, seed))
    digest = hashlib.blake2b(text.encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little") / 2.0**56


def drawn_scalar(spec: ScalarSpec, *, seed: int) -> Scalar:
    """Return a legal value drawn by `seed`; ranges over two decades are drawn in logarithms."""
    share = drawn_share(seed)
    match spec.domain:
        case Choice(values=values):
            return values[min(int(share * len(values)), len(values) - 1)]
        case IntegerRange(low=low, high=high):
            return low + min(int(share * (high - low + 1)), high - low)
    if spec.dtype is DType.BOOL:
        return share < 0.5
    if not spec.dtype.is_floating:
        return int(spec.default) if spec.default is not None else 1
    low_high = _bounds(spec.domain, spec.default)
    return _between(*low_high, share)


def near_powers(problem: Problem, usual: Mapping[str, Scalar], *, seed: int) -> dict[str, Scalar]:
    """Return floating scalars less than 1 % from the power of two that is nearest to the usual one.

    Those of at least 2^-8 of it: so that what takes one for the other is wrong in 16 bits too. None
    of a scalar whose domain has no such value.
    """
    found: dict[str, Scalar] = {}
    for spec in problem.inputs:
        value = usual.get(spec.name)
        if not isinstance(spec, ScalarSpec) or not isinstance(value, float) or value <= 0.0:
            continue
        low, high = _bounds(spec.domain, value) if not isinstance(spec.domain, Choice) else (0, 0)
        share = drawn_share(seed, spec.name)
        near = (1.0 + (2.0 if share < 0.5 else -1.0) * 2.0**-8) * 2.0 ** round(math.log2(value))
        if low <= near <= high:
            found[spec.name] = near
    return found


def at_declared_ends(problem: Problem, *, largest: bool) -> dict[str, Scalar]:
    """Return every floating scalar at the least or largest value that its domain declares.

    Together, since a kernel may look at two of them: no momentum and no decay. None where fewer
    than two have such an end, since each is moved alone anyway.
    """
    found: dict[str, Scalar] = {}
    for spec in problem.inputs:
        if (
            isinstance(spec, ScalarSpec)
            and spec.dtype.is_floating
            and isinstance(spec.domain, Real)
        ):
            end = spec.domain.high if largest else spec.domain.low
            if end is not None:
                found[spec.name] = float(end)
    return found if len(found) > 1 else {}


def moved_scalar(spec: ScalarSpec, current: Scalar) -> Scalar | None:
    """Return a legal value far from `current`, or None where the domain has no other."""
    match spec.domain:
        case Choice(values=values):
            others = [value for value in values if value != current]
            return max(others, key=lambda value: abs(float(value) - float(current)), default=None)
        case IntegerRange(low=low, high=high):
            far: int = high if current - low <= high - current else low
            return far if far != current else None
    if spec.dtype is DType.BOOL:
        return not current
    if not spec.dtype.is_floating:
        return None  # an integer of unknown meaning may be a size: no value is known legal
    moved = max(_bounds(spec.domain, current), key=lambda value: _distance(value, float(current)))
    return moved if moved != current else None


def _distance(value: float, current: float) -> float:
    if value > 0 and current > 0:
        return abs(math.log(value / current))
    return abs(value - current)


def _bounds(domain: Domain, usual: Scalar | None) -> tuple[float, float]:
    """Return the range to draw from: declared bounds, else a neighbourhood of `usual`."""
    low = getattr(domain, "low", None) if isinstance(domain, Real | Positive) else None
    high = getattr(domain, "high", None) if isinstance(domain, Real | Positive) else None
    if usual is None or usual == 0:
        near = _SCALAR_RANGE if usual is None else (0.0, 0.5)
    else:
        value = float(usual)
        # Of an epsilon the order of magnitude matters, of other numbers the leading digits.
        ends = (value / 30.0, value * 30.0) if abs(value) < 1e-2 else (value * 0.5, value * 1.5)
        near = min(ends), max(ends)
    bottom = near[0] if low is None else float(low)
    top = near[1] if high is None else float(high)
    if bottom > top:  # one declared bound lies beyond the neighbourhood
        return (bottom, bottom) if high is None else (top, top)
    return bottom, top


def _between(low: float, high: float, share: float) -> float:
    if low > 0 and high / low >= _WIDE:
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)
