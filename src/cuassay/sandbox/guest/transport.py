"""The worker's end of the data path: opens what the judge shared, writes results into it.

A data message is {"kind": "memfd" | "ipc", "layout": [...], ...}. A layout entry places one
tensor: {"name", "dtype", "shape", "offset"}; a scalar input is {"name", "scalar"}. Answers
of a case follow its inputs under "answers".
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from cuassay.model import serial
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Scalar
from cuassay.sandbox import device_memory
from cuassay.sandbox.guest.interface import Given
from cuassay.sandbox.guest.items import DTYPES, host_memory, plain_tensor
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.memory.placement import as_bytes, copy_into

ALIGNMENT = 256
_CHUNK = 1 << 30


def nbytes(dtype: str, shape: Sequence[int]) -> int:
    """Return the bytes of a contiguous tensor."""
    return DTYPES[dtype].itemsize * math.prod(shape)


def aligned_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Return aligned offsets for blocks of the given sizes, and the bytes of all."""
    offsets, end = [], 0
    for size in sizes:
        offsets.append(end)
        end += -(-size // ALIGNMENT) * ALIGNMENT
    return offsets, end


class WorkerTransport:
    """Reads tensors from and writes them to memory that the judge owns."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._arenas = device_memory.OpenedArenas()

    def open(self, data: Mapping[str, Any] | None, fds: Sequence[int]) -> Given:
        """Return what the judge handed over for one step."""
        if data is None:
            return Given()
        values: dict[str, torch.Tensor | Scalar] = {}
        for entry in data.get("layout", ()):
            if "scalar" in entry:
                values[entry["name"]] = serial.from_json(float | int | bool, entry["scalar"])
            else:
                values[entry["name"]] = self._tensor(entry, data, fds)
        answers = tuple(self._tensor(entry, data, fds) for entry in data.get("answers", ()))
        return Given(inputs=values, owned=data["kind"] != "ipc", answers=answers)

    def _tensor(
        self, entry: Mapping[str, Any], data: Mapping[str, Any], fds: Sequence[int]
    ) -> torch.Tensor:
        dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
        size, offset = nbytes(entry["dtype"], shape), int(entry["offset"])
        if data["kind"] == "ipc":
            arena = self._arenas.open(data["arena"])
            return arena[offset : offset + size].view(dtype).reshape(shape)
        tensor = placement.allocate(shape, dtype, CPU, label=entry["name"])
        target, done = host_memory(tensor), 0
        while done < size:
            part = os.preadv(fds[0], [target[done : done + _CHUNK]], offset + done)
            if not part:
                raise EOFError(f"the segment ends {size - done} bytes before '{entry['name']}'")
            done += part
        return tensor.to(self._device)

    def write(
        self, data: Mapping[str, Any], fds: Sequence[int], tensors: Sequence[torch.Tensor]
    ) -> None:
        """Write contiguous tensors at the offsets that the judge chose."""
        for tensor, offset in zip(tensors, data["offsets"], strict=True):
            if data["kind"] == "ipc":
                content = as_bytes(plain_tensor(tensor))
                arena = self._arenas.open(data["arena"])
                copy_into(arena[offset : offset + content.numel()], content)
            else:
                fd = fds[0]
                start = int(offset)
                source, done = host_memory(plain_tensor(tensor).cpu()), 0
                while done < len(source):
                    done += os.pwrite(fd, source[done : done + _CHUNK], start + done)
        if data["kind"] == "ipc":
            torch.cuda.synchronize()
