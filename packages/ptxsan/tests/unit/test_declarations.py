"""Variables of a module: their sizes, contents, and the addresses that they hold."""

from __future__ import annotations

import struct

import pytest

from ptxsan.declarations import parse_variable, size_of
from ptxsan.errors import MachineError
from ptxsan.syntax import Symbol


def test_types_have_the_sizes_of_the_manual() -> None:
    sizes = {"b8": 1, "f16": 2, "bf16x2": 4, "f32": 4, "u64": 8, "f64": 8, "b128": 16}
    assert {name: size_of(name) for name in sizes} == sizes
    with pytest.raises(KeyError):
        size_of("f31")


def test_numbers_of_every_spelling_become_bytes() -> None:
    one = parse_variable(".global .align 4 .b32 t[5] = {1, -1, 0x10, 0f3F800000, 7}", 3)
    assert (one.name, one.space, one.type, one.count, one.align) == ("t", "global", "b32", 5, 4)
    assert one.initial == struct.pack("<IiIfI", 1, -1, 16, 1.0, 7)
    assert one.line == 3
    assert not one.extern
    double = parse_variable(".const .f64 d = 0d3FF8000000000000", 1)
    assert double.initial == struct.pack("<d", 1.5)
    assert (double.space, double.count, double.align) == ("const", 1, 8)
    assert parse_variable(".global .f32 f = 2.5", 1).initial == struct.pack("<f", 2.5)


def test_the_length_may_follow_from_the_contents_and_be_of_several_axes() -> None:
    assert parse_variable(".global .u16 t[] = {1, 2, 3}", 1).count == 3
    assert parse_variable(".shared .f32 tile[4][8]", 1).count == 32
    dynamic = parse_variable(".extern .shared .align 16 .b8 pool[]", 1)
    assert (dynamic.count, dynamic.align, dynamic.extern) == (0, 16, True)
    vector = parse_variable(".global .v4 .f32 quad[2]", 1)
    assert (vector.count, vector.align) == (8, 16)
    assert parse_variable(".shared::cta .b32 word", 1).space == "shared"


def test_addresses_of_other_variables_have_their_place() -> None:
    one = parse_variable(".global .u64 p[3] = {0, table+8, generic(other)}", 1)
    assert one.addresses == ((8, Symbol("table", 8)), (16, Symbol("other", 0)))
    assert one.initial == bytes(24)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".global t[4]", "cannot read declaration '.global t[4]'"),
        (".b32 t", "cannot read declaration '.b32 t'"),
        (".global .b32 two names", "cannot read declaration"),
        (".global .b32 t = {1, ?}", "cannot read constant '?'"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(MachineError) as failure:
        parse_variable(text, 42)
    assert message in str(failure.value)
    assert failure.value.line == 42
