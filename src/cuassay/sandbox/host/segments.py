"""The judge's end of the data path: shared memory for inputs, answers and results.

On the CPU each segment is a memfd. Inputs are sealed before they are sent, so that no worker
can change them; room for results is made by the judge, which knows dtype and shape, and is
sealed when the worker says that it has written, so that it cannot change while it is judged.
On CUDA two arenas are reused and results are copied out of theirs at once. Where inter-process
handles are refused, CUDA tensors travel as bytes through a memfd.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuassay.model import serial
from cuassay.model.device import Device
from cuassay.model.problem import Scalar
from cuassay.sandbox import device_memory
from cuassay.sandbox.guest.items import DTYPES, host_memory
from cuassay.sandbox.guest.memory.placement import as_bytes, copy_into
from cuassay.sandbox.guest.transport import aligned_offsets, nbytes
from cuassay.sandbox.host.unnamed import make_memory

_SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_ALL_SEALS = _SIZE_SEALS | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
_CHUNK = 1 << 30
_SEALING_S = (0.02, 0.1, 0.5)  # pauses between attempts to seal
_LARGE = 2 << 30  # bytes of inputs beside which a worker needs all that is free


class StillWritableError(Exception):
    """The worker kept a writable mapping of its results."""


class Package:
    """A data message and the descriptors that travel with it."""

    def __init__(self, data: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        self.data, self.fds = data, fds

    def close(self) -> None:
        """Close the judge's descriptors; what was mapped stays."""
        for fd in self.fds:
            os.close(fd)
        self.fds = ()


def _seal(fd: int) -> None:
    """Make what a memfd holds unchangeable.

    Linux refuses with EBUSY while a page has a reader that it cannot name, which its own reclaim
    is for a moment on a busy machine (mm/memfd.c waits 150 ms for it). A writable mapping is
    refused in the same way and outlasts the pauses. Raises OSError.
    """
    for pause_s in _SEALING_S:
        try:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _ALL_SEALS)
        except OSError as refused:
            if refused.errno != errno.EBUSY:
                raise
            time.sleep(pause_s)
        else:
            return
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _ALL_SEALS)


def _memfd(size: int) -> int:
    fd = make_memory(max(size, 1), flags=os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SIZE_SEALS)
    return fd


