"""Loops of a kernel, found from its jumps; a jump into a loop's middle is refused."""

from __future__ import annotations

import pytest

from ptxsan.errors import MachineError
from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan.prove.graph import behind, graph_of
from ptxsan_support.ptx import kernel


def _program(body: str) -> Program:
    return build(parse(kernel(body)), "k")


_NESTED = """
  mov.u32 %r2, 0;
OUTER:
  mov.u32 %r3, 0;
INNER:
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p1, %r3, 4;
  @%p1 bra INNER;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p1, %r2, 4;
  @%p1 bra OUTER;
"""


def test_a_kernel_without_jumps_back_has_no_loop() -> None:
    graph = graph_of(_program("setp.lt.u32 %p1, %r1, 4; @%p1 bra END; mov.u32 %r2, 1; END:"))
    assert graph.loops == {}
    assert graph.order == (0, 1, 2)


def test_an_inner_loop_is_part_of_the_outer_one() -> None:
    graph = graph_of(_program(_NESTED))
    outer, inner = sorted(graph.loops)
    assert graph.loops[inner] < graph.loops[outer]
    assert graph.loops[inner] == {inner}
    assert graph.loops[outer] == {outer, inner, inner + 1}
    assert graph.order == tuple(range(len(graph.order)))


def test_what_no_way_leads_to_is_left_out() -> None:
    graph = graph_of(_program("bra END; mov.u32 %r2, 1; END:"))
    assert graph.order == (0, 2)


def test_a_jump_into_the_middle_of_a_loop_is_refused() -> None:
    body = """
      setp.lt.u32 %p1, %r1, 4;
      @%p1 bra MIDDLE;
    HEAD:
      add.u32 %r2, %r2, 1;
    MIDDLE:
      setp.lt.u32 %p2, %r2, 9;
      @%p2 bra HEAD;
    """
    with pytest.raises(MachineError, match="into the middle of a loop"):
        graph_of(_program(body))


def test_behind_a_site_in_a_loop_lies_the_loop_itself() -> None:
    program = _program(_NESTED)
    site = next(n for n, one in enumerate(program.body) if one.opcode == "setp.lt.u32")
    block = next(n for n, one in enumerate(program.blocks) if one.start <= site < one.end)
    assert site in behind(program, block, site)
    assert 0 not in behind(program, block, site)
    last = len(program.body) - 1
    assert behind(program, len(program.blocks) - 1, last) == set()
