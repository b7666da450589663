"""Definedness follows bytes: what is put together, taken apart and never used is no finding."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind
from ptxsan.launch import Buffer
from ptxsan_support.ptx import buffer_of, execute, kernel

# Each takes %r2, of which the upper 16 bits (%rd5: the upper 32) are uninitialised, and leaves one
# half in %h1: the low one, then the high one.
_MOVES = {
    "unpacked": ("mov.b32 {%h1, %h2}, %r2;", "mov.b32 {%h2, %h1}, %r2;"),
    "cut": ("cvt.u16.u32 %h1, %r2;", "shr.u32 %r3, %r2, 16; cvt.u16.u32 %h1, %r3;"),
    "masked": (
        "and.b32 %r3, %r2, 65535; cvt.u16.u32 %h1, %r3;",
        "and.b32 %r3, %r2, -65536; shr.u32 %r3, %r3, 16; cvt.u16.u32 %h1, %r3;",
    ),
    "shifted up and down": (
        "shl.b32 %r3, %r2, 16; shr.u32 %r3, %r3, 16; cvt.u16.u32 %h1, %r3;",
        "shr.s32 %r3, %r2, 12; shr.u32 %r3, %r3, 4; cvt.u16.u32 %h1, %r3;",
    ),
    "permuted": (
        "prmt.b32 %r3, %r2, 0, 0x4410; mov.b32 {%h1, %h2}, %r3;",
        "prmt.b32 %r3, %r2, 0, 0x4432; mov.b32 {%h1, %h2}, %r3;",
    ),
    "packed again": (
        "mov.b32 {%h2, %h3}, %r2; mov.b32 %r3, {%h3, %h2}; mov.b32 {%h4, %h1}, %r3;",
        "mov.b32 {%h2, %h3}, %r2; mov.b32 %r3, {%h3, %h2}; mov.b32 {%h1, %h4}, %r3;",
    ),
    "added in pairs": (
        "add.rn.bf16x2 %r3, %r2, %r2; mov.b32 {%h1, %h2}, %r3;",
        "add.rn.bf16x2 %r3, %r2, %r2; mov.b32 {%h2, %h1}, %r3;",
    ),
    "multiplied in pairs": (
        "fma.rn.f16x2 %r3, %r2, %r2, %r2; mov.b32 {%h1, %h2}, %r3;",
        "fma.rn.f16x2 %r3, %r2, %r2, %r2; mov.b32 {%h2, %h1}, %r3;",
    ),
    "chosen": (
        "selp.b32 %r3, %r2, 0, %p1; mov.b32 {%h1, %h2}, %r3;",
        "selp.b32 %r3, %r2, 0, %p1; mov.b32 {%h2, %h1}, %r3;",
    ),
    "given by another lane": (
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; mov.b32 {%h1, %h2}, %r3;",
        "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; mov.b32 {%h2, %h1}, %r3;",
    ),
    "through shared memory": (
        "st.shared.b32 [cell], %r2; ld.shared.u16 %h1, [cell];",
        "st.shared.b32 [cell], %r2; ld.shared.u16 %h1, [cell+2];",
    ),
    "in a wide register": (
        "mov.b64 %rd5, {%r2, %r2}; shr.u64 %rd5, %rd5, 32; cvt.u16.u64 %h1, %rd5;",
        "mov.b64 %rd5, {%r2, %r2}; shr.u64 %rd5, %rd5, 48; cvt.u16.u64 %h1, %rd5;",
    ),
}  # fmt: skip


def _half_written() -> Buffer:
    buffer = buffer_of(np.full(1, 0x3C003C00, np.uint32))
    flags = np.array([True, True, False, False])
    return Buffer(name="x", data=buffer.data, initialised=flags)


def _kinds(moves: str) -> list[Kind]:
    body = (
        ".shared .align 4 .b8 cell[4]; setp.eq.u32 %p1, 0, 0;\n"
        f"ld.global.b32 %r2, [%rd1];\n{moves}\nst.global.b16 [%rd2], %h1;"
    )
    outcome = execute(kernel(body), _half_written(), buffer_of(np.zeros(1, np.uint32)))
    return [one.kind for one in outcome.findings]


@pytest.mark.parametrize("name", _MOVES)
def test_the_written_half_is_used_without_a_finding(name: str) -> None:
    assert Kind.UNINITIALISED not in _kinds(_MOVES[name][0])


@pytest.mark.parametrize("name", _MOVES)
def test_the_other_half_is_found(name: str) -> None:
    assert Kind.UNINITIALISED in _kinds(_MOVES[name][1])


def test_what_is_computed_of_both_halves_is_found() -> None:
    assert Kind.UNINITIALISED in _kinds("add.u32 %r3, %r2, 1; cvt.u16.u32 %h1, %r3;")


# Each makes a pair of 8-bit floats in %h1 whose low byte is written memory alone.
_PAIRS = {
    "of halves": "cvt.rn.satfinite.e4m3x2.f16x2 %h1, %r2;",
    "of halves, e5m2": "cvt.rn.satfinite.e5m2x2.f16x2 %h1, %r2;",
    "of two floats": "cvt.f32.f16 %f1, %h3; cvt.rn.satfinite.e4m3x2.f32 %h1, %f9, %f1;",
    "of halves, copied": "cvt.rn.satfinite.e4m3x2.f16x2 %h4, %r2; mov.b16 %h1, %h4;",
    "of halves, packed with another": (
        "cvt.rn.satfinite.e4m3x2.f16x2 %h4, %r2; mov.b32 %r3, {%h4, %h5}; mov.b32 {%h1, %h6}, %r3;"
    ),
    "and back, once more": (
        "cvt.rn.satfinite.e4m3x2.f16x2 %h4, %r2; cvt.rn.f16x2.e4m3x2 %r3, %h4;"
        "cvt.rn.satfinite.e4m3x2.f16x2 %h1, %r3;"
    ),
}


def _stored(pair: str, store: str) -> list[Kind]:
    body = (
        "ld.global.b32 %r2, [%rd1]; mov.b32 {%h3, %h7}, %r2;\n"
        f"{pair}\n{store}"
    )  # fmt: skip
    outcome = execute(kernel(body), _half_written(), buffer_of(np.zeros(1, np.uint32)))
    return [one.kind for one in outcome.findings]


@pytest.mark.parametrize("name", _PAIRS)
def test_one_of_a_pair_of_8_bit_floats_is_stored_alone(name: str) -> None:
    low, both = "st.global.b8 [%rd2], %h1;", "st.global.b16 [%rd2], %h1;"
    high = "shr.u16 %h1, %h1, 8; st.global.b8 [%rd2], %h1;"
    assert Kind.UNINITIALISED not in _stored(_PAIRS[name], low)
    assert Kind.UNINITIALISED in _stored(_PAIRS[name], both)
    assert Kind.UNINITIALISED in _stored(_PAIRS[name], high)
