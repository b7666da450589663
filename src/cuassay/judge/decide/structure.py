"""Match what a call returned with the problem's outputs: count, kind, shape, dtype."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch

from cuassay.model.problem import Problem, TensorSpec
from cuassay.model.trace import ResultItem

if TYPE_CHECKING:
    from cuassay.checks.base import Run


def matched(
    problem: Problem, shapes: Sequence[tuple[int, ...]], run: Run, items: Iterable[ResultItem]
) -> list[torch.Tensor | str]:
    """Return one entry per declared output: its tensor, or in words why there is none.

    `shapes` are those that the reference returns: an axis may follow from values.
    Items carry output names where the candidate returned a dict; else position decides.
    """
    returned = list(items)
    names = [spec.name for spec in problem.outputs]
    if returned and all(item.name in names for item in returned):
        by_name = {item.name: item for item in returned}
        ordered = [by_name.get(name) for name in names]
    elif len(returned) == len(names):
        ordered = list(returned)
    else:
        why = f"expected {len(names)} outputs ({', '.join(names)}), got {len(returned)}"
        return [why] * len(names)
    return [
        _one(spec, item, run, shape)
        for spec, item, shape in zip(problem.outputs, ordered, shapes, strict=True)
    ]


def _one(
    spec: TensorSpec, item: ResultItem | None, run: Run, shape: tuple[int, ...]
) -> torch.Tensor | str:
    if item is None:
        return f"output '{spec.name}' was not returned"
    if item.kind == "scalar" and item.scalar is not None and not spec.shape:
        return torch.tensor(item.scalar, dtype=getattr(torch, spec.dtype.value))
    if item.kind != "tensor":
        return f"output '{spec.name}' is {item.type_name}, expected a tensor"
    if tuple(item.shape) != shape:
        return f"output '{spec.name}' has shape {list(item.shape)}, expected {list(shape)}"
    if item.dtype != spec.dtype.value:
        return f"output '{spec.name}' is {item.dtype}, expected {spec.dtype.value}"
    if item.buffer < 0:
        return f"output '{spec.name}' is too large to be read back ({list(item.shape)})"
    return run.tensor(item)
