"""Copies of what a sampled call read and wrote, taken in the caller's stream, within a budget.

The caller may change its tensors right after the call: copies are enqueued before anything
else can be. Their bytes are reserved before they are allocated; a call that does not fit is not
sampled. Nothing here waits for the device.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cuassay_guard.calls import device
from cuassay_guard.calls.structure import Template, flatten


class SnapshotBudget:
    """Bytes that snapshots of one guard may hold, by holder.

    A thread may be killed anywhere: what a holder has is given back by one operation, as a whole,
    and giving it back again is harmless.
    """

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self._held: dict[object, int] = {}
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """How many bytes are held."""
        return sum(list(self._held.values()))

    def reserve(self, holder: object, count: int) -> bool:
        """Take `count` bytes more for a holder, until `release`; False where they do not fit."""
        with self._lock:
            if self.used_bytes + count > self.budget_bytes:
                return False
            self._held[holder] = self._held.get(holder, 0) + count
            return True

    def release(self, holder: object) -> None:
        """Give back what a holder has."""
        self._held.pop(holder, None)


@dataclass(slots=True, kw_only=True)
class Autocast:
    """The caller's autocast state, which threads do not share."""

    device_type: str
    enabled: bool
    dtype: torch.dtype

    @classmethod
    def present(cls, kind: str) -> Autocast:
        """Return the state of the calling thread."""
        return cls(
            device_type=kind,
            enabled=torch.is_autocast_enabled(kind),
            dtype=torch.get_autocast_dtype(kind),
        )

    def again(self) -> Any:
        """Return a context in which that state holds."""
        return torch.autocast(self.device_type, dtype=self.dtype, enabled=self.enabled)


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """One call's inputs before it, and later what it gave.

    `differentiated` are the places of tensors for which the caller wants gradients.
    """

    tensors: list[Tensor]
    template: Template
    holder: object  # of its bytes in `memory`
    autocast: Autocast
    memory: SnapshotBudget
    differentiated: tuple[int, ...] = ()
    outputs: list[Tensor] = field(default_factory=list)
    results: Template = field(default_factory=list)
    moment: device.Moment | None = None

    def release(self) -> None:
        """Give the memory back; harmless when repeated."""
        self.tensors, self.outputs = [], []
        self.memory.release(self.holder)

    def finish(self, result: Any, written: Sequence[Tensor]) -> bool:
        """Copy what the call returned and what it wrote to; False where it does not fit."""
        found, self.results = flatten(result)
        everything = [*found, *written]
        if not self.memory.reserve(self.holder, sum(map(_nbytes, everything))):
            return False
        self.outputs = detached_copies(everything)
        self.moment = device.now(device.device_of([*self.tensors, *self.outputs]))
        return True


def take(
    arguments: Sequence[Any], keywords: Mapping[str, Any], memory: SnapshotBudget
) -> Snapshot | None:
    """Copy the inputs of a call; None where they do not fit into the budget.

    Raises torch.OutOfMemoryError where the device has no room for them.
    """
    tensors, template = flatten([tuple(arguments), dict(keywords)])
    holder = object()
    if not memory.reserve(holder, sum(map(_nbytes, tensors))):
        return None
    try:
        kept = detached_copies(tensors)
    except BaseException:
        memory.release(holder)
        raise
    grad = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    wanted = [index for index, tensor in enumerate(tensors) if grad and tensor.requires_grad]
    kind = device.device_of(tensors).type
    return Snapshot(
        tensors=kept,
        template=template,
        holder=holder,
        autocast=Autocast.present(kind),
        memory=memory,
        differentiated=tuple(wanted),
    )


def detached_copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return copies that share nothing with autograd, inference mode or the caller's memory."""
    with torch.inference_mode(False), torch.no_grad():
        return [_copy(tensor) for tensor in tensors]


def _copy(tensor: Tensor) -> Tensor:
    plain = tensor.detach()
    if plain.is_inference():
        return torch.empty_like(plain).copy_(plain)
    return plain.clone()


def _nbytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
