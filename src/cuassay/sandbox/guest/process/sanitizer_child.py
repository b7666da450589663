"""The process below compute-sanitizer: builds a candidate and calls it once on given inputs.

`python -m cuassay.sandbox.guest.process.sanitizer_child FOLDER`; FOLDER holds case.json and
inputs.pt. Writes `called` or `failed` into FOLDER/work: hints for a message, never judged by.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path

import torch

from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.scenario import Allocate, Call, Poison, Step
from cuassay.model.trace import StepRaised
from cuassay.sandbox import environment
from cuassay.sandbox.guest.interface import Given
from cuassay.sandbox.guest.interpreter import Interpreter
from cuassay.sandbox.guest.process import walls as sandbox
from cuassay.sandbox.guest.process.bytecode import keep_bytecode
from cuassay.sandbox.limits import Limits


def call_once(folder: Path) -> str:
    """Build and call; return what was raised, or an empty string."""
    held = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    device, recipe = Device(held["device"]), held["recipe"]
    environment.adopt(held["told"])
    values = torch.load(folder / "inputs.pt", weights_only=True)
    given = Given(
        inputs={k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in values.items()},
        owned=True,
    )
    # The tool has connected by now: CUDA has started.
    writable = (str(folder / "work"), str(recipe["folder"]))
    sandbox.restrict(
        Limits(), device=device, writable=writable, readable=held["readable"], namespaces={}
    )
    candidate = serial.from_json(Candidate, recipe["candidate"])
    problem = serial.from_json(Problem, recipe["problem"])
    module, _, function = str(recipe["builder"]).partition(":")
    load = getattr(importlib.import_module(module), function)
    keep_bytecode(Path(recipe["folder"]))
    built = load(candidate, problem, device=device, folder=Path(recipe["folder"]))
    interpreter = Interpreter(built.call, problem, device=device, convention=candidate.convention)
    cases = (Case(label="", axes={name: int(size) for name, size in held["axes"].items()}),)
    steps: tuple[Step, ...] = (
        Allocate(slot="a", case=0),
        Call(slot="a", result="r", poison=Poison.NONE),
    )
    for index, step in enumerate(steps):
        done = interpreter.execute(step, index, cases=cases, given=given)
        if isinstance(done.record, StepRaised):
            return f"{done.record.exception}: {done.record.message}"
    return ""


def main() -> None:
    """Serve one call; exceptions become a line of text."""
    folder = Path(sys.argv[1])
    try:
        raised = call_once(folder)
    except BaseException as error:
        raised = f"{type(error).__name__}: {error}"
    name = "failed" if raised else "called"
    with contextlib.suppress(OSError):
        (folder / "work" / name).write_text(raised[:2000] or "1", encoding="utf-8")
    if raised:
        sys.stdout.flush()
        os._exit(3)


if __name__ == "__main__":
    main()
