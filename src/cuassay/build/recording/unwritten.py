"""Memory that nobody wrote, known by what it holds: a random pattern laid into it when it is made.

Memory of `torch.empty` and its like is filled with 16 random bytes, over and over. Whoever
writes to it, torch, a library or a kernel that nobody watches, leaves other bytes there; where
all 16 are still those, nothing was written. Chance makes that of written bytes once in 2^128
times. A granule that was written in part counts as written.
"""

from __future__ import annotations

import functools
import secrets
from typing import Any

import numpy as np
import torch

from cuassay.build.recording.gpu_memory import unseen
from cuassay.dispatch_modes import UntracedMode

GRANULE = 16
_TAIL = 4  # bytes of a last granule that are enough to tell
_ATEN = torch.ops.aten
UNWRITTEN = {
    _ATEN.empty.memory_format,
    _ATEN.empty_like.default,
    _ATEN.empty_strided.default,
    _ATEN.empty_permuted.default,
    _ATEN.new_empty.default,
    _ATEN.new_empty_strided.default,
}


def new_pattern() -> bytes:
    """Return a pattern of one recording; no byte is 0, which memory holds by itself."""
    return bytes(1 + secrets.randbelow(255) for _ in range(GRANULE))


def unwritten(data: np.ndarray[Any, Any], pattern: bytes) -> np.ndarray[Any, Any] | None:
    """Return a flag for each byte (uint8 array) that nobody wrote; None where all were written."""
    if not pattern or not data.size:
        return None
    wanted = np.frombuffer(pattern, dtype=np.uint8)
    whole = data.size // GRANULE
    same = (data[: whole * GRANULE].reshape(whole, GRANULE) == wanted).all(axis=1)
    flags = np.zeros(data.size, dtype=np.bool_)
    flags[: whole * GRANULE] = np.repeat(same, GRANULE)
    tail = data[whole * GRANULE :]
    if tail.size >= _TAIL and bool((tail == wanted[: tail.size]).all()):
        flags[whole * GRANULE :] = True
    return flags if flags.any() else None


@functools.lru_cache(maxsize=64)
def _on_device(pattern: bytes, device: torch.device) -> torch.Tensor:
    return torch.frombuffer(bytearray(pattern), dtype=torch.uint8).to(device)


def lay(tensor: torch.Tensor, pattern: bytes) -> None:
    """Fill the storage of a tensor with the pattern, on the current stream."""
    with unseen():
        view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        view = view.set_(tensor.untyped_storage())
        one = _on_device(pattern, tensor.device)
        whole = view.numel() // GRANULE
        view[: whole * GRANULE].view(whole, GRANULE).copy_(one)
        view[whole * GRANULE :].copy_(one[: view.numel() - whole * GRANULE])


class PatternFill(UntracedMode):
    """Lays the pattern into what this thread's torch allocates on a device of `kind`."""

    def __init__(self, pattern: bytes, *, kind: str) -> None:
        super().__init__()
        self._pattern, self._kind = pattern, kind
        with unseen():  # a copy to the device is no part of a graph that is captured later
            _on_device(pattern, torch.empty(0, device=kind).device)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        plain = func in UNWRITTEN and type(made) is torch.Tensor
        if plain and made.device.type == self._kind and made.layout is torch.strided:
            lay(made, self._pattern)
        return made
