"""Runs the fuzzer's programs, and kernels over words, in the machine without its checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxsan.errors import MachineError
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_fuzz.inputs import words
from ptxsan_fuzz.programs import (
    INPUT_WORDS,
    OUTPUT_WORDS,
    THREADS,
    generate,
    module,
)
from ptxsan_fuzz.table import ROWS, Row
from ptxsan_fuzz.units import UNIT_BLOCKS, UNIT_THREADS, unit

UNITS = UNIT_BLOCKS * UNIT_THREADS
_PLAIN = Options(shadow=False, races=False, workers=1)


def run_text(
    text: str,
    entry: str,
    given: NDArray[np.generic],
    out_words: int,
    shape: tuple[int, int],
    *,
    options: Options = _PLAIN,
) -> NDArray[np.uint32]:
    """Return uint32[threads of the grid, out_words] that an entry (input, output) stores.

    `shape` is (blocks, threads a block). Raises MachineError where it cannot be executed.
    """
    data = np.ascontiguousarray(given).copy().view(np.uint8).ravel()
    inputs = Buffer(name="input", data=data)
    threads = shape[0] * shape[1]
    outputs = Buffer(name="output", data=np.zeros(4 * threads * out_words, np.uint8))
    launch = Launch(
        kernel=entry,
        grid=(shape[0], 1, 1),
        block=(shape[1], 1, 1),
        arguments=(Pointer(buffer=inputs), Pointer(buffer=outputs)),
    )
    report = run(parse(text), launch, options=options)
    if report.inconclusive is not None:
        raise MachineError(report.inconclusive)
    return outputs.data.view(np.uint32).reshape(threads, out_words)


def run_program(
    seed: int, *, options: Options = _PLAIN, careful: bool = True
) -> NDArray[np.uint32]:
    """Return uint32[THREADS, OUTPUT_WORDS]: what the random program of a seed stores."""
    program = generate(seed, careful=careful)
    given = words(seed, THREADS * INPUT_WORDS)
    return run_text(
        module([program]), program.name, given, OUTPUT_WORDS, (1, THREADS), options=options
    )


def unit_inputs(row: Row) -> NDArray[np.uint64]:
    """Return uint64[UNITS, sources]: the operands of an instruction that runs alone."""
    count = max(1, len(row.sources))
    return words(1 << 20 | ROWS.index(row), 2 * UNITS * count).view(np.uint64).reshape(UNITS, count)


def run_unit(row: Row, given: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return uint64[UNITS]: the result of one instruction on given[UNITS, sources]."""
    found = run_text(unit(row), "unit", given, 2, (UNIT_BLOCKS, UNIT_THREADS))
    return found.view(np.uint64).ravel()


def row_of(opcode: str) -> Row:
    """Return the row of an opcode."""
    return next(row for row in ROWS if row.opcode == opcode)


def run_operations(
    operations: Sequence[str], rows: Sequence[tuple[int, int, int]]
) -> list[dict[str, int]]:
    """Return, for each row of three words, the word that each operation makes of it.

    An operation is an instruction without its result: `add.u32 %r1, %r2` with the row in %r1, %r2
    and %r3. At most 1024 rows.
    """
    lines = [
        f"{one.replace(' ', ' %r4, ', 1)}; st.global.b32 [%at1+{4 * number}], %r4;"
        for number, one in enumerate(operations)
    ]
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 input, .param .u64 output)
{{
.reg .b32 %r<6>; .reg .b64 %at<2>;
ld.param.u64 %at0, [input];
ld.param.u64 %at1, [output];
mov.u32 %r0, %tid.x;
mad.wide.u32 %at0, %r0, 12, %at0;
mad.wide.u32 %at1, %r0, {4 * len(operations)}, %at1;
ld.global.b32 %r1, [%at0]; ld.global.b32 %r2, [%at0+4]; ld.global.b32 %r3, [%at0+8];
{chr(10).join(lines)}
ret;
}}
"""
    found = run_text(text, "probe", np.array(rows, np.uint32), len(operations), (1, len(rows)))
    return [dict(zip(operations, map(int, row), strict=True)) for row in found]
