"""Kernels run: right results, faults found with thread and line, correct twins without finding."""

from __future__ import annotations

import contextlib
import math
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan import contexts
from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Argument, Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import _side_by_side, run
from ptxsan_support import ptx

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
_DECLARED = """
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .f32 %f<8>; .reg .b64 %rd<20>; .reg .b16 %h<8>;
"""
_INDEX = """
ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1]; ld.param.u32 %r1, [k_2];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.s32 %r5, %r2, %r3, %r4;
mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
mul.wide.s32 %rd9, %r4, 4;
"""


def execute(
    body: str,
    *,
    grid: int = 2,
    block: int = 64,
    count: int = 128,
    declare: str = "",
    options: Options | None = None,
    fresh: bool = False,
    dynamic: int = 0,
) -> tuple[MachineReport, NDArray[np.uint32], NDArray[np.uint32]]:
    """Run a kernel `k(u32* a, u32* b, u32 n)`; return the report and both buffers."""
    text = (
        f"{_HEAD}{declare}\n.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2)"
        f"\n{{{_DECLARED}{_INDEX}{body}\n}}"
    )
    a = np.arange(count, dtype=np.uint32)
    b = np.zeros(count, dtype=np.uint32)
    fresh_flags = np.zeros(b.nbytes, np.bool_) if fresh else None
    arguments: tuple[Argument, ...] = (
        Pointer(buffer=Buffer(name="a", data=a.view(np.uint8))),
        Pointer(buffer=Buffer(name="b", data=b.view(np.uint8), initialised=fresh_flags)),
        struct.pack("<I", count),
    )
    launch = Launch(
        kernel="k", grid=(grid, 1, 1), block=(block, 1, 1), arguments=arguments,
        dynamic_shared_bytes=dynamic,
    )  # fmt: skip
    report = run(parse(text), launch, options=options or Options())
    return report, a, b


def kinds(report: MachineReport) -> list[str]:
    """Return the kinds of all findings."""
    assert report.inconclusive is None, report.inconclusive
    return [str(one.kind) for one in report.findings]


def test_a_copy_is_right_and_holds_for_all_data() -> None:
    report, a, b = execute("ld.global.u32 %r6, [%rd4]; st.global.u32 [%rd5], %r6; ret;")
    assert kinds(report) == []
    assert report.oblivious
    assert (a == b).all()
    assert report.statistics.lane_instructions == 128 * 14


def test_out_of_bounds_names_thread_and_distance() -> None:
    report, _, _ = execute("ld.global.u32 %r6, [%rd4+8]; st.global.u32 [%rd5], %r6; ret;")
    bounds = [one for one in report.findings if one.kind is Kind.OUT_OF_BOUNDS]
    assert len(bounds) == 1
    assert bounds[0].accesses[0].block == (1, 0, 0)
    assert bounds[0].accesses[0].thread == (62, 0, 0)
    assert (bounds[0].offset, bounds[0].bytes, bounds[0].count) == (512, 4, 2)
    assert "0 bytes beyond its end" in bounds[0].text


_TILE = ".shared .align 4 .b32 tile[64]; .shared .align 4 .b32 next[64];"
_STAGE = "mov.u64 %rd6, tile; add.s64 %rd7, %rd6, %rd9; ld.global.u32 %r6, [%rd4];"
_MIRROR = (
    "xor.b32 %r7, %r4, 63; mul.wide.s32 %rd8, %r7, 4; add.s64 %rd8, %rd6, %rd8;"
    "ld.shared.u32 %r8, [%rd8]; st.global.u32 [%rd5], %r8; ret;"
)


def test_a_barrier_orders_and_its_absence_is_a_race() -> None:
    good = f"{_TILE}{_STAGE} st.shared.u32 [%rd7], %r6; bar.sync 0; {_MIRROR}"
    report, a, b = execute(good)
    assert kinds(report) == []
    assert (b[:64] == a[:64][::-1]).all()
    report, _, _ = execute(good.replace("bar.sync 0;", ""))
    assert "race" in kinds(report)
    race = next(one for one in report.findings if one.kind is Kind.RACE)
    assert {one.what for one in race.accesses} == {"read", "write"}
    assert race.allocation == "shared variable 'tile'"