class Segments:
    """Makes packages for workers and reads results back; one a pool."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._arenas: dict[str, device_memory.Arena] = {}
        self._retired: list[device_memory.Arena] = []
        self.refused = ""  # why inter-process handles are not used
        self._ipc = device.on_gpu
        self._in_arena: Package | None = None

    def use_bytes(self, why: str) -> None:
        """Stop using inter-process handles, since a worker could not open one."""
        self._ipc, self.refused, self._in_arena = False, why, None

    @property
    def uses_ipc(self) -> bool:
        """Whether tensors travel as CUDA inter-process handles."""
        return self._ipc

    def pack(
        self, inputs: Mapping[str, torch.Tensor | Scalar], answers: Sequence[torch.Tensor] = ()
    ) -> Package:
        """Copy inputs and answers into shared memory; scalars travel in the message."""
        named = [(k, v.detach()) for k, v in inputs.items() if isinstance(v, torch.Tensor)]
        tensors = [tensor.contiguous() for _, tensor in named]
        tensors += [tensor.detach().contiguous() for tensor in answers]
        offsets, size = aligned_offsets(
            [tensor.numel() * tensor.element_size() for tensor in tensors]
        )
        entries: list[dict[str, Any]] = [
            {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "offset": offset}
            for t, offset in zip(tensors, offsets, strict=True)
        ]
        placed = {name: entry for (name, _), entry in zip(named, entries, strict=False)}
        layout = [
            {"name": name, **placed[name]}
            if name in placed
            else {"name": name, "scalar": serial.to_json(value)}
            for name, value in inputs.items()
        ]
        data: dict[str, Any] = {
            "layout": layout,
            "answers": [{"name": "", **entry} for entry in entries[len(named) :]],
        }
        if self._ipc:
            arena = self._arena("in", size)
            for tensor, offset in zip(tensors, offsets, strict=True):
                if tensor.numel():
                    content = as_bytes(tensor.to(self._device))
                    copy_into(arena.bytes[offset : offset + content.numel()], content)
            torch.cuda.synchronize()
            self._in_arena = Package(data | {"kind": "ipc", "arena": arena.describe()})
            return self._in_arena
        fd = _memfd(size)
        for tensor, offset in zip(tensors, offsets, strict=True):
            host = tensor.cpu()
            source, done = host_memory(host), 0
            while done < len(source):
                done += os.pwrite(fd, source[done : done + _CHUNK], offset + done)
        _seal(fd)
        return Package(data | {"kind": "memfd"}, (fd,))

    def packed(self, make: Callable[[], Package | None]) -> Package | None:
        """Return what `make` packs, and leave the worker what this process only keeps for later.

        Where the GPU has no room for an arena, torch gives back what it keeps and `make` is
        called once more.
        """
        try:
            package = make()
        except device_memory.DeviceMemoryError:
            torch.cuda.empty_cache()
            return make()
        if package is not None and package is self._in_arena and self._arenas["in"].size > _LARGE:
            torch.cuda.empty_cache()
        return package

    def still_holds(self, package: Package) -> bool:
        """Whether the bytes of `package` are still where it says."""
        return package.data["kind"] == "memfd" or package is self._in_arena

    def room(self, layouts: Sequence[tuple[str, tuple[int, ...]]]) -> Package:
        """Make room for results of the given dtypes and shapes."""
        offsets, size = aligned_offsets([nbytes(dtype, shape) for dtype, shape in layouts])
        if self._ipc:
            arena = self._arena("out", size)
            return Package({"kind": "ipc", "offsets": offsets, "arena": arena.describe()})
        return Package({"kind": "memfd", "offsets": offsets}, (_memfd(size),))

    def read(
        self, package: Package, layouts: Sequence[tuple[str, tuple[int, ...]]]
    ) -> list[torch.Tensor]:
        """Return the results that a worker wrote into `package`, safe from later writes.

        Raises StillWritableError where the worker could still change them.
        """
        if package.data["kind"] == "ipc":
            content = self._arenas["out"].bytes
            own = True
        else:
            fd = package.fds[0]
            try:
                _seal(fd)
            except OSError:
                raise StillWritableError from None
            size = os.fstat(fd).st_size
            # Private and writable for torch's sake; nothing is copied before it is written to.
            view = mmap.mmap(
                fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sealed = torch.frombuffer(view, dtype=torch.uint8)
            content, own = sealed, False
        found = []
        for (dtype, shape), offset in zip(layouts, package.data["offsets"], strict=True):
            part = content[offset : offset + nbytes(dtype, shape)]
            found.append(_typed(part.clone() if own else part, dtype, shape).to(self._device))
        if own:
            torch.cuda.synchronize()  # the arena is written again as soon as this returns
        return found

    def _arena(self, role: str, size: int) -> device_memory.Arena:
        held = self._arenas.get(role)
        if held is None or held.size < size:
            if held is not None:
                self._retired.append(held)  # a worker may have it open: freed after it ended
            self._arenas[role] = device_memory.Arena(_rounded(size))
        return self._arenas[role]

    @property
    def holds_memory(self) -> bool:
        """Whether memory of a device is shared."""
        return bool(self._retired or self._arenas)

    def close(self) -> None:
        """Free device memory; every worker must have ended."""
        for arena in (*self._retired, *self._arenas.values()):
            arena.close()
        self._retired.clear()
        self._arenas.clear()
        self._in_arena = None


def _rounded(size: int) -> int:
    """Return what an arena for `size` bytes takes, so that few are made as sizes grow.

    A power of two, and beyond what costs others nothing a part in eight of one.
    """
    whole = 1 << max(size - 1, 1).bit_length()
    if whole <= _CHUNK:
        return whole
    step = whole // 16
    return -(-size // step) * step


def _typed(content: torch.Tensor, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
    if dtype == "bool":  # a kernel may leave any byte; every non-zero one is True
        return (content != 0).reshape(shape)
    if not content.numel():
        return torch.empty(shape, dtype=DTYPES[dtype], device=content.device)
    return content.view(DTYPES[dtype]).reshape(shape)
