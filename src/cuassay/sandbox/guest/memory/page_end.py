"""Memory whose last byte is the last one of its own allocation: reads beyond it fault.

On CUDA an allocation of the driver of whole 2 MiB pages, on the CPU mapped pages with one
after them that nobody may touch. Tensors start as aligned as torch's allocators would have
them, so the few bytes between a tensor's end and the page's are no part of the tensor: 0xFF.
"""

from __future__ import annotations

import ctypes
import mmap

import torch

from cuassay.sandbox.device_memory import DeviceMemoryError, _call, _use_torch_context
from cuassay.sandbox.guest.memory.placement import _FILL

_PAGE = 2 << 20
_ALIGNMENT = {"cpu": 64, "cuda": 512}  # bytes, of torch's allocators
_PROT_NONE = 0


def bytes_at_end(size: int, device: torch.device) -> torch.Tensor:
    """Return `size` bytes 0xFF that end where their memory ends, less than an alignment apart.

    The memory is given back with the last tensor on it. Raises DeviceMemoryError or OSError
    where the driver or the system refuses.
    """
    step = _ALIGNMENT[device.type]
    room = -(-max(size, 1) // step) * step
    if device.type == "cpu":
        # The last `room` bytes before a page that nobody may touch
        page = mmap.PAGESIZE
        usable = -(-room // page) * page
        pages = mmap.mmap(-1, usable + page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        libc = ctypes.CDLL(None, use_errno=True)
        end = ctypes.c_void_p(address + usable)
        if libc.mprotect(end, ctypes.c_size_t(page), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect of a guard page failed")
        # The tensor keeps the mapping: it is unmapped with the last view.
        return _FILL(
            torch.frombuffer(pages, dtype=torch.uint8, count=room, offset=usable - room), 0xFF
        )[:size]
    with torch.cuda.device(device):
        return torch.as_tensor(_DevicePages(room), device=device)[:size]


class _DevicePages:
    """The last `room` bytes of an allocation, as the CUDA array interface 3 describes them.

    All of it holds 0xFF, so that reads before the tensor do not look right either.
    """

    def __init__(self, room: int) -> None:
        _use_torch_context()
        self._pointer = 0
        size = -(-room // _PAGE) * _PAGE
        pointer = ctypes.c_uint64()
        _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        self._pointer = int(pointer.value)
        _call("cuMemsetD8_v2", pointer, ctypes.c_ubyte(0xFF), ctypes.c_size_t(size))
        self.__cuda_array_interface__ = {
            "shape": (room,),
            "typestr": "|u1",
            "data": (self._pointer + size - room, False),
            "version": 3,
        }

    def __del__(self) -> None:
        """Give the memory back once no tensor holds it; the driver may be gone by then."""
        if self._pointer:
            try:
                _call("cuMemFree_v2", ctypes.c_uint64(self._pointer))
            except DeviceMemoryError:
                return