def test_the_overrun_from_one_shared_array_into_the_next_is_found() -> None:
    body = (
        f"{_TILE}{_STAGE} st.shared.u32 [%rd7], %r6; mov.u32 %r9, next; st.shared.u32 [%r9], %r6;"
        "bar.sync 0; ld.shared.u32 %r8, [%rd7+4]; st.global.u32 [%rd5], %r8; ret;"
    )
    found = kinds(execute(body)[0])
    assert "out-of-bounds" in found


def test_memory_that_nobody_wrote_is_reported_where_it_is_used() -> None:
    body = f"{_TILE}{_STAGE} ld.shared.u32 %r8, [%rd7]; st.global.u32 [%rd5], %r8; ret;"
    assert kinds(execute(body)[0]) == ["uninitialised"]
    unused = f"{_TILE}{_STAGE} ld.shared.u32 %r8, [%rd7]; st.global.u32 [%rd5], %r6; ret;"
    assert kinds(execute(unused)[0]) == []


def test_readers_are_all_counted_before_a_write() -> None:
    """Everybody reads cell 0, then thread 0 writes it: with and without a barrier between."""
    body = (
        f"{_TILE}{_STAGE} setp.ne.u32 %p1, %r4, 0; @!%p1 st.shared.u32 [%rd6], %r6; bar.sync 0;"
        "ld.shared.u32 %r8, [%rd6]; SYNC @!%p1 st.shared.u32 [%rd6], %r6;"
        "st.global.u32 [%rd5], %r8; ret;"
    )
    assert kinds(execute(body.replace("SYNC", "bar.sync 0;"))[0]) == []
    assert "race" in kinds(execute(body.replace("SYNC", ""))[0])
    reverse = Options(schedule="reverse")
    assert "race" in kinds(execute(body.replace("SYNC", ""), options=reverse)[0])


def test_warps_are_ordered_by_warp_barriers_only() -> None:
    """Neighbours exchange through shared memory: __syncwarp is needed, a shuffle does not do."""
    body = (
        f"{_TILE}{_STAGE} st.shared.u32 [%rd7], %r6; SYNC xor.b32 %r7, %r4, 1;"
        "mul.wide.s32 %rd8, %r7, 4; add.s64 %rd8, %rd6, %rd8; ld.shared.u32 %r8, [%rd8];"
        "st.global.u32 [%rd5], %r8; ret;"
    )
    assert kinds(execute(body.replace("SYNC", "bar.warp.sync -1;"))[0]) == []
    shuffle = "shfl.sync.bfly.b32 %r10|%p2, %r6, 1, 31, -1;"
    assert "race" in kinds(execute(body.replace("SYNC", shuffle))[0])
    assert "race" in kinds(execute(body.replace("SYNC", ""))[0])


def test_writers_of_one_place_race_unless_the_value_is_the_same() -> None:
    same = "ld.global.u32 %r6, [%rd1]; st.global.u32 [%rd2], %r6; ret;"
    report, _, _ = execute(same)
    assert kinds(report) == ["same-value-race"]
    assert report.wrong == ()
    other = "ld.global.u32 %r6, [%rd4]; st.global.u32 [%rd2], %r6; ret;"
    assert kinds(execute(other)[0]) == ["race"]


def test_atomics_do_not_race_and_add_up() -> None:
    report, a, b = execute("ld.global.u32 %r6, [%rd4]; red.global.add.u32 [%rd2], %r6; ret;")
    assert kinds(report) == []
    assert b[0] == a.sum()
    narrow, _, _ = execute("ld.global.u32 %r6, [%rd4]; red.cta.global.add.u32 [%rd2], %r6; ret;")
    assert kinds(narrow) == ["race"], "the scope of one block does not cover another"


