"""Which dimensions follow which sizes, learnt from samples of one structure at several sizes.

Formats that make their inputs by code say nothing of axes. Each size is moved alone, sizes that
are refused alone are moved together with others of the same value, and every dimension that
follows is written as an axis, a line a * axis + b, a share axis // n, a product or a sum of axes,
else as the expression by which the code computed it, or as the number of groups of one size, the
last of them perhaps shorter, where every sample bears that out. What an output does in no such way
is an axis of its own, whose size the reference decides.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuassay.errors import ProblemError
from cuassay.model.axes import evaluate
from cuassay.model.dtype import DType

Shape = tuple[int, ...]
_STEPS = (1, 3)  # where these are refused, as many times the size itself: it may have divisors


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeSample:
    """The shapes of every tensor that goes in and comes out at some sizes.

    `computed` are numbers that the code made of the sizes, by their expressions over these.
    """

    inputs: tuple[Shape, ...]
    outputs: tuple[Shape, ...]
    computed: Mapping[str, int] = field(default_factory=dict)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Those of the inputs, then those of the outputs."""
        return (*self.inputs, *self.outputs)


Sampler = Callable[[Mapping[str, int]], ShapeSample]
InputSampler = Callable[[Mapping[str, int]], tuple[Shape, ...]]
_SHARES = (4, 16, 64)  # of all sizes together, at which rules over the inputs are held against more
Place = tuple[int, int]  # a tensor's number among all, a dimension's among its own


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntShapes:
    """Dimensions as text (literals, axis names), expressions by name, and the axes that are free.

    `expressions` maps names made up for dimensions to what they are computed from. `same` maps
    sizes to the axis that they always equal. `derived` maps axes of outputs that the reference
    decides to their sizes in the base sample.
    """

    shapes: tuple[tuple[str, ...], ...]
    expressions: Mapping[str, str]
    axes: tuple[str, ...]
    same: Mapping[str, str]
    derived: Mapping[str, int]

    def sizes(self, axes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes that the structure is made with at some sizes of its axes."""
        own = {name: axes[name] for name in self.axes}
        return own | {name: own[axis] for name, axis in self.same.items()}


def learn(
    sample: Sampler,
    sizes: Mapping[str, int],
    *,
    inputs: InputSampler | None = None,
    numbers: Collection[int] = (),
) -> LearntShapes:
    """Return what the shapes of `sample` follow.

    `inputs` samples the inputs alone, which costs less: a rule that the samples leave open, such as
    a least size, is held against what it makes of smaller sizes. `numbers` are those that the code
    names: the size of a group is one of them where samples leave several open.

    A size is no axis where the sample fails with it moved, where the number of dimensions
    changes, or where a dimension of an input follows it in no way that can be written. Raises
    what `sample(sizes)` raises.
    """
    learner = _Learner(sample, sizes, inputs, numbers)
    while True:
        dropped = learner.written()
        if isinstance(dropped, LearntShapes):
            return dropped
        learner.drop(dropped)


class _Learner:
    def __init__(
        self,
        sample: Sampler,
        sizes: Mapping[str, int],
        inputs: InputSampler | None,
        numbers: Collection[int],
    ) -> None:
        self._sample, self._sizes, self._inputs = sample, dict(sizes), inputs
        self._numbers = numbers
        self._base = sample(sizes)
        self._samples = [(dict(sizes), self._base)]  # that were accepted, with their sizes
        self._first_output = len(self._base.inputs)
        self._moved: dict[str, tuple[ShapeSample, ...]] = {}
        self._unit: dict[str, int] = {}  # what the steps of a moved size are multiples of
        self._same: dict[str, str] = {}
        for name in sizes:
            if name not in self._same:
                self._move(name)

    def _move(self, name: str) -> None:
        """Sample with one size moved, alone or with the sizes that equal it."""
        for unit in dict.fromkeys((1, self._sizes[name])):
            equal = [
                other
                for other, size in self._sizes.items()
                if size == self._sizes[name] and other not in (name, *self._moved, *self._same)
            ]
            companions = [
                (),
                *((other,) for other in equal),
                *([tuple(equal)] if len(equal) > 1 else []),
            ]
            for others in companions:
                group = (name, *others)
                moved = [self._at(dict.fromkeys(group, step * unit)) for step in _STEPS]
                if not others and all(one and one.shapes == self._base.shapes for one in moved):
                    return  # it may move, and no shape follows it
                if all(one is not None and one.shapes != self._base.shapes for one in moved):
                    self._moved[name] = tuple(one for one in moved if one is not None)
                    self._unit[name] = unit
                    self._same |= dict.fromkeys(others, name)
                    return

    def _at(self, steps: Mapping[str, int]) -> ShapeSample | None:
        """Return the sample with some sizes moved, None where the code or the ranks refuse it."""
        moved = {name: self._sizes[name] + step for name, step in steps.items()}
        try:
            found = self._sample(self._sizes | moved)
        except Exception:  # the code does not take these sizes: they stay as they are
            return None
        if [len(shape) for shape in found.shapes] != [len(shape) for shape in self._base.shapes]:
            return None
        self._samples.append((self._sizes | moved, found))
        return found

    def drop(self, name: str) -> None:
        """Take a size for none that may vary."""
        del self._moved[name], self._unit[name]
        self._same = {one: axis for one, axis in self._same.items() if axis != name}

    def written(self) -> LearntShapes | str:
        """Return everything as text; or the name of a size that cannot be an axis."""
        units = self._unit | {name: self._unit[axis] for name, axis in self._same.items()}
        together = self._at(units) if len(self._moved) > 1 else None
        smaller = []
        for share in _SHARES if self._inputs is not None and self._moved else ():
            moved = {name: max(self._sizes[name] // share, 1) for name in self._moved}
            moved |= {name: moved[axis] for name, axis in self._same.items()}
            sizes = self._sizes | moved
            try:
                made = self._inputs(sizes) if self._inputs is not None else ()
            except Exception:  # the code does not take these sizes
                continue
            if [len(shape) for shape in made] == [len(shape) for shape in self._base.inputs]:
                smaller.append((sizes, made))
        expressions: dict[str, str] = {}
        derived: dict[str, int] = {}
        shapes: list[tuple[str, ...]] = []
        for i, shape in enumerate(self._base.shapes):
            dimensions = []
            for k, size in enumerate(shape):
                names = self._followed((i, k))
                text = str(size) if not names else self._text((i, k), names, together)
                if text is None or not _holds(text, (i, k), smaller):
                    groups = self._groups((i, k), names[0], smaller) if len(names) == 1 else None
                    text = self._computed((i, k), smaller) or groups or text
                if text is None and i < self._first_output:
                    return names[-1]
                if text is None:
                    text = f"out{len(derived)}"
                    while text in self._sizes:
                        text += "_"
                    derived[text] = size
                elif names and text not in names:
                    text = self._named(text, expressions)
                dimensions.append(text)
            shapes.append(tuple(dimensions))
        return LearntShapes(
            shapes=tuple(shapes),
            expressions=expressions,
            axes=tuple(self._moved),
            same=self._same,
            derived=derived,
        )

    def _followed(self, place: Place) -> list[str]:
        """Return the axes that a dimension follows."""
        size = _at(self._base, place)
        return [
            name
            for name, moved in self._moved.items()
            if any(_at(one, place) != size for one in moved)
        ]

    def _text(self, place: Place, names: Sequence[str], together: ShapeSample | None) -> str | None:
        """Return how a dimension follows some axes, None where it is no line, product or sum."""
        size = _at(self._base, place)
        slopes: dict[str, int] = {}
        for name in names:
            found = {
                (_at(moved, place) - size) / (step * self._unit[name])
                for moved, step in zip(self._moved[name], _STEPS, strict=True)
            }
            slope = found.pop()
            if len(names) == 1 and not found and 0 < slope < 1 and (1 / slope).is_integer():
                share = f"{name} // {int(1 / slope)}"
                return share if size == slope * self._sizes[name] else None
            if found or slope != int(slope) or slope < 0:
                return None
            slopes[name] = int(slope)
        if len(names) == 1:
            return _line(slopes, size - slopes[names[0]] * self._sizes[names[0]])
        if together is None:
            return None
        product = math.prod(self._sizes[name] for name in names)
        grown = math.prod(self._sizes[name] + self._unit[name] for name in names)
        factor = size // product
        if size == factor * product and _at(together, place) == factor * grown:
            return " * ".join([*([str(factor)] if factor != 1 else []), *names])
        if _at(together, place) == size + sum(slopes[name] * self._unit[name] for name in names):
            rest = size - sum(slope * self._sizes[name] for name, slope in slopes.items())
            return _line(slopes, rest)
        return None

    def _computed(
        self, place: Place, smaller: Sequence[tuple[dict[str, int], tuple[Shape, ...]]]
    ) -> str | None:
        """Return the shortest expression of the code that a dimension has in every sample."""
        known = [(at, one.shapes) for at, one in self._samples] + [*smaller]
        for text in sorted(self._base.computed, key=lambda text: (len(text), text)):
            if self._base.computed[text] != _at(self._base, place):
                continue
            if _holds(text, place, known):
                return self._of_axes(text)
        return None

    def _groups(
        self, place: Place, name: str, smaller: Sequence[tuple[dict[str, int], tuple[Shape, ...]]]
    ) -> str | None:
        """Return a dimension as the number of groups along an axis, the last one perhaps shorter.

        None where no number that the code names, or several, are the size of such a group.
        """
        found = [
            text
            for text in {f"-(-{name} // {number})" for number in self._numbers if number > 1}
            if _holds(text, place, [(at, one.shapes) for at, one in self._samples] + [*smaller])
        ]
        return found[0] if len(found) == 1 else None

    def _of_axes(self, text: str) -> str:
        """Return an expression over sizes as one over axes and numbers."""
        axes, sizes = {**{name: name for name in self._moved}, **self._same}, self._sizes

        class OfAxes(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.expr:
                if node.id in axes:
                    return ast.Name(axes[node.id], ast.Load())
                return ast.Constant(sizes[node.id]) if node.id in sizes else node

        return ast.unparse(OfAxes().visit(ast.parse(text, mode="eval")))

    def _named(self, text: str, expressions: dict[str, str]) -> str:
        """Return the name of an expression axis; equal expressions share one."""
        for name, known in expressions.items():
            if known == text:
                return name
        number = len(expressions)
        while (name := f"d{number}") in self._sizes:
            number += 1
        expressions[name] = text
        return name


def dtype_of(tensor: Any) -> DType:
    """Return the dtype of a tensor. Raises ProblemError for one that cuassay does not judge."""
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        return DType(name)
    except ValueError:
        known = ", ".join(dtype.value for dtype in DType)
        raise ProblemError(f"dtype {name} is not supported; expected one of {known}") from None


def _holds(
    text: str, place: Place, known: Sequence[tuple[Mapping[str, int], tuple[Shape, ...]]]
) -> bool:
    """Whether an expression gives the size of a dimension in samples that have the tensor."""
    tensor, dimension = place
    try:
        return all(
            evaluate(text, sizes) == shapes[tensor][dimension]
            for sizes, shapes in known
            if tensor < len(shapes)
        )
    except ProblemError:  # it has no value, or none that is whole, at some sizes
        return False


def _at(sample: ShapeSample, place: Place) -> int:
    return sample.shapes[place[0]][place[1]]


def _line(slopes: Mapping[str, int], rest: int) -> str:
    text = " + ".join(name if a == 1 else f"{a} * {name}" for name, a in slopes.items())
    return text + (f" + {rest}" if rest > 0 else f" - {-rest}" if rest < 0 else "")
