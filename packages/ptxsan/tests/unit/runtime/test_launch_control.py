"""clusterlaunchcontrol: blocks that take over others that have not begun, by the PTX manual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import buffer_of

pytest.importorskip("numba")
_HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 a)
{
.reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .b128 %q<2>; .reg .pred %p<8>;
.shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
mov.u32 %r2, %ctaid.x; mov.u32 %r3, 0;
"""
_INIT = "@%p1 mbarrier.init.shared::cta.b64 [bar], 1;\nbar.sync 0;\n"
_EXPECT = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;\n"
_ASK = (
    "@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 "
    "[answer], [bar];\n"
)
# Block %r2 of the grid is counted by each of its threads.
_WORK = "shl.b32 %r4, %r2, 2; cvt.u64.u32 %rd2, %r4; add.u64 %rd2, %rd1, %rd2;\n" + (
    "red.global.add.u32 [%rd2], 1;\n"
)
_WAIT = "wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r3;\n@!%p2 bra wait;\n"
_READ = "ld.shared.b128 %q1, [answer];\n"
_TEST = "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;\n@!%p3 bra done;\n"
_TAKE = "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r2, %q1;\n"
_AGAIN = "xor.b32 %r3, %r3, 1;\nbar.sync 0;\nbra next;\n"
PERSISTENT = (
    _HEAD + _INIT + "next:\n" + _EXPECT + _ASK + _WORK + _WAIT + _READ + _TEST + _TAKE + _AGAIN
    + "done: ret;\n}\n"
)  # fmt: skip
# The same for clusters of two: the first block asks for both.
_BOTH = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
PAIRS = (
    _HEAD
    + "mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p4, %r5, 0; and.pred %p5, %p1, %p4;\n"
    + _INIT.replace("bar.sync 0;\n", _BOTH) + "next:\n" + _EXPECT
    + _ASK.replace("%p1", "%p5").replace(".b128 [", ".multicast::cluster::all.b128 [")
    + _WORK + _WAIT + _READ + _TEST
    + _TAKE.replace("::x.b32.b128 %r2", ".v4.b32.b128 {%r2, %r6, %r7, _}")
    + "add.u32 %r2, %r2, %r5;\n" + _AGAIN.replace("bar.sync 0;\n", _BOTH) + "done: ret;\n}\n"
)  # fmt: skip


def _execute(
    text: str,
    *,
    schedule: str = "forward",
    cluster: int = 1,
    blocks: int = 12,
    limit_s: float = 60.0,
) -> tuple[MachineReport, list[int]]:
    counts = buffer_of(np.zeros(blocks, np.uint32), "a")
    launch = Launch(
        kernel="k", grid=(blocks, 1, 1), block=(64, 1, 1), cluster=(cluster, 1, 1),
        arguments=(Pointer(buffer=counts),),
    )  # fmt: skip
    report = run(parse(text), launch, options=Options(arch=100, schedule=schedule, limit_s=limit_s))
    return report, counts.data.view(np.uint32).tolist()


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
@pytest.mark.parametrize(("text", "cluster"), [(PERSISTENT, 1), (PAIRS, 2)])
def test_every_block_is_worked_on_once(text: str, cluster: int, schedule: str) -> None:
    report, counts = _execute(text, schedule=schedule, cluster=cluster)
    assert (report.inconclusive, report.wrong) == (None, ())
    assert counts == [64] * 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fault:
    name: str
    old: str
    new: str = ""
    kinds: tuple[Kind, ...]


_LATE = _WAIT.replace("wait:", "late:").replace("bra wait", "bra late")
_FAULTS = (
    _Fault(
        name="answer_not_waited_for", old=_WAIT, kinds=(Kind.RACE, Kind.UNINITIALISED)
    ),
    _Fault(
        name="answer_waited_for_at_the_wrong_parity", old="[bar], %r3;", new="[bar], 1;",
        kinds=(Kind.RACE, Kind.UNINITIALISED, Kind.DEADLOCK),
    ),
    _Fault(
        name="goes_on_where_no_cluster_was_left", old=_TEST, kinds=(Kind.UNINITIALISED,),
    ),
    _Fault(
        name="asks_again_after_none_was_left", old="done: ret;",
        new=f"done:\n{_EXPECT}{_ASK}xor.b32 %r3, %r3, 1;\n{_LATE}ret;",
        kinds=(Kind.LAUNCH_CONTROL,),
    ),
    _Fault(
        name="answer_overwritten_while_others_read_it", old="bar.sync 0;\nbra next;",
        new="bra next;", kinds=(Kind.RACE, Kind.DEADLOCK),
    ),
    _Fault(
        name="expects_no_bytes", old="mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16",
        new="mbarrier.arrive.shared::cta.b64 _, [bar]",
        kinds=(Kind.RACE, Kind.UNINITIALISED, Kind.MBARRIER, Kind.DEADLOCK),
    ),
    _Fault(
        name="expects_too_many_bytes", old="[bar], 16;", new="[bar], 32;", kinds=(Kind.DEADLOCK,)
    ),
    _Fault(
        name="leaves_while_the_answer_comes", old=_WAIT + _READ + _TEST + _TAKE + _AGAIN,
        kinds=(Kind.EXITED_SHARED,),
    ),
)  # fmt: skip


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda one: one.name)
def test_a_planted_fault_is_found(fault: _Fault) -> None:
    assert fault.old in PERSISTENT
    # Some go on for ever with an answer that is not there.
    report, _ = _execute(PERSISTENT.replace(fault.old, fault.new), limit_s=2.0)
    assert {one.kind for one in report.wrong} & set(fault.kinds), [one.text for one in report.wrong]


def test_a_barrier_of_both_blocks_is_missed() -> None:
    report, _ = _execute(PAIRS.replace(_BOTH + "bra next;", "bra next;"), cluster=2)
    assert {one.kind for one in report.wrong} & {Kind.RACE, Kind.DEADLOCK, Kind.EXITED_SHARED}


def test_which_block_it_was_may_be_read_before_it_is_known_that_there_was_one() -> None:
    assert _TEST + _TAKE in PERSISTENT
    report, _ = _execute(PERSISTENT.replace(_TEST + _TAKE, _TAKE + _TEST))
    assert (report.inconclusive, report.wrong) == (None, ())
