"""Which emitter gives an instruction its meaning: the most specific one that fits."""

from __future__ import annotations

import pytest

from ptxsan import isa
from ptxsan.emit.registry import emits, find, modules
from ptxsan.parser import parse
from ptxsan.syntax import Instruction
from ptxsan_support.ptx import kernel


def _instruction(text: str) -> Instruction:
    return parse(kernel(text)).functions["k"].body[3]


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("add.u32 %r2, %r2, 1;", "integer"),
        ("add.f32 %f1, %f2, %f3;", "float32"),
        ("add.f64 %f1, %f2, %f3;", "float64"),
        ("add.f16x2 %r2, %r3, %r4;", "halves"),
        ("setp.lt.f32 %p1, %f1, %f2;", "float_tests"),
        ("setp.lt.u32 %p1, %r1, %r2;", "compare"),
        ("bar.sync 0;", "barriers"),
        ("ld.global.u32 %r2, [%rd1];", "memory"),
        ("atom.global.add.u32 %r2, [%rd1], 1;", "atomics"),
        ("red.global.add.f32 [%rd1], %f1;", "float_atomics"),
    ],
)
def test_families_of_instructions(text: str, family: str) -> None:
    emitter = find(_instruction(text))
    assert emitter is not None
    assert emitter.__module__ == f"ptxsan.emit.{family}"
    assert emitter.__module__ in modules(_instruction(text).base)


def test_every_base_of_the_table_has_an_emitter() -> None:
    assert not [base for base in isa.BASES if not modules(base)]


def test_a_base_without_a_row_cannot_be_registered() -> None:
    with pytest.raises(AssertionError, match="no row of"):
        emits("no_such_base")(lambda cx, ins: None)
