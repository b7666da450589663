"""Large tables as pages that the system hands out zeroed, and that cost nothing until touched.

`numpy.zeros` gives the same where the C library maps what is large. A worker tells it not to
(sandbox/guest/memory/placement.py: a freed address is to come back); there half a gigabyte of
tables that hardly any kernel touches was cleared for every launch.
"""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_SMALL_BYTES = 1 << 18  # below, the system call costs more than clearing


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.uint8) -> NDArray[Any]:
    """Return a writable array of zeros of this shape and dtype, alive as long as it is used.

    Raises MemoryError where the system has no room.
    """
    count = math.prod(shape) if isinstance(shape, tuple) else shape
    size = count * np.dtype(dtype).itemsize
    if size < _SMALL_BYTES:
        return np.zeros(shape, dtype)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no room for a table of {size} bytes: {error}") from None
    return np.frombuffer(memory, dtype, count).reshape(shape)
