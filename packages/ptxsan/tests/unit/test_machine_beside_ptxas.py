"""What PTX says where ptxas 12.8 and 12.9 assemble something else, as an H200 showed.

Each program is the least one that shows it; the values are PTX's, computed here in Python.
"""

from __future__ import annotations

import numpy as np

from ptxsan_fuzz.execute import run_text

_HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry probe(.param .u64 input, .param .u64 output)
{
.reg .b32 %r<6>; .reg .b64 %d<4>; .reg .b64 %at<2>; .reg .pred %p<3>;
.local .align 8 .b8 own[8];
ld.param.u64 %at0, [input];
ld.param.u64 %at1, [output];
ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%at0];
"""
_TAIL = "st.global.b32 [%at1], %r0;\nret;\n}\n"


def _run(body: str, given: list[int]) -> int:
    words = np.array(given, np.uint32)
    return int(run_text(_HEAD + body + _TAIL, "probe", words, 1, (1, 1))[0, 0])


def test_a_product_added_twice_counts_twice() -> None:
    """ptxas -O3 keeps one of several equal `mad.hi` onto their own addend."""
    body = "mad.hi.s32 %r0, %r1, %r2, %r0;\n" * 3
    assert _run(body, [5, 1 << 20, 1 << 20, 0]) == 5 + 3 * (1 << 8)


def test_a_shift_by_a_floats_bits_shifts_by_its_bits() -> None:
    """ptxas converts the count from float to integer where the result has 64 bits."""
    body = "mov.b64 %d0, {%r0, %r1};\nmax.f32 %r2, %r2, %r3;\nshl.b64 %d0, %d0, %r2;\n"
    body += "cvt.u32.u64 %r0, %d0;\n"
    two = 0x40000000
    assert _run(body, [1, 0, two, 0]) == 0  # by 2**30 and more, not by two
    assert _run(body, [1, 0, 3, 0]) == 8  # by three: a subnormal's bits, not by its value


def test_a_byte_of_a_floats_bits_is_stored_as_it_is() -> None:
    """ptxas converts a register that a float instruction wrote to an 8-bit integer by value."""
    body = "add.f32 %r0, %r0, %r1;\nst.local.u8 [own], %r0;\nld.local.u8 %r0, [own];\n"
    assert _run(body, [0x3F800001, 0, 0, 0]) == 1
    assert _run(body, [0x447A0000, 0, 0, 0]) == 0  # 1000.0


def test_a_copied_predicate_outlives_its_source() -> None:
    """ptxas takes `and.pred %p1, %p0, %p0` for %p0 after %p0 is overwritten."""
    body = """
    setp.ne.u32 %p0, %r1, 0;
    and.pred %p1, %p0, %p0;
    setp.ne.u32 %p0, %r2, 0;
    selp.b32 %r0, 1, 2, %p1;
    @%p0 add.u32 %r0, %r0, 4;
    """
    assert _run(body, [0, 1, 0, 0]) == 1
    assert _run(body, [0, 0, 1, 0]) == 6
