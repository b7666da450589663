"""Slices of results too large to send whole, and a caller that writes into what it got."""

from __future__ import annotations

from dataclasses import replace

import torch

from cuassay.model.scenario import Poison
from cuassay.model.steps import KeepMemory, Overwrite, ReadSlices
from cuassay.model.trace import ResultItem
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory import placement


def read(host: Host, step: ReadSlices) -> Made:
    """Send slices `step.places` along an axis of every tensor of a result.

    A tensor without that axis, or too short for a place, is described and not sent.
    """
    found: list[ResultItem] = []
    tensors: list[torch.Tensor] = []
    for name, value in host.result(step.result):
        item = items.describe(value, name=name, inputs={})
        fits = step.axis < len(item.shape) and max(step.places, default=0) < item.shape[step.axis]
        if item.kind == "tensor" and isinstance(value, torch.Tensor) and fits:
            places = torch.tensor(step.places, device=value.device)
            taken = items.plain_tensor(value.index_select(step.axis, places))
            item = replace(item, shape=tuple(taken.shape), buffer=len(tensors))
            tensors.append(taken)
        found.append(item)
    return Made(items=tuple(found), tensors=tuple(tensors))


def overwrite(host: Host, step: Overwrite) -> Made:
    """Fill every tensor of a result with 0xFF bytes in place, without a version bump."""
    for _, held in host.result(step.result):
        value = held.detach() if isinstance(held, torch.Tensor) else held
        # Whether elements share memory: nobody can write into an expanded tensor
        if (
            isinstance(value, torch.Tensor)
            and value.numel()
            and not any(
                stride == 0 and size > 1
                for stride, size in zip(value.stride(), value.shape, strict=True)
            )
        ):
            if value.is_contiguous():
                placement.fill(value, Poison.ONES)
            else:
                filled = torch.empty(value.shape, dtype=value.dtype, device=value.device)
                placement.fill(filled, Poison.ONES)
                placement.copy_into(value, filled)
    if host.device.on_gpu:
        torch.cuda.synchronize()
    return Made()


def keep_memory(host: Host, step: KeepMemory) -> Made:
    """Put other tensors in the same memory into the places of a result's tensors."""
    held = host.result(step.result)
    for number, (name, value) in enumerate(held):
        if type(value) is torch.Tensor and value.layout is torch.strided:
            with torch.no_grad():
                view = torch.empty(0, dtype=value.dtype, device=value.device)
                where = value.storage_offset(), value.shape, value.stride()
                view.set_(value.untyped_storage(), *where)
            held[number] = name, view
    return Made()
