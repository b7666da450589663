"""Executes a recorded call with edits of its instructions, one after another.

Like `replay` it runs in a process for that, on PTX and bytes. Outputs that host code or an
operation of torch made of what the kernels left say nothing of an edit.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuassay.build.machine.instruction_edits import (
    Exchanged,
    edited_module,
    edits_of,
    lines_of,
    ordered,
)
from cuassay.build.machine.launch import prepared
from cuassay.build.machine.memory import StorageArena, element_offsets
from cuassay.build.machine.replay import furnish, set_variables
from cuassay.errors import CuassayError
from cuassay.model import serial
from cuassay.model.dtype import DType
from cuassay.model.machine import EditedCall, EditedCalls, InstructionEdit
from cuassay.model.recording import RecordedResult, Recording, decode, elements_digest
from ptxsan.errors import MachineError
from ptxsan.findings import Severity
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan.syntax import Module

_TEXT = 600
_LAUNCH_S = 2.0  # of one launch with an edit, which may make a loop that does not end
_MOST_EDITS = 400


class _NotToEndError(CuassayError):
    """A launch did not come to its end, or touched memory that it must not."""


def edited(recording: memoryview, request: memoryview) -> bytes:
    """Execute a recording (a file's bytes) with edits; return the outputs of each as JSON.

    The request is JSON: `limit_s` of processor time for all of them, `near`, a source line, the
    `sizes` and `scalars` of the call, and `keys` of edits, or null for all edits. With
    `leaving_out` these leave one operation out each.
    """
    asked = json.loads(bytes(request))
    try:
        seen = _execute(decode(bytes(recording)), asked)
    except (CuassayError, MachineError, ValueError) as error:
        seen = EditedCalls(refused=str(error)[:_TEXT])
    return serial.dumps(seen).encode()


def _execute(recording: Recording, asked: Mapping[str, Any]) -> EditedCalls:
    # Processor time, as the limit is on work: others may use the machine too.
    began = time.process_time()
    until = began + float(asked["limit_s"])
    modules = [parse(text) for text in recording.modules]
    ran: dict[tuple[int, str], set[int]] = {}
    arena = _launched(recording, modules, ran=ran)
    outputs = [_elements(arena, result) for result in recording.results]
    made = zip(outputs, recording.results, strict=True)
    # A GPU gives other last bits than the machine.
    if not outputs or any(
        data is None or (not recording.device and elements_digest(data) != result.digest)
        for data, result in made
    ):
        return EditedCalls(refused="no kernel left an output as it was returned")
    found: dict[str, tuple[InstructionEdit, int, Exchanged]] = {}
    for (number, kernel), lines in ran.items():
        every = edits_of(
            modules[number],
            kernel,
            ran=lines,
            sizes=asked["sizes"],
            scalars=asked["scalars"],
            leaving_out=bool(asked.get("leaving_out")),
        )
        found |= {edit.key: (edit, number, exchanged) for edit, exchanged in every}
    wanted = asked["keys"]
    order = ordered((edit for edit, _, _ in found.values()), near=int(asked["near"]))
    if wanted is not None:
        order = [found[key][0] for key in wanted if key in found]
    calls: list[EditedCall] = []
    same: list[InstructionEdit] = []
    broken: list[str] = []
    cut = len(order) > _MOST_EDITS
    for edit in order[:_MOST_EDITS]:
        if time.process_time() > until:
            cut = True
            break
        _, number, exchanged = found[edit.key]
        changed = [*modules]
        changed[number] = edited_module(modules[number], edit, exchanged)
        try:
            after = _launched(recording, changed)
        except (_NotToEndError, MachineError):
            broken.append(edit.key)
            continue
        left = [_elements(after, result) for result in recording.results]
        if left == outputs:
            same.append(edit)
        else:
            coded = tuple(base64.b64encode(one or b"").decode() for one in left)
            calls.append(EditedCall(edit=edit, outputs=coded))
    return EditedCalls(
        calls=tuple(calls),
        same=tuple(same),
        broken=tuple(broken),
        lines=tuple(
            sorted({line for number, kernel in ran for line in lines_of(modules[number], kernel)})
        ),
        cut=cut,
        spent_s=time.process_time() - began,
    )


def _launched(
    recording: Recording,
    modules: Sequence[Module],
    *,
    ran: dict[tuple[int, str], set[int]] | None = None,
) -> StorageArena:
    """Run every launch of a call and return the memory; note in `ran` which PTX lines did.

    Raises _NotToEndError where one does not end, or (with edits: without `ran`) where it touches
    memory that it must not.
    """
    arena = StorageArena()
    options = Options(
        shadow=False, races=False, predict=False, optimise=False, workers=1, limit_s=_LAUNCH_S
    )
    for launch in recording.launches:
        furnish(arena, launch)
        module = modules[launch.module]
        set_variables(module, launch)
        report = run(module, prepared(launch, arena), options=options)
        wrong = any(one.severity is Severity.WRONG for one in report.findings)
        if report.inconclusive or (ran is None and wrong):
            raise _NotToEndError(report.inconclusive or "an edit touches other memory")
        if ran is not None:
            lines = ran.setdefault((launch.module, launch.kernel), set())
            lines |= report.statistics.executed_lines
    return arena


def _elements(arena: StorageArena, result: RecordedResult) -> bytes | None:
    """Return the bytes of a result's elements in order; None where no launch saw its memory.

    The recording is the candidate's: places outside of the memory are no result.
    """
    region = next((one for one in arena.regions if one.base == result.base), None)
    if region is None:
        return None
    width, data = DType(result.dtype).itemsize, region.buffer.data
    offsets = element_offsets(result)
    if offsets.size and not 0 <= int(offsets.min()) <= int(offsets.max()) <= data.nbytes - width:
        return None
    elements: bytes = data[offsets.reshape(-1, 1) + np.arange(width)].tobytes()
    return elements
