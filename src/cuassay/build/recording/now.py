"""The recording of this process's launches on a GPU, while there is one.

Raw kernels ask for `current` at each launch; Triton's launches and torch's allocations are
watched from here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cuassay.errors import UsageError
from cuassay.model.device import CUDA, Device

if TYPE_CHECKING:
    from cuassay.build.recording.recorder import LaunchRecorder

current: LaunchRecorder | None = None
_lock = threading.Lock()


@contextlib.contextmanager
def recording(
    recorder: LaunchRecorder, *, triton: bool = True, device: Device = CUDA
) -> Iterator[None]:
    """Record in this block: raw kernels, and with `triton` Triton's kernels.

    Where the recorder has a pattern it is laid into what this thread's torch allocates on
    `device`. Raises MissingToolError as `triton_launches.intercepted` does, and UsageError where
    launches are being recorded already.
    """
    global current
    with contextlib.ExitStack() as stack:
        with _lock:
            if current is not None:
                raise UsageError(
                    "launches are being recorded already; one recording at a time in a process"
                )
            current = recorder
        stack.callback(_end)
        if device == "cuda":
            stack.enter_context(_replays(recorder))
        if triton:
            from cuassay.build.recording.triton_launches import intercepted

            stack.enter_context(intercepted(recorder))
        if recorder.pattern:
            from cuassay.build.recording.unwritten import PatternFill
            from cuassay.dispatch_modes import outside_of_compiler

            stack.enter_context(outside_of_compiler(PatternFill)(recorder.pattern, kind=device))
        yield


@contextlib.contextmanager
def _replays(recorder: LaunchRecorder) -> Iterator[None]:
    """Count replays of CUDA graphs in this block: what they launch is not seen."""
    import torch

    graphs: Any = torch.cuda.CUDAGraph
    own = graphs.replay

    @functools.wraps(own)
    def replay(self: Any, *arguments: Any, **options: Any) -> Any:
        recorder.pass_over("a CUDA graph", "replayed, which does not show the launches in it")
        return own(self, *arguments, **options)

    graphs.replay = replay
    try:
        yield
    finally:
        graphs.replay = own


def _end() -> None:
    global current
    current = None


def has_triton() -> bool:
    """Whether Triton compiles here for a device: it is installed and does not interpret."""
    interpreted = os.environ.get("TRITON_INTERPRET", "") not in ("", "0")
    return not interpreted and importlib.util.find_spec("triton") is not None