_LAST = """
.shared .align 4 .b32 last[1];
setp.ne.u32 %p1, %r4, 0; ld.global.u32 %r6, [%rd4]; st.global.u32 [%rd5], %r6;
FENCE bar.sync 0; mov.u64 %rd10, counter;
@%p1 bra WAIT;
atom.global.add.u32 %r10, [%rd10], 1; mov.u32 %r11, last; st.shared.u32 [%r11], %r10;
WAIT: bar.sync 0; mov.u32 %r11, last; ld.shared.u32 %r12, [%r11]; mov.u32 %r13, %nctaid.x;
add.u32 %r12, %r12, 1; setp.ne.u32 %p2, %r12, %r13; @%p2 bra OUT;
membar.gl; sub.u32 %r15, 127, %r4; mul.wide.u32 %rd11, %r15, 4; add.s64 %rd12, %rd2, %rd11;
ld.global.u32 %r16, [%rd12]; sub.u32 %r17, 63, %r4; mul.wide.u32 %rd13, %r17, 4;
add.s64 %rd14, %rd2, %rd13; ld.global.u32 %r18, [%rd14]; add.u32 %r19, %r16, %r18;
add.s64 %rd15, %rd1, %rd9; st.global.u32 [%rd15], %r19;
OUT: ret;
"""


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_the_last_block_may_read_what_was_fenced(schedule: str) -> None:
    options = Options(schedule=schedule, seed=3)
    counter = ".global .align 4 .b32 counter;"
    # the last block overwrites `a` of block 0, which block 0 has read: ordered by the counter too
    report, _, b = execute(_LAST.replace("FENCE", "membar.gl;"), declare=counter, options=options)
    assert kinds(report) == []
    assert (b == np.arange(128)).all()
    report, _, _ = execute(_LAST.replace("FENCE", ""), declare=counter, options=options)
    assert "race" in kinds(report)


def test_a_grid_barrier_lets_blocks_wait_for_each_other() -> None:
    body = """
    st.global.u32 [%rd5], %r5; mov.u64 %rd10, counter; bar.sync 0;
    setp.ne.u32 %p1, %r4, 0; @%p1 bra WAIT;
    membar.gl; atom.global.add.u32 %r10, [%rd10], 1;
    SPIN: ld.volatile.global.u32 %r11, [%rd10]; mov.u32 %r12, %nctaid.x;
    setp.lt.u32 %p2, %r11, %r12; @%p2 bra SPIN;
    membar.gl;
    WAIT: bar.sync 0; xor.b32 %r13, %r5, 64; mul.wide.u32 %rd11, %r13, 4;
    add.s64 %rd12, %rd2, %rd11; ld.global.u32 %r14, [%rd12]; st.global.u32 [%rd4], %r14; ret;
    """
    report, a, _ = execute(body, declare=".global .align 4 .b32 counter;")
    assert kinds(report) == []
    assert (a == (np.arange(128) ^ 64)).all()


def test_a_barrier_in_a_branch_of_a_warp_is_divergent() -> None:
    body = (
        "setp.lt.u32 %p1, %r4, 16; @!%p1 bra REST; bar.sync 0;REST: st.global.u32 [%rd5], %r4; ret;"
    )
    report, _, _ = execute(body)
    assert kinds(report) == ["divergent-barrier"]
    early = (
        "setp.ge.u32 %p1, %r4, 50; @%p1 bra OUT; bar.sync 0; st.global.u32 [%rd5], %r4; OUT: ret;"
    )
    report, _, _ = execute(early)
    assert kinds(report) == ["ended-before-barrier"]
    assert [one.severity for one in report.findings] == ["note"]
    assert "thread (50, 0, 0) of its block has ended before" in report.findings[0].text
    assert (
        kinds(execute(early.replace("@%p1 bra OUT; bar.sync 0;", "bar.sync 0; @%p1 bra OUT;"))[0])
        == []
    )


def test_waiting_for_lanes_elsewhere_is_found() -> None:
    body = (
        "setp.lt.u32 %p1, %r4, 16; @%p1 bra ODD; bar.sync 0; ret;"
        "ODD: shfl.sync.idx.b32 %r9|%p2, %r4, 0, 31, -1; bar.sync 0; ret;"
    )
    assert kinds(execute(body)[0]) == ["divergent-collective"]
    named = "setp.lt.u32 %p1, %r4, 32; @%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64; ret;"
    assert kinds(execute(named)[0]) == ["deadlock"]


def test_a_wait_for_what_nobody_writes_is_a_deadlock() -> None:
    body = (
        "AGAIN: ld.volatile.global.u32 %r6, [%rd2]; setp.eq.u32 %p1, %r6, 0; @%p1 bra AGAIN; ret;"
    )
    assert kinds(execute(body)[0]) == ["deadlock"]


def test_a_loop_without_end_is_inconclusive() -> None:
    body = "AGAIN: add.u32 %r5, %r5, 1; bra AGAIN;"
    report, _, _ = execute(body, options=Options(limit_s=0.3))
    assert report.inconclusive == "stopped after 0.3 s without an end"


