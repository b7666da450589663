"""`bmsk` over the operands around every border, against the manual's pseudocode."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.fuzz.execute import run_text

_TEXT = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 input, .param .u64 output)
{{
.reg .b32 %r<6>; .reg .b64 %at<2>;
ld.param.u64 %at0, [input];
ld.param.u64 %at1, [output];
mov.u32 %r0, %tid.x;
mad.wide.u32 %at0, %r0, 8, %at0;
mad.wide.u32 %at1, %r0, 4, %at1;
ld.global.v2.b32 {{%r1, %r2}}, [%at0];
bmsk.{mode}.b32 %r3, %r1, %r2;
st.global.b32 [%at1], %r3;
ret;
}}
"""
_EDGES = (0, 1, 5, 31, 32, 33, 40, 0xFFFFFFFF)


def _manual(a: int, b: int, mode: str) -> int:
    """PTX ISA, "Integer Arithmetic Instructions: bmsk"."""
    whole = 0xFFFFFFFF
    place, width = a & 31, b & 31
    high, low = whole << place & whole, whole << (place + width) & whole
    over = place + width >= 32
    if mode == "clamp":
        high = 0 if a >= 32 else high
        over = over or a >= 32 or b >= 32
    return high & ~(0 if over else low) & whole


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_masks_follow_the_manual(mode: str) -> None:
    pairs = [(a, b) for a in _EDGES for b in _EDGES]
    found = run_text(_TEXT.format(mode=mode), "probe", np.array(pairs, np.uint32), 1, (1, 64))
    assert [int(one) for one in found[:, 0]] == [_manual(a, b, mode) for a, b in pairs]
