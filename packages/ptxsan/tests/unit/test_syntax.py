"""The tree of a module: kernels in the order of the text."""

from __future__ import annotations

from ptxsan.parser import parse

_TEXT = """.version 8.0
.target sm_80
.address_size 64
.func helper() { ret; }
.visible .entry second() { bar.sync 0; ret; }
.visible .entry first() { ret; }
"""


def test_kernels_come_in_the_order_of_the_text_and_functions_are_none() -> None:
    module = parse(_TEXT)
    assert module.entries == ("second", "first")
    assert set(module.functions) == {"helper", "second", "first"}


def test_an_instruction_has_its_base_and_its_place() -> None:
    barrier, end = parse(_TEXT).functions["second"].body
    assert (barrier.base, barrier.opcode, barrier.parts) == ("bar", "bar.sync", ("bar", "sync"))
    assert barrier.line == end.line == 5