def test_named_barriers_count_their_threads() -> None:
    body = (
        "setp.lt.u32 %p1, %r4, 32; @%p1 bar.arrive 1, 64; @!%p1 bar.sync 1, COUNT;"
        "st.global.u32 [%rd5], %r4; ret;"
    )
    assert kinds(execute(body.replace("COUNT", "64"))[0]) == []
    assert "divergent-barrier" in kinds(execute(body.replace("COUNT", "96"))[0])
    twice = body.replace("COUNT", "64").replace("1, 64;", "1, 64; @%p1 bar.arrive 1, 64;", 1)
    assert "divergent-barrier" in kinds(execute(twice)[0])


def test_a_shuffle_that_some_lanes_go_around_is_divergent() -> None:
    body = (
        "and.b32 %r6, %r4, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra REST;"
        "shfl.sync.bfly.b32 %r7|%p2, %r4, 2, 31, MASK;"
        "REST: st.global.u32 [%rd5], %r4; ret;"
    )
    assert kinds(execute(body.replace("MASK", "-1"))[0]) == ["divergent-collective"]
    assert kinds(execute(body.replace("MASK", "0xaaaaaaaa"))[0]) == []


@pytest.mark.parametrize(("fence", "found"), [("membar.gl;", []), ("membar.cta;", ["race"])])
def test_a_fence_for_the_block_does_not_reach_other_blocks(fence: str, found: list[str]) -> None:
    counter = ".global .align 4 .b32 counter;"
    report, _, _ = execute(_LAST.replace("FENCE", fence), declare=counter)
    assert sorted(set(kinds(report))) == found


_FLAG = """
setp.ne.u32 %p1, %r2, 0; @%p1 bra READ;
st.volatile.global.u32 [%rd2+4], 7; FENCE st.volatile.global.u32 [%rd1], 1; ret;
READ: ld.volatile.global.u32 %r6, [%rd1]; setp.ne.u32 %p2, %r6, 1; @%p2 bra READ;
membar.gl; ld.volatile.global.u32 %r7, [%rd2+4]; st.global.u32 [%rd2+8], %r7; ret;
"""


def test_a_flag_without_a_fence_lets_fresh_memory_be_read_too_early() -> None:
    report, _, b = execute(_FLAG.replace("FENCE", "membar.gl;"), fresh=True, block=1)
    assert kinds(report) == []
    assert b[2] == 7
    report, _, _ = execute(_FLAG.replace("FENCE", ""), fresh=True, block=1)
    assert kinds(report) == ["race"]


def test_an_unknown_instruction_is_inconclusive_with_its_line() -> None:
    report, _, _ = execute("\n\nfrobnicate.b32 %r1, %r2; ret;")
    assert report.inconclusive is not None
    assert report.inconclusive.startswith("PTX line 16: 'frobnicate.b32'")


def test_data_that_steers_is_named() -> None:
    body = (
        "ld.global.u32 %r6, [%rd4]; and.b32 %r6, %r6, 127; mul.wide.u32 %rd6, %r6, 4;\n"
        "add.s64 %rd7, %rd1, %rd6; ld.global.u32 %r7, [%rd7]; st.global.u32 [%rd5], %r7; ret;"
    )
    report, _, _ = execute(body)
    assert not report.oblivious
    assert len(report.data_dependent) == 1


def test_read_only_memory_and_wrong_arguments() -> None:
    text = f"{_HEAD}.visible .entry k(.param .u64 k_0) {{ ret; }}"
    with pytest.raises(MachineError, match="takes 1 arguments, the launch gives 0"):
        run(parse(text), Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1)))
    with pytest.raises(MachineError, match=r"no kernel 'x' in the module \(kernels: k\)"):
        run(parse(text), Launch(kernel="x", grid=(1, 1, 1), block=(1, 1, 1)))
    body = (
        f"{_HEAD}.visible .entry k(.param .u64 k_0) {{ .reg .b64 %a; ld.param.u64 %a, [k_0];"
        "st.global.u32 [%a], 1; ret; }"
    )
    memory = Buffer(name="weights", data=np.zeros(16, np.uint8), writable=False)
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1), arguments=(Pointer(buffer=memory),)
    )
    report = run(parse(body), launch)
    assert kinds(report) == ["write-to-read-only"]
    assert not memory.data.any()


