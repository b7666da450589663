"""Ships the launches that the PTX machine executed in this process: PTX, extents, memory.

They are the candidate's word, as everything from its process: the judge executes them again
elsewhere, and believes of this process nothing but that these bytes came out of it.
"""

from __future__ import annotations

import torch

from cuassay.build import machine
from cuassay.errors import MissingToolError
from cuassay.model.trace import ResultItem
from cuassay.worker.host import Made


def start() -> Made:
    """Execute a RecordLaunches: keep launches from now on."""
    if machine.current is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    machine.current.recorder.start()
    return Made()


def read() -> Made:
    """Execute a ReadRecording: send the recording as one uint8 tensor of a file's bytes."""
    from cuassay.machine.recording import encode

    if machine.current is None:
        raise MissingToolError("no kernel of this candidate is executed by the PTX machine")
    recorder = machine.current.recorder
    recorder.on = False
    data = bytearray(encode(recorder.recording()))
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
