"""Memory that launches on a GPU see: whose allocation an address lies in, and what it holds.

An allocation is a torch storage with exactly its own bytes. An address without a tensor is
looked up among the live blocks of torch's caching allocator (its snapshot knows the bytes that
were asked for), then among the driver's allocations. An address in memory that torch has taken
back belongs to nobody. Tensors on a CPU serve launches that the PTX machine executes.
"""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from cuassay.errors import MissingToolError

_CUDA: Any = torch.cuda  # parts of it have no types
_PAUSES_S = (0.0001, 0.01)  # between two looks at a launch that has not ended: first, later


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Allocation:
    """One allocation; `storage` is torch's where there is one. `private`: nobody else's result."""

    name: str
    base: int
    nbytes: int
    dtype: str = ""
    storage: torch.UntypedStorage | None = None
    private: bool = False

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.base + self.nbytes


@contextlib.contextmanager
def unseen() -> Iterator[None]:
    """Keep what torch does in this block from the modes, facades and gradients of the program."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        yield


@dataclass(slots=True)
class TorchMemory:
    """The memory of this process's torch: with `gpu` that of the current GPU, else the host's.

    `beyond` finds (base, bytes) of a device allocation that is not torch's.
    """

    gpu: bool = False
    device: str = ""  # the GPU's name with its architecture
    beyond: Callable[[int], tuple[int, int] | None] | None = None
    _starts: list[int] = field(default_factory=list)
    _blocks: list[tuple[int, int, bool]] = field(default_factory=list)  # start, bytes, live

    def capturing(self) -> bool:
        """Whether the current stream is being captured: then nothing may be waited for."""
        return self.gpu and torch.cuda.is_current_stream_capturing()

    def settle(self) -> None:
        """Wait for everything launched so far, and look again at what is allocated."""
        if not self.gpu:
            return
        torch.cuda.synchronize()
        self._blocks = sorted(_blocks())
        self._starts = [start for start, _, _ in self._blocks]

    def wait(self, *, limit_s: float, late: Callable[[], None]) -> None:
        """Wait for what was launched; `late` is called once after `limit_s`.

        Raises what CUDA reports. An interrupt from the keyboard gets through.
        """
        if not self.gpu:
            return
        done, begun, told = _CUDA.Event(), time.monotonic(), False
        done.record()
        while not done.query():
            waited = time.monotonic() - begun
            if waited > limit_s and not told:
                told = True
                late()
            time.sleep(_PAUSES_S[waited > 1.0])
        torch.cuda.synchronize()

    def of(self, tensor: torch.Tensor, name: str, *, private: bool = False) -> Allocation | None:
        """Return the allocation of a tensor; None where it has no memory."""
        with unseen():
            storage = tensor.untyped_storage()
            base, size = int(storage.data_ptr()), int(storage.nbytes())
        if not base or not size:
            return None
        dtype = str(tensor.dtype).removeprefix("torch.")
        return Allocation(
            name=name, base=base, nbytes=size, dtype=dtype, storage=storage, private=private
        )

    def span(self) -> tuple[int, int]:
        """Return the lowest address of torch's blocks and the one behind the highest."""
        if not self._blocks:
            return 0, 0
        start, size, _ = self._blocks[-1]
        return self._blocks[0][0], start + size

    def at(self, address: int) -> Allocation | None:
        """Return the live allocation that an address lies in, its first byte included."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place >= 0:
            start, size, live = self._blocks[place]
            if start <= address < start + size:
                return _nameless(start, size, "torch") if live else None
        found = self.beyond(address) if self.beyond is not None and address else None
        return None if found is None else _nameless(*found, "the driver")

    def read(self, allocation: Allocation) -> np.ndarray[Any, Any]:
        """Return the bytes of an allocation (uint8), copied to the host."""
        with unseen():
            if allocation.storage is not None:
                device = allocation.storage.device
                view = torch.empty(0, dtype=torch.uint8, device=device).set_(allocation.storage)
            else:
                view = torch.as_tensor(_Bytes(allocation.base, allocation.nbytes), device="cuda")
            found: np.ndarray[Any, Any] = view.to("cpu", copy=True).numpy()
            return found


def gpu_memory() -> TorchMemory:
    """Return the memory of the current GPU. Raises MissingToolError where there is none."""
    from cuassay.build.cuda.driver import load_driver

    if not torch.cuda.is_available():
        raise MissingToolError(
            f"launches are recorded on an NVIDIA GPU, and torch {torch.__version__} sees none: "
            "install a CUDA build of torch and look at `cuassay doctor`; without a GPU "
            "`cuassay run KERNEL --problem P --record FILE` records what the PTX machine executes"
        )
    index = torch.cuda.current_device()
    found = torch.cuda.get_device_properties(index)
    name = f"{found.name} (sm_{found.major}{found.minor})"
    return TorchMemory(gpu=True, device=name, beyond=load_driver(index).allocation)


class _Bytes:
    """Device memory without a tensor, as the CUDA Array Interface (version 3) describes it."""

    def __init__(self, base: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,), "typestr": "|u1", "data": (base, False), "version": 3,
        }  # fmt: skip


def _nameless(base: int, nbytes: int, owner: str) -> Allocation:
    return Allocation(name=f"memory of {owner} at {base:#x}", base=base, nbytes=nbytes)


def _blocks() -> Iterator[tuple[int, int, bool]]:
    """Yield (address, bytes, live) of the caching allocator's blocks."""
    for segment in _CUDA.memory_snapshot():
        address = int(segment["address"])
        for block in segment["blocks"]:
            live = block["state"] == "active_allocated"
            asked = int(block.get("requested_size") or block["size"]) if live else block["size"]
            yield address, int(asked), live
            address += int(block["size"])