_COPY = (
    ".shared .align 16 .b32 tile[64]; mov.u32 %r9, tile; shl.b32 %r10, %r4, 2;"
    "add.s32 %r11, %r9, %r10; cp.async.ca.shared.global [%r11], [%rd4], 4;"
    "cp.async.commit_group; WAIT bar.sync 0; xor.b32 %r12, %r10, 252; add.s32 %r13, %r9, %r12;"
    "ld.shared.u32 %r14, [%r13]; st.global.u32 [%rd5], %r14; ret;"
)


def test_asynchronous_copies_arrive_when_they_are_waited_for() -> None:
    report, a, b = execute(_COPY.replace("WAIT", "cp.async.wait_group 0;"))
    assert kinds(report) == []
    assert (b[:64] == a[:64][::-1]).all()
    assert (b[64:] == a[64:][::-1]).all()
    for wrong in ("cp.async.wait_group 1;", ""):
        assert "uninitialised" in kinds(execute(_COPY.replace("WAIT", wrong))[0])
    late = _COPY.replace("WAIT bar.sync 0;", "bar.sync 0; cp.async.wait_all;")
    assert "race" in kinds(execute(late)[0]), "the barrier comes before the copies have arrived"


def test_a_copy_of_fewer_bytes_fills_with_zeros() -> None:
    body = _COPY.replace("[%rd4], 4;", "[%rd4], 4, %r15;").replace("WAIT", "cp.async.wait_all;")
    report, _, b = execute("setp.lt.u32 %p1, %r4, 32; selp.u32 %r15, 4, 0, %p1;" + body)
    assert kinds(report) == []
    assert (b[:64] == np.where(np.arange(64) < 32, 0, 63 - np.arange(64))).all()


def test_producer_and_consumer_warps_hand_over_by_named_barriers() -> None:
    body = (
        f"{_TILE}{_STAGE} setp.lt.u32 %p1, %r4, 32; @!%p1 bra CONSUME;"
        "st.shared.u32 [%rd7], %r6; bar.arrive 1, 64; WAIT st.shared.u32 [%rd7], %r4; ret;"
        "CONSUME: bar.sync 1, 64; ld.shared.u32 %r8, [%rd7+-128]; st.global.u32 [%rd5], %r8;"
        "bar.arrive 2, 64; ret;"
    )
    assert kinds(execute(body.replace("WAIT", "bar.sync 2, 64;"))[0]) == []
    for schedule in ("forward", "reverse"):
        dropped = body.replace("WAIT", "")
        assert "race" in kinds(execute(dropped, options=Options(schedule=schedule))[0])


def test_the_first_guess_of_a_swap_loop_may_be_read_plainly() -> None:
    body = """
    cvta.to.global.u64 %rd10, %rd2; ld.global.u32 %r6, [%rd10];
    AGAIN: add.u32 %r7, %r6, %r5; atom.global.cas.b32 %r8, [%rd10], %r6, %r7;
    setp.ne.u32 %p1, %r8, %r6; mov.u32 %r6, %r8; @%p1 bra AGAIN; ret;
    """
    report, a, b = execute(body)
    assert kinds(report) == []
    assert b[0] == a.sum()


def test_a_plain_read_of_what_other_blocks_update_is_a_race() -> None:
    body = (
        "red.global.add.u32 [%rd2], %r4; ld.global.u32 %r6, [%rd2]; st.global.u32 [%rd4], %r6; ret;"
    )
    assert [str(one.kind) for one in execute(body)[0].wrong] == ["race"]
    alone, _, _ = execute(body, grid=1)
    assert [str(one.kind) for one in alone.wrong] == ["race"]


def test_more_acquired_than_is_kept_is_said_and_raises_no_alarm() -> None:
    body = (
        "add.s64 %rd6, %rd2, %rd9; add.s64 %rd7, %rd1, %rd9;"
        "atom.global.acq_rel.gpu.add.u32 %r6, [%rd6], 1; bar.sync 0;"
        "atom.global.acq_rel.gpu.add.u32 %r7, [%rd6], 1;"
        "add.u32 %r8, %r6, %r7; setp.gt.u32 %p1, %r8, 99; @%p1 trap; ret;"
    )
    report, _, b = execute(body, block=128, count=128)
    assert kinds(report) == []
    assert (b == 4).all()
    assert any("more than is kept track of" in one for one in report.left_out)
    few, _, _ = execute("red.global.add.u32 [%rd2], 1; ret;")
    assert few.left_out == ()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("mov.u32 %r6, %clock; st.global.u32 [%rd2], %r6; ret;", "a clock counts"),
        ("mov.u32 %r6, %smid; st.global.u32 [%rd2], %r6; ret;", "%smid is 0"),
        ("griddepcontrol.wait; st.global.u32 [%rd2], 1; ret;", "griddepcontrol"),
    ],
)
def test_what_a_launch_uses_and_is_not_looked_at_is_named(body: str, words: str) -> None:
    report, _, _ = execute(body, block=1)
    (text,) = report.left_out
    assert words in text


