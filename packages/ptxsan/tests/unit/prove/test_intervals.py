"""Which accesses of two threads can lie between the same barriers."""

from __future__ import annotations

from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.prove.intervals import START, Intervals, Iteration, full_barrier
from ptxsan_support.ptx import kernel


def _intervals(body: str) -> tuple[Intervals, dict[str, list[int]]]:
    program = build(parse(kernel(body)), "k")
    sites: dict[str, list[int]] = {}
    for site, one in enumerate(program.body):
        sites.setdefault(one.opcode, []).append(site)
    return Intervals(program), sites


def test_accesses_on_two_sides_of_a_barrier_are_never_together() -> None:
    found, sites = _intervals(
        "st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r2, [%r1]; ld.shared.u32 %r3, [%r1+4];"
    )
    (store,), (first, second) = sites["st.shared.u32"], sites["ld.shared.u32"]
    assert not found.together(store, first)
    assert found.together(first, second)
    assert found.together(store, store)
    assert found.irregular() is None
    assert START not in found.barriers


_LOOP = (
    "mov.u32 %r5, 0;\nAGAIN: st.shared.u32 [%r1], 1; bar.sync 0; ld.shared.u32 %r2, [%r1];\n"
    "{second}add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 9; @%p1 bra AGAIN;"
)


def test_a_loop_with_one_barrier_lets_the_next_store_meet_the_last_read() -> None:
    one, sites = _intervals(_LOOP.format(second=""))
    (store,), (load,) = sites["st.shared.u32"], sites["ld.shared.u32"]
    standings = {pair for pairs in one.together(load, store) for pair in pairs}
    assert (Iteration.NEXT,) in standings
    two, sites = _intervals(_LOOP.format(second="bar.sync 0;\n"))
    assert not two.together(sites["ld.shared.u32"][0], sites["st.shared.u32"][0])


def test_a_barrier_of_some_threads_is_irregular() -> None:
    for barrier in ("@%p1 bar.sync 0;", "bar.sync 1, 64;", "bar.arrive 1, 64;"):
        found, _ = _intervals(f"setp.eq.u32 %p1, %r1, 0; {barrier}")
        assert found.irregular() is not None, barrier
    found, sites = _intervals("bar.sync 0;")
    assert full_barrier(found.program.body[sites["bar.sync"][0]])


def test_a_branch_decides_where_a_barrier_lies_on_one_way_alone() -> None:
    around = "setp.eq.u32 %p1, %r1, 0; @%p1 bra OVER; {inside}\nOVER: bar.sync 0;"
    over, sites = _intervals(around.format(inside="bar.sync 1;"))
    assert over.deciding() == {sites["bra"][0]}
    outside, _ = _intervals(around.format(inside="mov.u32 %r2, 1;"))
    assert outside.deciding() == frozenset()
