"""SIMD video instructions against the manual's words, lane by lane in Python."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable

import numpy as np
import pytest

from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.parser import parse
from ptxsan.run import run

_VALUES = (0, 0x01020304, 0xFFFFFFFF, 0x80FF7F01, 0x7F80017F, 0xFE02FF80, 0x80008000, 0x00FF8001)
_TYPES = tuple(itertools.product(("u32", "s32"), repeat=3))
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "vadd": operator.add,
    "vsub": operator.sub,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _executed(opcodes: list[str]) -> list[list[tuple[int, int, int]]]:
    """Return (a, b, result) of each opcode for all pairs of values; c is 1000."""
    pairs = list(itertools.product(_VALUES, repeat=2))
    body = "".join(
        f"{opcode} %r4, %r1, %r2, %r3;\nst.global.u32 [%rd2+{4 * len(pairs) * n}], %r4;\n"
        for n, opcode in enumerate(opcodes)
    )
    text = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .b32 %r<6>;
.reg .b64 %rd<6>;
ld.param.u64 %rd1, [in];
ld.param.u64 %rd2, [out];
mov.u32 %r5, %tid.x;
mul.wide.u32 %rd3, %r5, 8;
add.s64 %rd1, %rd1, %rd3;
ld.global.u32 %r1, [%rd1];
ld.global.u32 %r2, [%rd1+4];
mul.wide.u32 %rd3, %r5, 4;
add.s64 %rd2, %rd2, %rd3;
mov.u32 %r3, 1000;
{body}ret;
}}
"""
    given = np.array(pairs, np.uint32)
    out = np.zeros((len(opcodes), len(pairs)), np.uint32)
    buffers = [
        Buffer(name=name, data=data.reshape(-1).view(np.uint8))
        for name, data in (("in", given), ("out", out))
    ]
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(len(pairs), 1, 1), buffers=tuple(buffers),
        arguments=tuple(Pointer(buffer=one) for one in buffers),
    )  # fmt: skip
    report = run(parse(text), launch)
    assert report.inconclusive is None
    assert not report.findings
    return [[(a, b, int(found)) for (a, b), found in zip(pairs, row, strict=True)] for row in out]


def _lanes(value: int, lanes: int, type_: str) -> list[int]:
    width = 32 // lanes
    parts = [value >> (width * n) & ((1 << width) - 1) for n in range(lanes)]
    return [part - (1 << width if type_ == "s32" and part >> (width - 1) else 0) for part in parts]


def _expected(found: list[int], lanes: int, type_: str, *, sat: bool, add: bool) -> int:
    width = 32 // lanes
    if sat:
        low, high = (-(1 << width - 1), (1 << width - 1) - 1) if type_ == "s32" else (
            0, (1 << width) - 1
        )  # fmt: skip
        found = [min(max(one, low), high) for one in found]
    if add:
        return (1000 + sum(found)) & 0xFFFFFFFF
    return sum((one & ((1 << width) - 1)) << (width * n) for n, one in enumerate(found))


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("name", list(_OPERATIONS))
def test_an_operation_is_done_lane_by_lane(name: str, lanes: int) -> None:
    forms = [(types, end) for types in _TYPES for end in ("", ".sat", ".add")]
    opcodes = [f"{name}{lanes}.{'.'.join(types)}{end}" for types, end in forms]
    for (types, end), rows in zip(forms, _executed(opcodes), strict=True):
        for a, b, found in rows:
            pairs = zip(_lanes(a, lanes, types[1]), _lanes(b, lanes, types[2]), strict=True)
            right = [int(_OPERATIONS[name](x, y)) for x, y in pairs]
            assert found == _expected(
                right, lanes, types[0], sat=end == ".sat", add=end == ".add"
            ), (name, lanes, types, end, hex(a), hex(b))


@pytest.mark.parametrize("lanes", [2, 4])
def test_a_comparison_gives_ones(lanes: int) -> None:
    forms = [
        (types, how, end) for types in itertools.product(("u32", "s32"), repeat=2)
        for how in _COMPARE for end in ("", ".add")
    ]  # fmt: skip
    opcodes = [f"vset{lanes}.{types[0]}.{types[1]}.{how}{end}" for types, how, end in forms]
    for (types, how, end), rows in zip(forms, _executed(opcodes), strict=True):
        for a, b, found in rows:
            pairs = zip(_lanes(a, lanes, types[0]), _lanes(b, lanes, types[1]), strict=True)
            right = [int(_COMPARE[how](x, y)) for x, y in pairs]
            assert found == _expected(right, lanes, "u32", sat=False, add=end == ".add")