@pytest.mark.parametrize(("ahead", "kinds"), [(8, set()), (4, {Kind.OUT_OF_BOUNDS})])
def test_shared_addresses_are_truncated_to_32_bits(ahead: int, kinds: set[Kind]) -> None:
    """`(tile + 2)[~1u]` of 32-bit elements: 2^34 - 8 bytes on, which is 8 bytes back."""
    body = f"""
        .shared .align 4 .b8 tile[16];
        mov.u64 %rd3, tile;
        st.shared.u32 [%rd3], 7;
        add.s64 %rd4, %rd3, {ahead};
        mov.u64 %rd5, 17179869176;
        add.s64 %rd4, %rd4, %rd5;
        ld.shared.u32 %r2, [%rd4];
        st.global.u32 [%rd1], %r2;"""
    first, second = (ptx.buffer_of(np.zeros(8, np.int32)) for _ in range(2))
    report = ptx.execute(ptx.kernel(body), first, second, block=1)
    assert {one.kind for one in report.wrong} - {Kind.UNINITIALISED} == kinds
    if not kinds:
        assert report.findings == ()
        assert first.data.view(np.int32)[0] == 7


def test_some_blocks_of_a_launch_run_alone() -> None:
    body = "ld.global.u32 %r6, [%rd4]; st.global.u32 [%rd5], %r6; ret;"
    report, a, b = execute(body, grid=4, block=32, options=Options(blocks=(3, 1, 99)))
    assert report.statistics.lane_instructions
    assert not report.findings
    ran = np.repeat([False, True, False, True], 32)
    assert (b[ran] == a[ran]).all()
    assert not b[~ran].any()
    report, _, _ = execute(body, grid=5, block=32, options=Options(blocks=(4,)))
    assert {one.kind for one in report.findings} == {Kind.OUT_OF_BOUNDS}


