"""Which blocks lie behind a barrier: those that a thread may be in that goes past it."""

from __future__ import annotations

from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan.reach import barrier_reach
from ptxsan_support.ptx import kernel


def _program(body: str) -> Program:
    return build(parse(kernel(body)), "k")


def _behind(program: Program) -> list[set[int]]:
    rows, matrix = barrier_reach(program)
    sites = [n for n, one in enumerate(program.body) if one.base == "bar"]
    found = [set(matrix[rows[site]].nonzero()[0].tolist()) for site in sites]
    others = [n for n in range(len(program.body)) if n not in sites]
    assert not rows[others].any()  # row 0, which is empty, belongs to everybody else
    assert not matrix[0].any()
    return found


def test_behind_a_barrier_lie_the_blocks_that_follow() -> None:
    program = _program(
        "setp.lt.u32 %p1, %r1, 4; @%p1 bra END; bar.sync 0; mov.u32 %r2, 1; END: mov.u32 %r3, 1;"
    )
    (behind,) = _behind(program)
    assert behind == {2}


def test_in_a_loop_the_barrier_lies_behind_itself() -> None:
    program = _program(
        "HEAD: bar.sync 0; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 4; @%p1 bra HEAD;"
        "mov.u32 %r3, 1;"
    )
    (behind,) = _behind(program)
    head = next(n for n, block in enumerate(program.blocks) if n in block.successors)
    assert behind == {head, head + 1}


def test_who_leaves_the_kernel_is_not_behind() -> None:
    program = _program("bar.sync 0; setp.lt.u32 %p1, %r1, 4; @%p1 bra END; mov.u32 %r2, 1; END:")
    (behind,) = _behind(program)
    assert behind == {1}  # the last block only returns


def test_lanes_whose_predicate_is_off_go_past_within_the_block() -> None:
    program = _program("setp.lt.u32 %p1, %r1, 4; @%p1 bar.sync 0; mov.u32 %r2, 1;")
    (behind,) = _behind(program)
    assert behind == {0}
