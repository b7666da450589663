"""Which dimensions follow which sizes, learnt from samples of one structure at several sizes.

Formats that make their inputs by code say nothing of axes. Each size is moved alone and every
dimension that follows it is written as that axis, or as an integer line a * axis + b of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Shape = tuple[int, ...]
Sample = Callable[[Mapping[str, int]], Sequence[Shape]]  # sizes -> the shape of every tensor
_STEPS = (1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learnt:
    """Dimensions as text (literals, axis names), expressions by name, and the axes that are free.

    `expressions` maps names made up for dimensions to what they are computed from.
    """

    shapes: tuple[tuple[str, ...], ...]
    expressions: Mapping[str, str]
    axes: tuple[str, ...]


def learn(sample: Sample, sizes: Mapping[str, int]) -> Learnt:
    """Return what the shapes of `sample` follow, moving each of `sizes` alone.

    A size is no axis where the sample fails with it moved, where the number of dimensions
    changes, where a dimension follows it in no line, or where it shares a dimension with an
    axis before it. Raises what `sample(sizes)` raises.
    """
    base = tuple(tuple(shape) for shape in sample(sizes))
    lines: dict[tuple[int, int], tuple[str, int, int]] = {}
    free: list[str] = []
    for name in sizes:
        found = _follows(sample, sizes, name, base)
        if found and not found.keys() & lines.keys():
            lines |= {place: (name, a, b) for place, (a, b) in found.items()}
            free.append(name)
    return _written(base, lines, tuple(free), taken=set(sizes))


def _follows(
    sample: Sample, sizes: Mapping[str, int], name: str, base: Sequence[Shape]
) -> dict[tuple[int, int], tuple[int, int]] | None:
    """Return the line of each dimension that follows `name`; None where it is no axis."""
    moved = []
    for step in _STEPS:
        try:
            shapes = tuple(tuple(s) for s in sample({**sizes, name: sizes[name] + step}))
        except Exception:  # the code does not take this size: it stays as it is
            return None
        if [len(shape) for shape in shapes] != [len(shape) for shape in base]:
            return None
        moved.append(shapes)
    found = {}
    for i, shape in enumerate(base):
        for k, size in enumerate(shape):
            slopes = [(m[i][k] - size) / step for m, step in zip(moved, _STEPS, strict=True)]
            if slopes[0] != slopes[1] or slopes[0] != int(slopes[0]) or slopes[0] < 0:
                return None
            if slopes[0]:
                found[i, k] = int(slopes[0]), size - int(slopes[0]) * sizes[name]
    return found or None


def _written(
    base: Sequence[Shape],
    lines: Mapping[tuple[int, int], tuple[str, int, int]],
    free: tuple[str, ...],
    *,
    taken: set[str],
) -> Learnt:
    expressions: dict[str, str] = {}
    shapes = []
    for i, shape in enumerate(base):
        dimensions = []
        for k, size in enumerate(shape):
            if (i, k) not in lines:
                dimensions.append(str(size))
                continue
            name, a, b = lines[i, k]
            if (a, b) == (1, 0):
                dimensions.append(name)
                continue
            text = (f"{a} * {name}" if a != 1 else name) + (f" + {b}" if b > 0 else "")
            text += f" - {-b}" if b < 0 else ""
            dimensions.append(_named(text, expressions, taken))
        shapes.append(tuple(dimensions))
    return Learnt(shapes=tuple(shapes), expressions=expressions, axes=free)


def _named(text: str, expressions: dict[str, str], taken: set[str]) -> str:
    """Return the name of an expression axis; equal expressions share one."""
    for name, known in expressions.items():
        if known == text:
            return name
    number = len(expressions)
    while (name := f"d{number}") in taken:
        number += 1
    expressions[name] = text
    return name
