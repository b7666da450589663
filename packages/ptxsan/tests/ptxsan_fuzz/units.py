"""One instruction of `table` alone, as a kernel over many operands."""

from __future__ import annotations

from ptxsan_fuzz.programs import HEADER
from ptxsan_fuzz.table import Row

UNIT_THREADS, UNIT_BLOCKS = 32, 32


def unit(row: Row) -> str:
    """Return a module with an entry `unit` (input, output) that runs one instruction.

    A thread reads a 64-bit word for each source and stores the result in 64 bits, as
    UNIT_BLOCKS blocks of UNIT_THREADS threads.
    """
    kinds = {"h": "b16", "r": "b32", "d": "b64", "p": "pred"}
    lines = [
        f"{HEADER}.visible .entry unit(.param .u64 input, .param .u64 output)",
        "{",
        *[f".reg .{kind} %{letter}<8>;" for letter, kind in kinds.items()],
        ".reg .b32 %t<4>; .reg .b64 %at<3>; .reg .b64 %w<8>;",
        "ld.param.u64 %at0, [input];",
        "ld.param.u64 %at1, [output];",
        "mov.u32 %t0, %tid.x;",
        "mov.u32 %t1, %ctaid.x;",
        f"mad.lo.u32 %t0, %t1, {UNIT_THREADS}, %t0;",
        f"mad.wide.u32 %at0, %t0, {8 * max(1, len(row.sources))}, %at0;",
        "mad.wide.u32 %at1, %t0, 8, %at1;",
    ]
    names = []
    for index, letter in enumerate(row.sources):
        name = f"%{letter}{index + 1}"
        names.append(name)
        if letter == "p":
            lines.append(f"ld.global.b32 %t2, [%at0+{8 * index}];")
            lines.append(f"and.b32 %t2, %t2, 1; setp.ne.u32 {name}, %t2, 0;")
        else:
            lines.append(f"ld.global.{kinds[letter]} {name}, [%at0+{8 * index}];")
        if index == row.divisor:
            bits = {"h": 16, "r": 32, "d": 64}[letter]
            largest = (1 << (bits - (1 if ".s" in row.opcode else 0))) - 1
            lines.append(f"and.b{bits} {name}, {name}, {largest};")
            lines.append(f"or.b{bits} {name}, {name}, 1;")
    result = f"%{row.result}0"
    lines.append(f"{row.opcode} {', '.join([result, *names])};")
    lines.append("mov.b64 %w0, 0;")
    lines.append("st.global.b64 [%at1], %w0;")
    if row.result == "p":
        lines.append(f"selp.b32 %t2, 1, 0, {result};")
        result, kind = "%t2", "b32"
    else:
        kind = kinds[row.result]
    lines += [f"st.global.{kind} [%at1], {result};", "ret;", "}"]
    return "\n".join(lines) + "\n"
