"""Fewest and simplest elements: the last step of shrinking, for tensors of a few elements.

A tensor becomes an `explicit` fill; non-zero elements are removed by delta debugging
(Zeller and Hildebrandt, IEEE TSE 28(2), 2002), what is left becomes one or a small integer.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from cuassay.inputs.fills import family
from cuassay.model.case import Case, Fill
from cuassay.model.domain import Index, Opaque, Positive, Probability, Swizzled
from cuassay.model.dtype import DType
from cuassay.model.problem import Scalar, TensorSpec

if TYPE_CHECKING:
    import torch

MAX_ELEMENTS = 128
_PLAIN = frozenset({"zeros", "ones", "single_hot", "arange"})
_PACKED = frozenset({DType.FLOAT4_E2M1FN_X2})


def simplest_elements(
    case: Case,
    spec: TensorSpec,
    *,
    accept: Callable[[Case], bool],
    inputs: Callable[[Case], Mapping[str, torch.Tensor | Scalar]],
) -> Case:
    """Return `case` with the fewest and simplest elements of one input that `accept` takes.

    Nothing changes where the fill is plain already, the tensor has more than 128 elements,
    or its domain does not let single elements be chosen.
    """
    if spec.dtype in _PACKED or isinstance(spec.domain, Opaque | Probability | Positive | Swizzled):
        free = False
    elif isinstance(spec.domain, Index):
        free = not spec.domain.unique
    else:
        free = family(spec) in ("real", "integers", "lengths")
    fill = case.fills.get(spec.name)
    if not free or (fill and fill.kind in _PLAIN):
        return case
    values = _values(inputs(case)[spec.name])
    if not values:
        return case

    def fails(changed: Sequence[float]) -> bool:
        return accept(_with(case, spec, changed))

    if not fails(values):
        return case
    hot = [index for index, value in enumerate(values) if value != 0.0]
    kept = minimal_subset(hot, lambda some: fails(_only(values, some)))
    values = _only(values, kept)
    # All ones, or one element after another made one or the least integer that fails.
    current = tuple(values)
    plain = _replaced(current, dict.fromkeys(kept, 1.0))
    if fails(plain):
        values = plain
    else:
        for index in kept:
            current = _simplest_value(current, index, fails)
        values = current
    return _with(case, spec, values)


def has_magnitude(spec: TensorSpec) -> bool:
    """Whether the input holds real numbers, one an element."""
    return family(spec) == "real" and spec.dtype not in _PACKED


def peak(tensor: object) -> float:
    """Return the element of the largest magnitude, or 0 where there is no finite one."""
    import torch

    if not isinstance(tensor, torch.Tensor) or not tensor.numel():
        return 0.0
    flat = tensor.detach().double().reshape(-1)
    value = float(flat[flat.abs().argmax()])
    return value if math.isfinite(value) else 0.0


def minimal_subset(
    items: Sequence[int], still_fails: Callable[[Sequence[int]], bool]
) -> tuple[int, ...]:
    """Return a subset of `items` that still fails and of which no single item can go.

    `still_fails(items)` is taken to hold. Removes chunks of half the items, a quarter and so
    on down to one.
    """
    kept, parts = tuple(items), 1
    while kept:
        size = math.ceil(len(kept) / parts)
        for start in range(0, len(kept), size):
            smaller = kept[:start] + kept[start + size :]
            if still_fails(smaller):
                break
        else:
            smaller = None
        if smaller is not None:
            kept, parts = smaller, max(parts - 1, 1 if len(smaller) < 2 else 2)
        elif size == 1:
            return kept
        else:
            parts = min(2 * parts, len(kept))
    return kept


def _simplest_value(
    values: tuple[float, ...], index: int, fails: Callable[[Sequence[float]], bool]
) -> tuple[float, ...]:
    """Return `values` with one element simpler.

    1, -1, the least integer of its sign, or the value with one or two significant digits.
    """

    def with_value(value: float) -> tuple[float, ...]:
        return _replaced(values, {index: value})

    present = values[index]
    for simple in (1.0, -1.0):
        if present == simple or fails(with_value(simple)):
            return with_value(simple)
    sign, high = math.copysign(1.0, present), math.ceil(abs(present))
    if not fails(with_value(sign * high)):
        rounded = (float(f"{present:.{digits}g}") for digits in (1, 2))
        simpler = (with_value(value) for value in rounded if value != present)
        return next(filter(fails, simpler), values)
    low = 1  # passes: tried above
    while high - low > 1:
        middle = (low + high) // 2
        if fails(with_value(sign * middle)):
            high = middle
        else:
            low = middle
    return with_value(sign * high)


def _values(tensor: object) -> tuple[float, ...]:
    """Return the elements row-major, or nothing where there are too many or not finite ones."""
    import torch

    if not isinstance(tensor, torch.Tensor) or not 0 < tensor.numel() <= MAX_ELEMENTS:
        return ()
    values = tuple(float(value) for value in tensor.detach().double().reshape(-1).tolist())
    return values if all(map(math.isfinite, values)) else ()


def _with(case: Case, spec: TensorSpec, values: Sequence[float]) -> Case:
    if not any(values):
        fill = Fill(kind="zeros") if family(spec) != "index" else _explicit(values)
    elif all(value == 1.0 for value in values) and family(spec) != "index":
        fill = Fill(kind="ones")
    else:
        fill = _explicit(values)
    return dataclasses.replace(case, fills={**case.fills, spec.name: fill})


def _explicit(values: Sequence[float]) -> Fill:
    return Fill(kind="explicit", parameters={"values": tuple(values)})


def _only(values: Sequence[float], kept: Sequence[int]) -> tuple[float, ...]:
    wanted = set(kept)
    return tuple(value if index in wanted else 0.0 for index, value in enumerate(values))


def _replaced(values: Sequence[float], changes: Mapping[int, float]) -> tuple[float, ...]:
    return tuple(changes.get(index, value) for index, value in enumerate(values))
