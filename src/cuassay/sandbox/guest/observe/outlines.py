"""Calls the candidate at sizes that fit no memory, and sends what it would launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from cuassay.build.machine import candidates as machine
from cuassay.errors import MissingToolError
from cuassay.inputs.scalars import sizes_given
from cuassay.model.axes import shape_of
from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.problem import TensorSpec
from cuassay.model.steps import Outline
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory.hollow import hollow
from cuassay.sandbox.guest.observe.recordings import made_of


def outline(host: Host, step: Outline, cases: Sequence[Case]) -> Made:
    """Execute an Outline: send the recording of a call whose tensors are hollow.

    A call that asks for data ends there, and a note says so.
    """
    if machine.current is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    recorder = machine.current.recorder
    slot, sizes = host.slot(step.slot), cases[step.case].axes
    why, raised = "", False
    recorder.start(outline=True)
    try:
        with hollow(step.budget_s) as mode:
            # A slot's values as they are at other sizes: tensors in their shapes, and lengths
            shapes = {
                spec.name: shape_of(spec.shape, sizes)
                for spec in host.problem.inputs
                if isinstance(spec, TensorSpec)
            }
            values = [
                mode.tensor(shapes[name], value.dtype)
                if isinstance(value, torch.Tensor) and tuple(value.shape) != shapes[name]
                else value
                for name, value in {**slot.values, **sizes_given(host.problem, sizes)}.items()
            ]
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
    if mode.ended and not raised:  # what it did instead, other tensors would not have it do
        recording = dataclasses.replace(recording, launches=(), refused=())
    return made_of(recording)
