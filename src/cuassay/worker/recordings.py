"""Ships the launches that the PTX machine executed in this process: PTX, extents, memory.

They are the candidate's word, as everything from its process: the judge executes them again
elsewhere, and believes of this process nothing but that these bytes came out of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

import torch

from cuassay.build import machine
from cuassay.errors import MissingToolError
from cuassay.model.steps import ReadRecording
from cuassay.model.trace import ResultItem
from cuassay.worker.host import Host, Made

if TYPE_CHECKING:
    from cuassay.machine.recording import RecordedResult


def start() -> Made:
    """Execute a RecordLaunches: keep launches from now on."""
    if machine.current is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    machine.current.recorder.start()
    return Made()


def read(host: Host, step: ReadRecording) -> Made:
    """Execute a ReadRecording: send the recording as one uint8 tensor of a file's bytes."""
    from cuassay.machine.recording import encode

    if machine.current is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    recorder = machine.current.recorder
    recorder.on = False
    recording = recorder.recording()
    if step.result:
        held = host.result(step.result)
        places = [_place(name, value) for name, value in held if isinstance(value, torch.Tensor)]
        recording = dataclasses.replace(recording, results=tuple(places))
    data = bytearray(encode(recording))
    tensor = torch.frombuffer(data, dtype=torch.uint8)
    item = ResultItem(
        kind="tensor",
        type_name="torch.Tensor",
        dtype="uint8",
        shape=(len(data),),
        strides=(1,),
        device="cpu",
        buffer=0,
        name="recording",
    )
    return Made(items=(item,), tensors=(tensor,))


def _place(name: str, tensor: torch.Tensor) -> RecordedResult:
    """Return where a result lies; its storage's digest says whether somebody wrote to it later."""
    from cuassay.machine.recording import RecordedResult

    storage, size = tensor.untyped_storage(), tensor.element_size()
    data = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
    return RecordedResult(
        name=name,
        dtype=str(tensor.dtype).removeprefix("torch."),
        base=storage.data_ptr(),
        offset=int(tensor.storage_offset()) * size,
        shape=tuple(tensor.shape),
        strides=tuple(step * size for step in tensor.stride()),
        digest=hashlib.blake2b(data.tobytes(), digest_size=16).hexdigest(),
    )
