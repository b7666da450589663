"""Of which product of 32 bits an address is made."""

from __future__ import annotations

import pytest

from cuassay.build.machine.narrow_products import narrow_product
from ptxsan.parser import parse
from ptxsan.program import build

_PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 x, .param .u32 columns)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [columns];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    shl.b32 %r4, %r2, 8;
    add.s32 %r5, %r4, %r3;
    {product}
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r7, [%rd3];
    st.global.u32 [%rd3], %r7;
    ret;
}}
"""
_NARROW = "mul.lo.s32 %r6, %r5, %r1;\n    mul.wide.s32 %rd2, %r6, 4;"
_WIDE = "cvt.u64.u32 %rd4, %r1;\n    mul.wide.s32 %rd5, %r5, 4;\n    mul.lo.s64 %rd2, %rd5, %rd4;"


@pytest.mark.parametrize(
    ("product", "opcode"), [(_NARROW, "mul.lo.s32"), (_WIDE, "shl.b32")], ids=["narrow", "wide"]
)
def test_a_product_of_two_values_goes_before_one_with_a_constant(product: str, opcode: str) -> None:
    program = build(parse(_PTX.format(product=product)), "k")
    load = next(one for one in program.body if one.opcode == "ld.global.u32")
    found = narrow_product(program, load.line)
    assert found is not None
    assert found.opcode == opcode


def test_what_was_read_was_computed_elsewhere() -> None:
    program = build(parse(_PTX.format(product="ld.global.u64 %rd2, [%rd1];")), "k")
    load = next(one for one in program.body if one.opcode == "ld.global.u32")
    assert narrow_product(program, load.line) is None
