"""Guard zones around every allocation of a process in guarded mode.

On CUDA an allocator below torch surrounds whatever anybody asks torch for; on the CPU the
inputs and outputs that the worker makes are guarded, and what the candidate takes from torch
while it is called (see guard_dispatch). Memory that a kernel takes from the driver or the C
library by itself stays as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from cuassay.build import zones
from cuassay.model.device import Device
from cuassay.model.scenario import Poison
from cuassay.model.steps import Mode
from cuassay.sandbox.guest.interface import Around, Made
from cuassay.sandbox.guest.memory import placement
from cuassay.sandbox.guest.memory.guard_allocator import CudaAllocator
from cuassay.sandbox.guest.memory.guard_dispatch import (
    GuardMode,
    HostGuards,
    guarded_compiled_code,
)
from cuassay.sandbox.guest.memory.guard_zones import ZoneLedger

_BYTES = {Poison.NAN: 0xFF, Poison.ONES: 0xFF, Poison.ZEROS: 0x00, Poison.NEGATED: 0x4F}


class Guards:
    """The guarded allocations of this process; `placement` asks it for the worker's own."""

    def __init__(self, device: Device) -> None:
        self._ledger = ZoneLedger()
        self._host = HostGuards(self._ledger)
        self._below: CudaAllocator | None = None
        self._cpu = not device.on_gpu
        self.reach = "inputs and outputs" if self._cpu else "nothing"
        self._open = contextlib.ExitStack()

    def install_below(self) -> None:
        """Put the allocator under torch; CUDA must not have started."""
        with contextlib.suppress(Exception):  # then nothing is guarded, which `reach` says
            below = CudaAllocator(self._ledger)
            below.install()
            self._below, self.reach = below, "every allocation through torch"
        if self._below is not None and "torch._inductor.compile_fx" in sys.modules:
            # Its trees of CUDA graphs read the state of torch's own allocator and fail under
            # any other; graphs that stand alone do not.
            config: Any = importlib.import_module("torch._inductor.config")
            config.triton.cudagraph_trees = False

    def surround(self, around: Around) -> None:
        """Let the candidate's allocations on the CPU be guarded from now on."""
        if self._cpu:
            around.entered["guards"] = lambda: GuardMode(self._host)
            self._open.enter_context(guarded_compiled_code(self._host))
            self.reach = "inputs, outputs and fresh tensors"

    def zone_bytes_at(self, address: int) -> int:
        """Return the bytes of each of the zones around a live block, 0 where there is none."""
        block = self._ledger.blocks.get(address)
        return block.guard if block is not None and block.live else 0

    def close(self) -> None:
        """Let compiled code have plain memory again."""
        self._open.close()

    @property
    def exhausted(self) -> bool:
        """Whether the device had no memory left for an allocation."""
        return self._below is not None and self._below.exhausted

    def allocate(
        self, shape: Sequence[int], dtype: torch.dtype, device: Device, label: str
    ) -> torch.Tensor:
        """Return an unfilled contiguous tensor of the worker's own between guard zones."""
        size = dtype.itemsize
        for length in shape:
            size *= length
        if not self._cpu or device.on_gpu or not size:
            made = torch.empty(tuple(shape), dtype=dtype, device=device)
            self.name(made, label)
            return made
        strides = torch.empty(tuple(shape), device="meta").stride()
        return self._host.tensor(shape, dtype, strides=strides, size=size, label=label)

    def name(self, tensor: torch.Tensor, label: str) -> None:
        """Remember what a tensor is, unless that is known."""
        with torch._C.DisableTorchFunctionSubclass(), contextlib.suppress(RuntimeError):
            block = self._ledger.blocks.get(tensor.untyped_storage().data_ptr())
            if block is not None and not block.label:
                block.label = label

    @contextlib.contextmanager
    def poisoned(self, poison: Poison) -> Iterator[None]:
        """While active, fresh memory holds the pattern; zones hold one that goes with it."""
        self._ledger.turn(nan=poison is not Poison.NEGATED)
        self._fill_with(_BYTES.get(poison))
        try:
            # What torch and C++ allocate out of sight holds the pattern all the same.
            with placement.perturbed(_BYTES.get(poison) if self._cpu else None):
                yield
        finally:
            self._fill_with(None)

    def _fill_with(self, byte: int | None) -> None:
        self._host.byte = byte
        if self._below is not None:
            self._below.byte = byte

    def report(self) -> tuple[tuple[str, str], ...]:
        """Return what is guarded and every damaged zone seen so far, as facts."""
        if not self._cpu:
            torch.cuda.synchronize()
        self._ledger.inspect()
        damaged = (json.dumps(dataclasses.asdict(found)) for found in self._ledger.damage)
        return (("reach", self.reach), *(("damage", text) for text in damaged))


def install(device: Device) -> object:
    """Make every later allocation of this process a guarded one; before CUDA starts."""
    made = Guards(device)
    if device.on_gpu:
        made.install_below()
    else:
        zones.bytes_at = made.zone_bytes_at
    placement.guards = made
    return made


def surround(around: Around) -> None:
    """Guard what a candidate takes from torch in this process, if its inputs are guarded."""
    if isinstance(around.guards, Guards):
        around.guards.surround(around)


@contextlib.contextmanager
def in_process(mode: Mode, device: Device) -> Iterator[Around]:
    """Guard what is allocated at dispatch level, in a process that serves other ends too."""
    if mode is not Mode.GUARDED:
        yield Around()
        return
    made = Guards(device)
    around = Around(guards=made)
    made.surround(around)
    before = placement.guards, zones.bytes_at
    placement.guards, zones.bytes_at = made, made.zone_bytes_at
    try:
        yield around
    finally:
        placement.guards, zones.bytes_at = before
        made.close()


def read(around: Around) -> Made:
    """Execute a ReadGuards."""
    if not isinstance(around.guards, Guards):
        return Made(facts=(("reach", "nothing"),))
    return Made(facts=around.guards.report())
