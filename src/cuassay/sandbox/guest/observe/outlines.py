"""Calls the candidate at sizes that fit no memory, and sends what it would launch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch

from cuassay.build.machine import candidates as machine
from cuassay.errors import MissingToolError
from cuassay.inputs.scalars import sizes_given
from cuassay.model.axes import evaluate, shape_of
from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.domain import Index, IntegerRange, Lengths, Offsets
from cuassay.model.problem import TensorSpec
from cuassay.model.steps import Outline
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory.hollow import hollow
from cuassay.sandbox.guest.observe.recordings import made_of

_INDICES = 1 << 21  # elements of an input of indices that gets memory
_GOLDEN = (5**0.5 - 1) / 2  # multiples of which lie evenly between the integers
_UPPER = 0.75  # of an axis, in which its indices lie
_PARTS = 3  # as of a query beside its key and value


def outline(host: Host, step: Outline, cases: Sequence[Case]) -> Made:
    """Execute an Outline: send the recording of a call whose tensors are hollow.

    Inputs of indices hold large legal values. A call that asks for data ends there, and a
    note says so.
    """
    if machine.current is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    recorder = machine.current.recorder
    slot, sizes = host.slot(step.slot), cases[step.case].axes
    why, raised = "", False
    indices = {
        spec.name: made
        for spec in host.problem.inputs
        if isinstance(spec, TensorSpec) and (made := largest_values(spec, sizes)) is not None
    }
    try:
        with hollow(step.budget_s) as mode:
            recorder.start(outline=True, holds=mode.holds)
            # A slot's values as they are at other sizes: tensors in their shapes, and lengths
            shapes = {
                spec.name: shape_of(spec.shape, sizes)
                for spec in host.problem.inputs
                if isinstance(spec, TensorSpec)
            }
            values: list[object] = []
            for name, value in {**slot.values, **sizes_given(host.problem, sizes)}.items():
                if name in indices:
                    values.append(indices[name])
                elif isinstance(value, torch.Tensor) and name == step.packed:
                    strides = packed_strides(shapes[name])
                    values.append(mode.tensor(shapes[name], value.dtype, strides))
                elif isinstance(value, torch.Tensor) and tuple(value.shape) != shapes[name]:
                    values.append(mode.tensor(shapes[name], value.dtype))
                else:
                    values.append(value)
            if host.convention is Convention.RETURNS:
                outputs = []
            else:
                outputs = [
                    mode.tensor(shape_of(spec.shape, sizes), items.DTYPES[spec.dtype.value])
                    for spec in host.problem.outputs
                ]
            try:
                host.candidate(*values, *outputs)
            except Exception as error:
                why, raised = f"{type(error).__name__}: {error}", True
    finally:
        recorder.on = False
    recording = recorder.recording()
    if why or mode.ended:
        recording = dataclasses.replace(recording, notes=((mode.ended or why)[:300],))
    if not raised or mode.ended:  # host code that goes on had an answer to a refused launch
        recording = dataclasses.replace(recording, refused=())
    if mode.ended and not raised:  # what it did instead, other tensors would not have it do
        recording = dataclasses.replace(recording, launches=(), refused=())
    return made_of(recording)


def largest_values(spec: TensorSpec, sizes: Mapping[str, int]) -> torch.Tensor | None:
    """Return an input of integers with large values that are legal at some sizes.

    Indices begin with the last one of their axis and lie all over its upper three quarters: a
    product of 32 bits that wraps is negative for some of them. Offsets are spread evenly up to
    the size of theirs. None for an input whose legal values only the problem's generator knows,
    for one of numbers, and for one that is too large.
    """
    shape = shape_of(spec.shape, sizes)
    count = math.prod(shape)
    if spec.dtype.is_floating or count > _INDICES:
        return None
    match spec.domain:
        case Index(axis=axis, unique=unique):
            size = evaluate(axis, sizes)
            if size < 1 or (unique and count > size):
                return None
            places = torch.arange(count, dtype=torch.float64)
            if unique:
                values = size - 1 - places.long()
            else:
                values = size - 1 - (places * _GOLDEN % 1.0 * _UPPER * size).long()
        case Lengths(axis=axis):
            values = torch.full((count,), evaluate(axis, sizes))
        case Offsets(axis=axis):
            values = torch.linspace(0, evaluate(axis, sizes), count, dtype=torch.float64).long()
        case IntegerRange(high=high):
            values = torch.full((count,), high)
        case _:
            return None
    return values.to(items.DTYPES[spec.dtype.value]).reshape(shape)


def packed_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a part of a wider tensor: three such parts lie beside each other."""
    strides, step = [], 1
    for number, size in enumerate(reversed(shape)):
        strides.append(step)
        step *= size * (_PARTS if number == 0 else 1)
    return tuple(reversed(strides))
