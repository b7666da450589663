"""Where a register's value comes from, which format it holds, and what is an accumulation."""

from __future__ import annotations

import pytest

from ptxsan.origins import Origins
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan_support.ptx import kernel


def _origins(body: str) -> Origins:
    return Origins(build(parse(kernel(body)), "k"))


def _site(origins: Origins, opcode: str) -> int:
    return next(n for n, one in enumerate(origins.program.body) if one.opcode == opcode)


@pytest.mark.parametrize(
    ("body", "register", "expected"),
    [
        ("cvt.rn.f16.f32 %h1, %f1;", "%h1", "f16"),
        ("cvt.rn.bf16.f32 %h1, %f1; mov.b16 %h2, %h1;", "%h2", "bf16"),
        ("cvt.rn.f16.f32 %h1, %f1; mov.b32 %r2, {%h1, %h1};", "%r2", "f16x2"),
        ("add.u32 %r2, %r1, 1;", "%r2", ""),
        ("mov.b32 %f1, %r1;", "%f1", "f32"),  # a register of that type
        ("cvt.rn.f16.f32 %h1, %f1; cvt.rn.bf16.f32 %h1, %f2;", "%h1", ""),  # of two kinds
        ("mov.b16 %h1, %h2; mov.b16 %h2, %h1;", "%h1", ""),  # of itself
    ],
)
def test_formats_follow_copies(body: str, register: str, expected: str) -> None:
    assert _origins(body).type_of(register) == expected


def test_a_constant_is_a_register_that_holds_nothing_else() -> None:
    origins = _origins(
        "mov.f32 %f1, 0f40400000; mov.f32 %f2, 0f3F800000; mov.f32 %f2, %f1; add.f32 %f3, %f1, %f2;"
    )
    _, first, second = origins.program.body[_site(origins, "add.f32")].operands
    assert origins.constant(first) == 3.0
    assert origins.constant(second) is None


def test_what_lies_in_shared_memory_comes_from_every_store_there() -> None:
    origins = _origins(
        "st.shared.f32 [%r1], %f1; st.global.f32 [%rd1], %f2; ld.shared.f32 %f3, [%r1];"
        "add.f32 %f4, %f3, %f3;"
    )
    found = origins.ancestors(_site(origins, "add.f32"))
    assert _site(origins, "st.shared.f32") in found
    assert _site(origins, "st.global.f32") not in found


def test_a_sum_around_a_loop_is_an_accumulation() -> None:
    origins = _origins(
        "HEAD: add.f32 %f1, %f1, %f2; mul.f32 %f3, %f1, %f2; setp.lt.f32 %p1, %f1, %f2;"
        "@%p1 bra HEAD; add.f32 %f4, %f3, %f2; atom.global.add.f32 %f5, [%rd1], %f4;"
        "atom.global.max.u32 %r2, [%rd1], 1;"
    )
    accumulating = {
        one.opcode for site, one in enumerate(origins.program.body) if origins.is_accumulation(site)
    }
    assert accumulating == {"add.f32", "atom.global.add.f32"}
    assert not origins.is_accumulation(_site(origins, "mul.f32"))
    last = max(n for n, one in enumerate(origins.program.body) if one.opcode == "add.f32")
    assert not origins.is_accumulation(last)
