"""Ships launches of this process: PTX, extents, memory; the PTX machine's, or a GPU's.

They are the candidate's word, as everything from its process: the judge executes them again
elsewhere, and believes of this process nothing but that these bytes came out of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch

from cuassay.build.machine import candidates as machine
from cuassay.build.recording.ledger import LEDGER
from cuassay.errors import MissingToolError
from cuassay.model.device import CPU, Device
from cuassay.model.steps import ReadRecording, RecordLaunches
from cuassay.model.trace import ResultItem
from cuassay.sandbox.guest.interface import Around, Host, Made

if TYPE_CHECKING:
    from cuassay.model.recording import RecordedResult, Recording


def start(host: Host, around: Around, step: RecordLaunches) -> Made:
    """Execute a RecordLaunches: keep launches from now on."""
    if step.on_gpu:
        _start_on_gpu(around, Device(host.device.kind))
        return Made()
    launcher = machine.current
    if launcher is None and step.operations and not machine.missing():
        launcher = machine.without_kernels()
        arena, recorder = launcher.arena, launcher.recorder
        around.entered["operations"] = lambda: arena.watching({}, (), recorder)
    if launcher is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    launcher.recorder.start(outline=step.outline, operations=step.operations)
    return Made()


def _start_on_gpu(around: Around, device: Device) -> None:
    """Record the launches of every call from now on, and know what no call has written."""
    from cuassay.build.recording import gpu_memory, unwritten
    from cuassay.build.recording import now as recording_now
    from cuassay.build.recording.recorder import LaunchRecorder, Wish

    wish = Wish(pattern=unwritten.new_pattern())
    recorder = around.recorder = LaunchRecorder(wish, gpu_memory.gpu_memory())
    triton = recording_now.has_triton()

    @contextlib.contextmanager
    def recorded() -> Iterator[None]:
        led = LEDGER.lead_libraries()
        try:
            with recording_now.recording(recorder, triton=triton, device=device):
                yield
        finally:
            LEDGER.release_libraries(led)

    around.entered["recorder"] = recorded

    def mark(outputs: Sequence[tuple[str, torch.Tensor]]) -> None:
        for _, tensor in outputs:
            unwritten.lay(tensor, wish.pattern)

    around.outgoing[:] = [mark]


def read(host: Host, around: Around, step: ReadRecording) -> Made:
    """Execute a ReadRecording: send the recording as one uint8 tensor of a file's bytes."""
    # What was recorded is taken out: nothing more is kept.
    if around.recorder is not None:
        recording = around.recorder.recording()
        around.recorder = None
        around.entered.pop("recorder", None)
        around.outgoing.clear()
    else:
        if machine.current is None:
            raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
        around.entered.pop("operations", None)
        recorder = machine.current.recorder
        recorder.on = False
        recording = recorder.recording()
    if step.result:
        held = host.result(step.result)
        places = [_place(name, value) for name, value in held if isinstance(value, torch.Tensor)]
        recording = dataclasses.replace(recording, results=tuple(places))
    return made_of(recording)


def made_of(recording: Recording) -> Made:
    """Return a recording as one uint8 tensor of a file's bytes."""
    from cuassay.model.recording import encode

    data = bytearray(encode(recording))
    tensor = torch.frombuffer(data, dtype=torch.uint8)
    item = ResultItem(
        kind="tensor",
        type_name="torch.Tensor",
        dtype="uint8",
        shape=(len(data),),
        strides=(1,),
        device=CPU,
        buffer=0,
        name="recording",
    )
    facts = (("launches", str(len(recording.launches))),)
    return Made(items=(item,), tensors=(tensor,), facts=facts)


def _place(name: str, tensor: torch.Tensor) -> RecordedResult:
    """Return where a result lies; its elements' digest says whether somebody wrote to it later."""
    from cuassay.build.machine.operations import bytes_of
    from cuassay.model.recording import RecordedResult, elements_digest

    storage, size = tensor.untyped_storage(), tensor.element_size()
    return RecordedResult(
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        base=storage.data_ptr(),
        offset=int(tensor.storage_offset()) * size,
        shape=tuple(tensor.shape),
        strides=tuple(step * size for step in tensor.stride()),
        digest=elements_digest(bytes_of(tensor.detach().cpu())),
    )
