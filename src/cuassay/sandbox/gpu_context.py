"""A GPU's context, made by the driver while Python does something else."""

from __future__ import annotations

import contextlib
import ctypes
import threading

from cuassay.model.device import Device


def begin_context(device: Device) -> threading.Thread | None:
    """Let the driver make the context of a GPU in a thread, which is returned; None for a CPU.

    Up to half a second in which Python is free. Torch, and all else that uses CUDA's runtime, takes
    the context that is there. What fails here fails again where it is needed, and is told there.
    """

    def retain() -> None:
        with contextlib.suppress(OSError, AttributeError, ValueError):
            driver = ctypes.CDLL("libcuda.so.1")
            handle, context = ctypes.c_int(), ctypes.c_void_p()
            number = device.number or 0
            if not driver.cuInit(0) and not driver.cuDeviceGet(ctypes.byref(handle), number):
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)

    if not device.on_gpu:
        return None
    thread = threading.Thread(target=retain, daemon=True)
    thread.start()
    return thread
