"""Freed memory: poisons it, uses the same addresses again, and never while anybody holds it.

An allocator may or may not hand out an address again. For inputs, which are the worker's
own, it is made certain: the memory of a released input is kept, poisoned, and given to the
next input of as many bytes, as a caching allocator would. It is kept only where nobody else
holds the tensor or its storage, for a kernel that holds one may rely on its address.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

from cuassay.model.device import Device
from cuassay.model.scenario import Poison
from cuassay.sandbox.guest.memory import placement

_KEPT_BYTES = 8 << 30


def _holders(values: dict[str, torch.Tensor], name: str) -> tuple[int, int, int]:
    """Return counts of who holds a tensor: from Python, from C++, and its storage."""
    count: Callable[[int], int] | None = getattr(torch._C, "_storage_Use_Count", None)
    native: Callable[[torch.Tensor], int] | None = getattr(torch.Tensor, "_use_count", None)
    if count is None or native is None:
        return -1, -1, -1
    with torch._C.DisableTorchFunctionSubclass():
        storage = values[name].untyped_storage()._cdata
    return sys.getrefcount(values[name]), native(values[name]), count(storage)


_UNSHARED = _holders({"x": torch.empty(1)}, "x")


class FreedMemory:
    """Remembers what Release freed."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._sizes: list[int] = []
        self._addresses: set[int] = set()
        self._kept: list[torch.UntypedStorage] = []

    def release_inputs(self, tensors: dict[str, torch.Tensor]) -> None:
        """Drop inputs; memory that nobody else holds is kept for the next ones."""
        for name in list(tensors):
            unshared = _UNSHARED[0] > 0 and _holders(tensors, name) == _UNSHARED
            storage = tensors.pop(name).untyped_storage()
            if unshared and storage.nbytes():
                self._kept.append(storage)
        while sum(storage.nbytes() for storage in self._kept) > _KEPT_BYTES:
            self._kept.pop(0)

    def note(self, tensor: torch.Tensor) -> None:
        """Remember the memory of a result that is about to be dropped."""
        with torch._C.DisableTorchFunctionSubclass():
            storage = tensor.untyped_storage()
            if storage.nbytes():
                self._sizes.append(storage.nbytes())
                self._addresses.add(storage.data_ptr())

    def reuse(self, wanted: torch.Tensor) -> torch.Tensor | None:
        """Return a tensor like `wanted` at a kept address, the oldest first; None if none fits."""
        size = wanted.numel() * wanted.element_size()
        for number, storage in enumerate(self._kept):
            if storage.nbytes() == size:
                del self._kept[number]
                tensor = torch.empty(0, dtype=wanted.dtype, device=self._device)
                strides = torch.empty(wanted.shape, device="meta").stride()
                return tensor.set_(storage, 0, wanted.shape, strides)
        return None

    def poison(self, pattern: Poison) -> tuple[int, int]:
        """Fill freed memory; return the number of (blocks surely poisoned, all of them).

        Kept inputs are filled in place. For results, blocks of their sizes are allocated,
        filled and freed, which reaches them where the allocator gives the same ones.
        """
        byte = placement.byte_of(pattern)
        value = 0xFF if byte is None else byte
        for storage in self._kept:
            placement.fill_bytes(storage, value, self._device)
        blocks = [
            torch.empty(size, dtype=torch.uint8, device=self._device)
            for size in reversed(self._sizes)
        ]
        for block in blocks:
            block.fill_(value)
        reached = sum(block.data_ptr() in self._addresses for block in blocks) + len(self._kept)
        total = len(self._sizes) + len(self._kept)
        while blocks:
            blocks.pop()  # in the order of allocation, so that the next one finds the same
        if self._device.on_gpu:
            placement.fill_free_cuda_blocks(value)
        self._sizes.clear()
        return reached, total
