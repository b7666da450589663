"""Executes recorded calls in the algebra, in a process for that: kernels and torch's operations.

As in `build.machine.replay`, no candidate's code is loaded into the process: it gets PTX, names
of torch's operations, and bytes.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import struct
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cuassay.build.machine.replay import furnish
from cuassay.errors import CuassayError
from cuassay.model import serial
from cuassay.model.machine import EqualityEvidence
from cuassay.model.recording import Argument, RecordedResult, Recording, decode, elements_digest
from ptxsan.errors import MachineError

if TYPE_CHECKING:
    from cuassay.build.machine.memory import StorageArena
    from ptxsan.equivalence import Executed, Output
    from ptxsan.residues import Residues
    from ptxsan.syntax import Module

_ROOTS = re.compile(r"\br?sqrt\.")
_TEXT = 600
_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}
_WIDTHS = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int64": 8, "int32": 4,
           "int16": 2, "int8": 1, "uint8": 1, "bool": 1}  # fmt: skip
_PACKED = {"f32": "<f", "f64": "<d"}
_MOST_ELEMENTS = 1 << 24


def prepare() -> None:
    """Compile what the algebra needs of the machine's runtime, or load it from its cache."""
    from ptxsan.runtime import symbols

    symbols.warm_algebra()


def compare(first: memoryview, second: memoryview, request: memoryview) -> bytes:
    """Compare two recordings (files' bytes); return the evidence as JSON.

    The request is JSON: `seeds` and `limit_s` for one launch.
    """
    asked = json.loads(bytes(request))
    try:
        recordings = [decode(bytes(one)) for one in (first, second)]
        seen = compared(recordings[0], recordings[1], asked)
    except (CuassayError, MachineError, ValueError) as error:
        seen = EqualityEvidence(refused=str(error)[:_TEXT])
    return serial.dumps(seen).encode()


def compared(first: Recording, second: Recording, asked: dict[str, Any]) -> EqualityEvidence:
    """Execute both recordings with the same random residues and compare their results.

    Raises MachineError for what cannot be executed or lies where no kernel wrote it, ValueError
    for results that do not match.
    """
    from ptxsan.equivalence import SEEDS, equivalent
    from ptxsan.numerics.residues import P

    limit_s = float(asked.get("limit_s", 60.0))
    started = time.perf_counter()
    sides = [_Side(one, limit_s) for one in (first, second)]
    if len(first.results) != len(second.results):
        raise ValueError(f"{len(first.results)} outputs and {len(second.results)} of the other")
    found = equivalent(sides[0], sides[1], seeds=int(asked.get("seeds", SEEDS)))
    return EqualityEvidence(
        elements=found.elements,
        equal=found.equal,
        output=found.first[0][:_TEXT] if found.first else "",
        element=found.first[1] if found.first else 0,
        seeds=found.seeds,
        prime=P,
        roots=found.roots,
        run_s=time.perf_counter() - started,
    )


def match(recording: memoryview, expected: memoryview, request: memoryview) -> bytes:
    """Compare a recording with a reference's residues; return the evidence as JSON.

    The request is JSON: `seeds`, `limit_s` for one launch, and `outputs`: [count, whether floats]
    of each. `expected` holds, as int64 and float64: for each output its numbers (of floats) or
    codes, then for each seed the resolved slots of each output of floats.
    """
    asked = json.loads(bytes(request))
    try:
        seen = _matched(decode(bytes(recording)), expected, asked)
    except (CuassayError, MachineError, ValueError) as error:
        seen = EqualityEvidence(refused=str(error)[:_TEXT])
    return serial.dumps(seen).encode()


def _matched(recording: Recording, expected: memoryview, asked: dict[str, Any]) -> EqualityEvidence:
    import numpy as np

    from ptxsan.equivalence import Expected, expected_at
    from ptxsan.numerics.residues import P
    from ptxsan.residues import Residues

    started = time.perf_counter()
    words = np.frombuffer(expected, np.int64)
    counts = [(int(count), bool(floats)) for count, floats in asked["outputs"]]
    ends = np.cumsum([0, *(count for count, _ in counts)])
    numbers = [words[a:b] for a, b in itertools.pairwise(ends)]
    place = int(ends[-1])
    side = _Side(recording, float(asked["limit_s"]))
    same: list[Any] = [np.ones(count, np.bool_) for count, _ in counts]
    outputs: Sequence[Output] = ()
    for seed in asked["seeds"]:
        residues = Residues(seed=int(seed), strict=True)
        outputs = side(residues).outputs
        sizes = [int(one.offsets.size) for one in outputs]
        if sizes != [count for count, _ in counts]:
            raise ValueError(f"outputs of {sizes} elements, the reference's have {counts}")
        for number, (count, floats) in enumerate(counts):
            slots = words[place : place + count] if floats else None
            place += count if floats else 0
            wanted = Expected(
                slots=slots,
                values=numbers[number].view(np.float64) if floats else None,
                codes=None if floats else numbers[number],
            )
            same[number] &= expected_at(outputs[number], wanted, residues)
    first = next((n for n, one in enumerate(same) if not one.all()), None)
    return EqualityEvidence(
        elements=sum(count for count, _ in counts),
        equal=int(sum(one.sum() for one in same)),
        output="" if first is None else outputs[first].name[:_TEXT],
        element=0 if first is None else int(np.flatnonzero(~same[first])[0]),
        seeds=len(asked["seeds"]),
        prime=P,
        run_s=time.perf_counter() - started,
        kernels=tuple(dict.fromkeys(one.kernel[:_TEXT] for one in recording.launches)),
        operations=tuple(dict.fromkeys(one.name for one in recording.operations)),
        numbers=tuple(side.numbers()),
    )


