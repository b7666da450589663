"""A GPU's context, made by the driver while Python does something else."""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from concurrent.futures import Future

from cuassay.model.device import Device


def begin_context(device: Device) -> Future[float] | None:
    """Let the driver make the context of a GPU in a thread; None for a CPU.

    Returns what tells the seconds that the driver took, up to half a second on a GPU of one's own,
    in which Python is free. Torch, and all else that uses CUDA's runtime, takes
    the context that is there. What fails here fails again where it is needed, and is told there.
    """

    def retain() -> None:
        started = time.perf_counter()
        with contextlib.suppress(OSError, AttributeError, ValueError):
            driver = ctypes.CDLL("libcuda.so.1")
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            number = device.number or 0
            if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(handle), number):
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
        made.set_result(time.perf_counter() - started)

    if not device.on_gpu:
        return None
    made: Future[float] = Future()
    threading.Thread(target=retain, daemon=True).start()
    return made
