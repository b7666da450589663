"""Launches that failed and were not checked: the CUDA runtime's last error, read after a call.

`kernel<<<...>>>` reports a bad configuration or too much shared memory only there. A
candidate that does not look returns what its memory held before.
"""

from __future__ import annotations

import ctypes
from functools import cache

from cuassay.errors import LaunchError
from cuassay.model.device import Device

# Not errors of a launch: a query of unfinished work, peer access switched on twice.
_HARMLESS = frozenset({0, 600, 704})


@cache
def _runtime() -> ctypes.CDLL | None:
    """Return the CUDA runtime library that torch has loaded, None where there is none."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "libcudart" in line}
        return ctypes.CDLL(min(paths)) if paths else None
    except OSError:
        return None


def clear(device: Device) -> None:
    """Forget errors of before."""
    runtime = None if not device.on_gpu else _runtime()
    if runtime is not None:
        runtime.cudaGetLastError()


def raise_pending(device: Device) -> None:
    """Raise LaunchError where the runtime holds an error that nobody has asked for."""
    runtime = None if not device.on_gpu else _runtime()
    if runtime is None:
        return
    code = int(runtime.cudaGetLastError())
    if code in _HARMLESS:
        return
    runtime.cudaGetErrorName.restype = runtime.cudaGetErrorString.restype = ctypes.c_char_p
    name, text = (
        (found or b"unknown").decode(errors="replace")
        for found in (runtime.cudaGetErrorName(code), runtime.cudaGetErrorString(code))
    )
    raise LaunchError(f"{name}: {text}; the launch failed and the candidate did not check for it")
