"""Which registers may be uninitialised and which carry a shadow."""

from __future__ import annotations

import pytest

from ptxsan.dataflow import Liveness
from ptxsan.facts import Facts, collect
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan_support.ptx import kernel


def _facts(body: str) -> Facts:
    text = kernel(body)
    program = build(parse(text), "k")
    return collect(program.body, Liveness(program.body, program.blocks), program.registers)


@pytest.mark.parametrize(
    ("body", "poisoned", "clean"),
    [
        ("ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1;", {"%r2", "%r3"}, {"%r1"}),
        ("mov.u32 %r2, 3; add.u32 %r3, %r2, 1;", set(), {"%r2", "%r3", "%rd1"}),
        ("add.u32 %r3, %r9, 1; st.global.u32 [%rd1], %r3;", {"%r9", "%r3"}, {"%rd1"}),
        ("atom.global.add.u32 %r2, [%rd1], 1;", {"%r2"}, {"%rd1"}),
    ],
)
def test_what_comes_from_memory_or_was_never_written_may_be_uninitialised(
    body: str, poisoned: set[str], clean: set[str]
) -> None:
    found = _facts(body).poisonable
    assert poisoned <= found
    assert not clean & found


def test_a_shadow_needs_a_float_to_come_from_and_a_float_to_end_in() -> None:
    body = (
        "ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; mov.b32 %r2, %f2; mov.b32 %f3, %r2; "
        "st.global.f32 [%rd2], %f3; ld.global.u32 %r4, [%rd1]; mov.u32 %r5, 1;"
    )
    found = _facts(body).shadowed
    assert {"%f1", "%f2", "%r2", "%f3"} <= found
    assert "%r5" not in found  # it comes from no memory
    assert "%r4" not in found  # it ends in no float and no memory
    assert "%rd1" not in found  # an address


def test_bytes_are_told_apart_where_parts_are_taken() -> None:
    plain = "ld.global.u32 %r2, [%rd1]; add.u32 %r3, %r2, 1; st.global.u32 [%rd2], %r3;"
    assert _facts(plain).split == frozenset()
    taken = _facts("ld.global.u32 %r2, [%rd1]; mov.u32 %r4, %r2; mov.b32 {%h1, %h2}, %r4;")
    assert {"%r2", "%r4"} <= taken.split
    narrow = _facts(
        "ld.global.u8 %r2, [%rd1]; ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd2], %r3;"
    )
    assert "%r3" in narrow.split
