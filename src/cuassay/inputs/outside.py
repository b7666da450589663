"""Which elements of a case's inputs its domains leave open: what pads, what no length reaches."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from cuassay.formats.native.scale_layouts import swizzled
from cuassay.inputs.geometry import tensor_inputs
from cuassay.model.axes import evaluate
from cuassay.model.domain import Index, Offsets, Swizzled
from cuassay.model.problem import Problem, Scalar

Values = Mapping[str, torch.Tensor | Scalar]


def outside(problem: Problem, values: Values, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Return, by input, a bool tensor that is True where the stated domains allow anything.

    Entries of a table beyond the length of its row, rows beyond the last of short offsets, and
    what pads the tiles of swizzled scales. Inputs without such an element are left out.
    """
    found: dict[str, torch.Tensor] = {}
    for spec in tensor_inputs(problem):
        value = values[spec.name]
        if not isinstance(value, torch.Tensor) or not value.numel():
            continue
        open_ = torch.zeros(value.shape, dtype=torch.bool)
        match spec.domain:
            case Index(lengths=lengths, per=per) if lengths:
                used = -(-_integers(values[lengths]) // per)
                open_ |= torch.arange(value.shape[-1]) >= used.unsqueeze(-1)
            case Swizzled(rows=rows, columns=columns, layout=layout):
                padding = torch.ones(value.shape, dtype=torch.bool)
                padding[: evaluate(rows, sizes), : evaluate(columns, sizes)] = False
                open_ |= swizzled(padding, layout)
        # `ends` is where the rows of an axis end that offsets reach, and the axis.
        ends = [
            (int(_integers(values[spec.name]).reshape(-1)[-1]), spec.domain.axis)
            for spec in tensor_inputs(problem)
            if isinstance(spec.domain, Offsets) and spec.domain.short
        ]
        for last, axis in ends:
            if spec.shape[:1] == (axis,):
                open_[last:] = True
        if bool(open_.any()):
            found[spec.name] = open_
    return found


def _integers(value: torch.Tensor | Scalar) -> torch.Tensor:
    assert isinstance(value, torch.Tensor)
    return value.detach().cpu().long()
