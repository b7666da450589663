"""Record the kernel launches of a running program on a GPU, to be executed again without one.

`record_launches("step.safetensors")` is a context manager; `cuassay run step.safetensors`
executes what it kept in the PTX machine, with every access watched, and compares what each
launch left with what the GPU left. Recorded are Triton's launches. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cuassay.errors import UsageError
from cuassay.model.device import CUDA, Device
from cuassay.store.files import write_atomically

if TYPE_CHECKING:
    from cuassay.build.recording.gpu_memory import TorchMemory
    from cuassay.build.recording.recorder import LaunchRecorder, Wish
    from cuassay.model.recording import Recording

_LOG = logging.getLogger("cuassay")


@contextlib.contextmanager
def record_launches(
    path: str | Path,
    *,
    kernels: str | Iterable[str] | None = None,
    most: int = 64,
    skip: int = 0,
    max_bytes: int = 1 << 30,
    outcome: bool = True,
    unwritten: bool = False,
    limit_s: float = 60.0,
) -> Iterator[LaunchRecorder]:
    """Keep Triton's launches on a GPU in `path`, a .safetensors file, while the block runs.

    `kernels` are names or shell patterns (None: every kernel). Of those, `skip` launches are
    passed over and `most` kept, with at most `max_bytes` of different memory in all. `outcome`
    keeps what each launch left as well. With `unwritten` memory that this thread's torch
    allocates is filled with a random pattern, by which replay knows what nobody wrote. The GPU
    is waited for before and after each launch that is kept. A launch that fails, or runs longer
    than `limit_s`, is written at once.

    What cannot be kept runs as it would have; the recorder's `notes()` and the file say what
    and why. No file is written where nothing was kept: that is logged. Raises UsageError for
    arguments that are off, and MissingToolError where there is no GPU or no Triton.
    """
    from cuassay.build.recording.gpu_memory import gpu_memory
    from cuassay.build.recording.recorder import Wish
    from cuassay.build.recording.unwritten import new_pattern

    target = Path(path).expanduser().absolute()
    if target.suffix != ".safetensors":
        raise UsageError(
            f"'{path}' does not end in .safetensors, which `cuassay run` knows recordings by"
        )
    if not target.parent.is_dir():
        raise UsageError(f"'{target.parent}' is not a folder; make it before you record launches")
    for name, value, least in (("most", most, 1), ("skip", skip, 0), ("max_bytes", max_bytes, 1)):
        if value < least:
            raise UsageError(f"{name}={value} is too small; expected {least} at least")
    wish = Wish(
        kernels=(kernels,) if isinstance(kernels, str) else tuple(kernels or ()),
        most=most,
        skip=skip,
        max_bytes=max_bytes,
        outcome=outcome,
        pattern=new_pattern() if unwritten else b"",
        limit_s=limit_s,
    )
    with _recorded(target, wish, gpu_memory(), device=CUDA) as recorder:
        yield recorder


@contextlib.contextmanager
def _recorded(
    target: Path, wish: Wish, memory: TorchMemory, *, device: Device
) -> Iterator[LaunchRecorder]:
    from cuassay.build.recording.now import recording
    from cuassay.build.recording.recorder import LaunchRecorder

    def save(found: Recording) -> None:
        # Write a recording whole or not at all; a full disk costs the recording, not the program.
        from cuassay.model.recording import encode

        try:
            write_atomically(target, encode(found))
        except OSError as error:
            _LOG.warning("%s could not be written: %s", target, error.strerror or error)

    recorder = LaunchRecorder(wish, memory, save=save)
    try:
        with recording(recorder, device=device):
            yield recorder
    finally:
        for note in recorder.notes():
            _LOG.warning("not recorded: %s", note)
        if recorder.kept:
            save(recorder.recording())
        elif not list(recorder.notes()):
            _LOG.warning(
                "no launch was recorded: no Triton kernel of the wanted names was launched; "
                "raw CUDA, CuPy and torch.compile are not covered"
            )
