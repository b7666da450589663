"""What instructions read and write, the blocks of a kernel, and which registers live where."""

from __future__ import annotations

import pytest

from ptxsan.dataflow import Liveness, basic_blocks, definitions, uses
from ptxsan.errors import MachineError
from ptxsan.parser import parse
from ptxsan.syntax import Function

_LOOP = """
  mov.u32 %r1, 0;
  mov.u32 %r2, 7;
AGAIN:
  add.u32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, 10;
  @%p1 bra AGAIN;
  mov.u32 %r3, %r2;
  ret;
"""


def _function(body: str) -> Function:
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{{\n{body}\n}}\n"
    return parse(text).functions["k"]


@pytest.mark.parametrize(
    ("text", "written", "read"),
    [
        ("add.u32 %r1, %r2, %r3;", ("%r1",), ("%r2", "%r3")),
        ("st.global.u32 [%rd1+4], %r2;", (), ("%rd1", "%r2")),
        ("ld.global.v2.u32 {%r1, _}, [%rd1];", ("%r1",), ("%rd1",)),
        ("@!%p2 mov.u32 %r1, 3;", ("%r1",), ("%p2",)),
        ("setp.lt.u32 %p1|%p2, %r1, 3;", ("%p1", "%p2"), ("%r1",)),
        ("bar.sync 0;", (), ()),
    ],
)
def test_registers_that_an_instruction_writes_and_reads(
    text: str, written: tuple[str, ...], read: tuple[str, ...]
) -> None:
    (one, _) = _function(f"{text} ret;").body
    assert definitions(one) == written
    assert uses(one) == read


def test_a_loop_has_its_own_block() -> None:
    function = _function(_LOOP)
    blocks = basic_blocks(function.body, function.labels)
    assert [(one.start, one.end) for one in blocks] == [(0, 2), (2, 5), (5, 7)]
    assert [set(one.successors) for one in blocks] == [{1}, {1, 2}, set()]


def test_a_register_lives_until_its_last_read_and_around_a_loop() -> None:
    function = _function(_LOOP)
    live = Liveness(function.body, basic_blocks(function.body, function.labels))
    assert live.before(0) == []
    assert set(live.after(0)) == {"%r1"}
    assert set(live.after(1)) == {"%r1", "%r2"}
    assert set(live.after(4)) == {"%r1", "%r2"}  # back to the loop's head, or on
    assert live.after(5) == []


def test_a_write_that_may_not_happen_ends_no_life() -> None:
    function = _function("mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; mov.u32 %r2, %r1; ret;")
    live = Liveness(function.body, basic_blocks(function.body, function.labels))
    assert "%r1" in live.before(1)
    plain = _function("mov.u32 %r1, 1; mov.u32 %r1, 2; mov.u32 %r2, %r1; ret;")
    live = Liveness(plain.body, basic_blocks(plain.body, plain.labels))
    assert "%r1" not in live.before(1)


def test_a_jump_to_nowhere_is_told_with_its_line() -> None:
    function = _function("bra NOWHERE;")
    with pytest.raises(MachineError, match=r"PTX line 6: jump to unknown label"):
        basic_blocks(function.body, function.labels)