@pytest.mark.parametrize("races", [False, True])
def test_a_launch_that_took_little_has_one_host_thread_the_next_time(
    races: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where races are looked for: what is seen of them must not depend on the clock."""
    counts: list[int] = []
    make = contexts.make

    def counted(*given: Any, workers: int, **named: Any) -> list[contexts.Contexts]:
        counts.append(workers)
        return make(*given, workers=workers, **named)

    monkeypatch.setattr(contexts, "make", counted)
    body = "ld.global.u32 %r6, [%rd4]; add.u32 %r6, %r6, 7; st.global.u32 [%rd5], %r6; ret;"
    seen = []
    for most_s in (math.inf, math.inf, 0.0):
        monkeypatch.setattr("ptxsan.run._SHORT_S", most_s)
        report, a, b = execute(body, options=Options(shadow=False, races=races, workers=2))
        assert kinds(report) == []
        assert (b == a + 7).all()
        seen.append(report.statistics.lane_instructions)
    assert counts == [2, 2 if races else 1, 2]
    assert len(set(seen)) == 1


class _Other:
    """Another process that sets a flag where a launch waits for it, and never while blocks run."""

    def __init__(self, flag: NDArray[np.uint32]) -> None:
        self.flag, self.waited, self.beside, self.turns = flag, False, True, 64
        self.runs, self.inside = 0, False

    def wait(self, *, moved: bool) -> bool:
        assert not self.inside
        self.waited = True
        self.flag[0] += 1
        return True

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        self.runs, self.inside = self.runs + 1, True
        yield
        self.inside = False


def test_what_another_process_writes_meanwhile_is_neither_lost_nor_written_again() -> None:
    text = (
        f"{_HEAD}\n.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2)"
        f"\n{{{_DECLARED}{_INDEX}"
        "LOOP: atom.global.cas.b32 %r10, [%rd1], 1, 1; setp.ne.u32 %p1, %r10, 1; @%p1 bra LOOP;"
        "atom.global.add.u32 %r11, [%rd2], 1; ret;\n}"
    )
    a, b = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    pointers = (
        Pointer(buffer=Buffer(name=n, data=d.view(np.uint8)))
        for n, d in zip("ab", (a, b), strict=True)
    )
    launch = Launch(
        kernel="k", grid=(3, 1, 1), block=(1, 1, 1), arguments=(*pointers, struct.pack("<I", 1)),
    )  # fmt: skip
    other = _Other(a)
    options = Options(shadow=False, races=False, fuel=4)
    report = run(parse(text), launch, options=options, meanwhile=other)
    assert not report.findings
    assert (a[0], b[0], other.runs) == (1, 3, 2)


@pytest.mark.parametrize(
    ("counts", "waits"),
    [
        ("add.u32 %r12, %r12, 1;", True),  # a bound that such loops have: never the same state
        ("atom.global.add.u32 %r12, [%rd2], 1;", True),
        ("add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 40; @%p1 bra LOOP; bra END;", False),
    ],
    ids=["in a register", "in memory", "to its own end"],
)
def test_a_loop_that_counts_while_it_waits_leaves_others_a_turn(counts: str, waits: bool) -> None:
    text = (
        f"{_HEAD}\n.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2)"
        f"\n{{{_DECLARED}{_INDEX} mov.u32 %r12, 0;"
        f"LOOP: ld.acquire.sys.global.u32 %r10, [%rd1]; {counts}"
        "setp.ne.u32 %p1, %r10, 1; @%p1 bra LOOP; END: ret;\n}"
    )
    a, b = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    pointers = (
        Pointer(buffer=Buffer(name=n, data=d.view(np.uint8)))
        for n, d in zip("ab", (a, b), strict=True)
    )
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1), arguments=(*pointers, struct.pack("<I", 1)),
    )  # fmt: skip
    other = _Other(a)
    options = Options(shadow=False, races=False, fuel=4, limit_s=20.0)
    report = run(parse(text), launch, options=options, meanwhile=other)
    assert report.inconclusive is None
    assert not report.findings
    assert (a[0] == 1, other.runs) == ((True, 2) if waits else (False, 1))


def test_host_threads_end_before_an_exception_takes_their_memory_away() -> None:
    """A signal's, for example: what threads of native code work on goes with the frame."""
    stopped, ended = threading.Event(), threading.Event()

    def interrupted() -> int:
        raise KeyboardInterrupt

    def other() -> int:
        assert stopped.wait(60.0)
        ended.set()
        return 0

    with pytest.raises(KeyboardInterrupt):
        _side_by_side([interrupted, other], stopped.set)
    assert ended.is_set()
    assert _side_by_side([lambda: 7, lambda: 3], stopped.set) == 7


def test_what_comparisons_of_a_function_came_to_is_kept_over_all_its_calls() -> None:
    """Each call has the function's lines for itself in the program, and one outcome in it."""
    text = f"""{_HEAD}
.func (.param .b32 out) less(.param .b32 a)
{{
  .reg .pred %p<2>; .reg .b32 %r<4>;
  ld.param.u32 %r1, [a];
  setp.lt.u32 %p1, %r1, 5;
  selp.u32 %r2, 1, 0, %p1;
  st.param.b32 [out], %r2;
  ret;
}}
.visible .entry k(.param .u64 y)
{{
  .reg .b32 %r<4>; .reg .b64 %rd<2>;
  {{ .param .b32 p; st.param.b32 [p], 3; .param .b32 q;
  call.uni (q), less, (p);
  ld.param.b32 %r1, [q]; }}
  {{ .param .b32 p; st.param.b32 [p], 7; .param .b32 q;
  call.uni (q), less, (p);
  ld.param.b32 %r2, [q]; }}
  ld.param.u64 %rd1, [y];
  st.global.v2.u32 [%rd1], {{%r1, %r2}};
  ret;
}}
"""
    y = Buffer(name="y", data=np.zeros(8, np.uint8))
    launch = Launch(kernel="k", grid=(1, 1, 1), block=(1, 1, 1), arguments=(Pointer(buffer=y),))
    report = run(parse(text), launch, options=Options(shadow=False))
    assert y.data.view(np.uint32).tolist() == [1, 0]
    assert [*report.statistics.outcomes.values()] == [frozenset((False, True))]
