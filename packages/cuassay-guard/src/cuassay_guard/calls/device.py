"""What is asynchronous about a device: streams and events on CUDA, nothing on the CPU.

Only the checker's thread ever waits, and for its own stream, never for the device.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_side = threading.local()
_RELAXED = 2  # cudaStreamCaptureModeRelaxed


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in the caller's stream after which a snapshot holds its values."""

    device: torch.device
    event: Any = None  # torch.cuda.Event, None on the CPU


def device_of(tensors: list[Tensor]) -> torch.device:
    """Return the first CUDA device among the tensors, else the first tensor's."""
    devices = [tensor.device for tensor in tensors]
    cuda = [device for device in devices if device.type == "cuda"]
    return next(iter(cuda or devices), torch.device("cpu"))


def now(device: torch.device) -> Moment:
    """Return the present point of the current stream of `device`; waits for nothing."""
    if device.type != "cuda":
        return Moment(device)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return Moment(device, event)


def capturing(device: torch.device) -> bool:
    """Whether the current stream is being captured into a graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


@contextmanager
def aside(moment: Moment) -> Iterator[None]:
    """Run on this thread's low-priority stream of the device, after `moment`.

    Leaving waits for that stream, so that what was computed may be freed by any thread.
    """
    if moment.event is None:
        yield
        return
    device = moment.device
    streams: dict[torch.device, Any] = _side.__dict__.setdefault("streams", {})
    if device not in streams:
        low = max(torch.cuda.Stream.priority_range())  # type: ignore[call-arg]
        made = torch.cuda.Stream(device, priority=low)  # type: ignore[no-untyped-call]
        streams[device] = made
        _leave_captures_alone()
    stream = streams[device]
    with torch.cuda.device(moment.device), torch.cuda.stream(stream):
        stream.wait_event(moment.event)
        try:
            yield
        finally:
            stream.synchronize()


def _leave_captures_alone() -> None:
    """Keep this thread's CUDA calls from ending captures of other threads.

    A capture in the default (global) mode is invalidated by waits and queries of any thread
    that is in that mode itself; this one is not (cudaThreadExchangeStreamCaptureMode, relaxed).
    Where the runtime library is not found, captures belong inside `graphs.watch`, which pauses
    the checks.
    """
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            runtime = ctypes.CDLL(name)
            runtime.cudaThreadExchangeStreamCaptureMode(ctypes.byref(ctypes.c_int(_RELAXED)))
        except (OSError, AttributeError):
            continue
        return