class _Side:
    """One candidate's call, executed once for each choice of residues."""

    def __init__(self, recording: Recording, limit_s: float) -> None:
        from ptxsan.parser import parse

        self._recording, self._limit_s = recording, limit_s
        self._modules: Sequence[Module] = [parse(text) for text in recording.modules]
        self._roots = any(_ROOTS.search(text) for text in recording.modules)

    def __call__(self, residues: Residues) -> Executed:
        """Execute and return the results. Raises MachineError."""
        from cuassay.algebra.operations import perform
        from cuassay.build.machine.launch import prepared
        from cuassay.build.machine.memory import StorageArena
        from ptxsan.equivalence import Executed
        from ptxsan.findings import Kind
        from ptxsan.options import Options
        from ptxsan.run import run

        arena = StorageArena()
        options = Options(shadow=residues, races=False, limit_s=self._limit_s)
        operations = list(self._recording.operations)
        for number, launch in enumerate(self._recording.launches):
            while operations and operations[0].launches <= number:
                perform(operations.pop(0), arena, residues)
            furnish(arena, launch)
            module = self._modules[launch.module]
            report = run(module, prepared(launch, arena), options=options)
            if report.inconclusive:
                raise MachineError(f"'{launch.kernel}' was not executed: {report.inconclusive}")
            if any(one.kind is Kind.UNINITIALISED for one in report.findings):
                raise MachineError(f"'{launch.kernel}' reads memory that nobody wrote")
        for operation in operations:
            perform(operation, arena, residues)
        outputs = tuple(_output(arena, one) for one in self._recording.results)
        if not outputs:
            raise MachineError("the call returned no tensor")
        return Executed(outputs=outputs, roots=self._roots)

    def numbers(self) -> Iterator[float]:
        """Yield the floats that host code gave to operations of torch and to kernels, in order."""
        for operation in self._recording.operations:
            yield from _floats((*operation.arguments, *operation.named.values()))
        for launch in self._recording.launches:
            function = self._modules[launch.module].functions.get(launch.kernel)
            for given, data in zip(
                function.params if function else (), launch.arguments, strict=False
            ):
                form = _PACKED.get(given.type)
                if form is not None and given.count == 1 and len(data) == struct.calcsize(form):
                    yield struct.unpack(form, data)[0]


def _floats(values: Sequence[Argument]) -> Iterator[float]:
    for one in values:
        if isinstance(one, tuple):
            yield from _floats(one)
        elif isinstance(one, float):
            yield one


def _output(arena: StorageArena, result: RecordedResult) -> Output:
    """Return a result as memory that the kernels left."""
    import numpy as np

    from cuassay.build.machine.memory import element_offsets
    from ptxsan.equivalence import Output

    held = arena.pointer(result.base + result.offset)
    if held is None or held.offset != result.offset:
        raise MachineError(
            f"output '{result.name}' is not memory that a kernel or a recorded operation of torch "
            "wrote or read"
        )
    data, width = held.buffer.data, _WIDTHS.get(result.dtype, 0)
    count = math.prod(result.shape)
    last = sum((n - 1) * step for n, step in zip(result.shape, result.strides, strict=True))
    if not width or count > _MOST_ELEMENTS:
        raise MachineError(f"output '{result.name}' of {count} {result.dtype} cannot be compared")
    offsets = element_offsets(result)
    if count and result.offset + last + width > data.nbytes:
        raise MachineError(f"output '{result.name}' leaves its memory")
    elements = data[offsets.reshape(-1, 1) + np.arange(width)]
    if elements_digest(elements.tobytes()) != result.digest:
        raise MachineError(
            f"output '{result.name}' was changed after the last kernel and operation, or comes out "
            "different when its kernels run again"
        )
    type_ = _TYPES.get(result.dtype, result.dtype)
    return Output(
        name=result.name, buffer=held.buffer, type=type_, offsets=offsets.reshape(-1), width=width
    )
