"""Operands of every spelling, and what is none."""

from __future__ import annotations

import struct

import pytest

from ptxsan.errors import MachineError
from ptxsan.operands import integer, parse_operands
from ptxsan.syntax import (
    Address,
    Group,
    Immediate,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

_R1, _R2 = Register("%r1"), Register("%r2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("%r1, %r2", (_R1, _R2)),
        ("%r1|%p1, _", (Pair(_R1, Register("%p1")), Register("_"))),
        ("!%p1", (Register("%p1", negated=True),)),
        ("{%r1, _, %r2}", (Vector((_R1, Register("_"), _R2)),)),
        ("(%r1), callee, (%r2)", (Group((_R1,)), Symbol("callee", 0), Group((_R2,)))),
        ("[%rd1]", (Address(Register("%rd1"), 0, ()),)),
        ("[%rd1+-16]", (Address(Register("%rd1"), -16, ()),)),
        ("[%rd1+0xfffffffffffffff0]", (Address(Register("%rd1"), -16, ()),)),
        ("[table+4]", (Address(Symbol("table"), 4, ()),)),
        ("[%rd1, {%r1, %r2}]", (Address(Register("%rd1"), 0, (Vector((_R1, _R2)),)),)),
        ("[16]", (Address(Immediate(16, "int"), 0, ()),)),
        ("table+8", (Symbol("table", 8),)),
    ],
)
def test_operands_are_what_they_say(text: str, expected: tuple[Operand, ...]) -> None:
    assert parse_operands(text, lambda name: name, 1) == expected


@pytest.mark.parametrize(
    ("text", "bits", "kind"),
    [
        ("7", 7, "int"), ("-1", (1 << 64) - 1, "int"), ("~0", (1 << 64) - 1, "int"),
        ("0x10U", 16, "int"), ("0b101", 5, "int"), ("017", 15, "int"),
        ("0f3F800000", 0x3F800000, "f32"), ("-0f3F800000", 0xBF800000, "f32"),
        ("0d3FF0000000000000", 0x3FF0000000000000, "f64"),
        ("0.5", int.from_bytes(struct.pack("<d", 0.5), "little"), "f64"),
    ],
)  # fmt: skip
def test_constants_are_their_bits(text: str, bits: int, kind: str) -> None:
    assert parse_operands(text, lambda name: name, 1) == (Immediate(bits, kind),)


def test_names_of_inner_scopes_are_resolved() -> None:
    found = parse_operands("t, [t], !t, t|t", lambda name: f"%{name}", 1)
    inner = Register("%t")
    assert found == (
        inner, Address(inner, 0, ()), Register("%t", negated=True), Pair(inner, inner),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["%r1 %r2", "[%r1", "{%r1", "%r1,,%r2", "?", "[-%r1]", "~%r1"])
def test_what_cannot_be_read_is_told_with_its_line(text: str) -> None:
    with pytest.raises(MachineError) as failure:
        parse_operands(text, lambda name: name, 9)
    assert "PTX line 9: cannot read operands" in str(failure.value)


def test_integers_of_every_base() -> None:
    assert [integer(one) for one in ("10", "0x1F", "0b11", "010", "0", "5U")] == [
        10,
        31,
        3,
        8,
        0,
        5,
    ]
