"""Memory that a candidate's host code asks CUDA for: it lives over calls."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuassay.build.machine.memory import StorageArena


@dataclass(slots=True)
class HostMemory:
    """Allocations by address: their bytes, and which of them were written (None: all)."""

    _held: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]] = field(
        default_factory=dict
    )

    def add(self, base: int, nbytes: int, *, initialised: bool) -> None:
        """Know memory that was given out."""
        data = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(base))
        self._held[base] = data, None if initialised else np.zeros(nbytes, np.bool_)

    def drop(self, base: int) -> None:
        """Forget memory that was freed."""
        self._held.pop(base, None)

    def provide(self, arena: StorageArena) -> None:
        """Put all of it into the memory of a call."""
        for base, (data, flags) in self._held.items():
            arena.provide(base, f"device memory ({data.nbytes:,} bytes)", data, flags)

    def mark(self, arena: StorageArena, base: int, nbytes: int, *, source: int | None) -> None:
        """Note that host code wrote bytes here or elsewhere; `source`: it copied them."""
        if source is not None:
            arena.copied(base, source)
        for start, (data, flags) in self._held.items():
            if flags is not None and start <= base < start + data.nbytes:
                flags[base - start : base - start + nbytes] = True
                return
        arena.mark_bytes(base, nbytes)
