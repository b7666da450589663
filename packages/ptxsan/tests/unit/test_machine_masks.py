"""`bmsk` and `szext` around every border of their operands, against the manual's pseudocode."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan_fuzz.execute import run_text

_EDGES = (0, 1, 5, 31, 32, 33, 40, 0xFFFFFFFF)


def _text(opcode: str) -> str:
    return f"""
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
{opcode} %r3, %r1, %r2;
st.global.b32 [%at1], %r3;
ret;
}}
"""


def _mask(a: int, b: int, mode: str) -> int:
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
    found = run_text(_text(f"bmsk.{mode}.b32"), "probe", np.array(pairs, np.uint32), 1, (1, 64))
    assert [int(one) for one in found[:, 0]] == [_mask(a, b, mode) for a, b in pairs]


def _extended(a: int, b: int, mode: str, *, signed: bool) -> int:
    """PTX ISA, "Integer Arithmetic Instructions: szext"."""
    whole, low = 0xFFFFFFFF, b & 31
    too_large = b >= 32 and mode == "clamp"
    above = 0 if too_large else whole << low & whole
    negative = signed and low > 0 and not too_large and a >> (low - 1) & 1
    return a | above if negative else a & ~above & whole


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_extensions_follow_the_manual(mode: str, kind: str) -> None:
    pairs = [(a, b) for a in (*_EDGES, 0xAAAAAAAA, 0x55555555) for b in _EDGES]
    text = _text(f"szext.{mode}.{kind}")
    found = run_text(text, "probe", np.array(pairs, np.uint32), 1, (1, len(pairs)))
    assert [int(one) for one in found[:, 0]] == [
        _extended(a, b, mode, signed=kind == "s32") for a, b in pairs
    ]
