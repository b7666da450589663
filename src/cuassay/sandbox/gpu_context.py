"""A GPU's context, made by the driver while Python does something else."""

from __future__ import annotations

import ctypes
import threading
import time
from concurrent.futures import Future

from cuassay.model.device import Device


def begin_context(device: Device) -> Future[float] | None:
    """Let the driver make the context of a GPU in a thread; None for a CPU.

    Returns the seconds that the driver takes, once it is done: up to half a second on a quiet GPU,
    in which Python is free. Torch, and all else that uses CUDA's runtime, takes the context that is
    there. What fails here fails again where it is needed, and is told there.
    """

    def retain() -> None:
        started = time.perf_counter()
        try:
            driver = ctypes.CDLL("libcuda.so.1")
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            number = device.number or 0
            if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(handle), number):
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
        except (OSError, AttributeError, ValueError):
            pass
        finally:  # whoever waits for it goes on
            made.set_result(time.perf_counter() - started)

    if not device.on_gpu:
        return None
    made: Future[float] = Future()
    threading.Thread(target=retain, daemon=True).start()
    return made
