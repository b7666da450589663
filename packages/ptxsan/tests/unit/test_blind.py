"""A load that races with a store is no fault where nobody uses what it loads."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan import blind
from ptxsan.findings import Kind, MachineReport, Severity
from ptxsan.options import Options
from ptxsan_support import ptx

_THREADS = 64  # two warps, of which the first 16 threads own an element each
_LOAD = """
and.b32 %r2, %r1, 15; mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3;
mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd2, %rd5;
setp.lt.u32 %p1, %r1, 16; setp.ge.u32 %p2, %r1, 48;
ld.global.f32 %f1, [%rd4];
add.f32 %f2, %f1, %f1;
"""
_STORE = "@%p1 st.global.f32 [%rd4], %f2;"


def _run(
    body: str, *, zero: bool = False, schedule: str = "forward"
) -> tuple[MachineReport, NDArray[np.float32]]:
    x = np.zeros(16, np.float32) if zero else np.arange(1, 17, dtype=np.float32)
    a = ptx.buffer_of(x, "x")
    b = ptx.buffer_of(np.zeros(_THREADS, np.float32), "y")
    text = ptx.kernel(body, registers=".shared .align 4 .b8 tile[256];")
    report = ptx.execute(text, a, b, block=_THREADS, options=Options(schedule=schedule))
    return report, a.data.view(np.float32)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_copies_that_nobody_stores_are_a_note(schedule: str) -> None:
    report, x = _run(_LOAD + _STORE, schedule=schedule)
    assert x.tolist() == [2.0 * one for one in range(1, 17)]
    assert report.inconclusive is None
    assert not report.wrong
    (found,) = report.findings
    assert (found.kind, found.severity) == (Kind.RACE, Severity.NOTE)
    assert found.text.endswith("a value that is read too late reaches nothing")


def test_one_that_is_ordered_is_not_in_question() -> None:
    """Of two loads only the second races; the first may be used."""
    body = "st.global.f32 [%rd6], %f1; bar.sync 0; ld.global.f32 %f1, [%rd4];add.f32 %f2, %f1, %f1;"
    report, _ = _run(_LOAD + body + _STORE)
    assert not report.wrong
    assert len(report.findings) == 1


def test_one_that_two_threads_write_in_turn_is_not_in_question() -> None:
    """The owner's load is before the barrier behind which another thread writes as well."""
    body = _STORE + "bar.sync 0; setp.eq.u32 %p3, %r1, 63; @%p3 st.global.f32 [%rd4], %f1;"
    report, _ = _run(_LOAD + "mov.f32 %f1, 0f3F800000;" + body)
    assert not report.wrong
    assert len(report.findings) == 1


@pytest.mark.parametrize(
    ("meeting", "wrong"),
    [
        ("shfl.sync.bfly.b32 %r5, %r4, 1, 31, -1;", False),
        ("setp.lt.u32 %p4, %r1, 16; @%p4 shfl.sync.bfly.b32 %r5, %r4, 1, 31, 65535;", True),
        ("", True),
    ],
    ids=["whole warp", "half of it", "nobody"],
)
def test_a_warp_that_met_before_the_store_is_a_note(meeting: str, wrong: bool) -> None:
    """Lane 0 uses what it loaded before the meeting; lane 5 stores there after it."""
    body = (
        "ld.global.f32 %f1, [%rd1+20]; mov.b32 %r4, %f1; mov.f32 %f2, 0f3F800000;"
        + meeting
        + _STORE
        + "setp.eq.u32 %p3, %r1, 0; @%p3 st.global.f32 [%rd6], %f1;"
    )
    report, _ = _run(_LOAD + body)
    assert bool(report.wrong) is wrong
    assert report.findings


@pytest.mark.parametrize("distance", [8, 16])
def test_copies_exchanged_before_the_store_are_a_note(distance: int) -> None:
    """Within the copies, or from a copy to an owner: loaded before the warp met."""
    body = f"shfl.sync.bfly.b32 %r5, %r4, {distance}, 31, -1; mov.b32 %f3, %r5;"
    body += "add.f32 %f2, %f2, %f3;"
    report, _ = _run(_LOAD + "mov.b32 %r4, %f1;" + body + _STORE)
    assert not report.wrong


def test_a_branch_that_changes_nothing_is_a_note() -> None:
    body = "setp.gt.f32 %p3, %f1, 0f40A00000; @!%p3 bra $end; add.f32 %f3, %f2, %f2; $end:"
    report, _ = _run(_LOAD + _STORE + body)
    assert not report.wrong


_USES = {
    "stores it elsewhere": _STORE + "st.global.f32 [%rd6], %f2;",
    "adds it to memory": _STORE + "red.global.add.f32 [%rd6], %f2;",
    "gives it to another through shared memory": (
        _STORE + "mov.u32 %r6, tile; shl.b32 %r7, %r1, 2; add.u32 %r8, %r6, %r7;"
        "xor.b32 %r7, %r7, 128; add.u32 %r9, %r6, %r7; st.shared.f32 [%r8], %f1;"
        "bar.sync 0; ld.shared.f32 %f3, [%r9]; @%p1 st.global.f32 [%rd6], %f3;"
    ),
    "branches on it": (
        _STORE + "setp.gt.f32 %p3, %f1, 0f40A00000; @%p3 bra $far; bra $end;"
        "$far: st.global.f32 [%rd6], %f4; $end:"
    ),
    "stores under it": (
        _STORE + "setp.gt.f32 %p3, %f1, 0f40A00000;@%p3 st.global.f32 [%rd6], %f4;"
    ),
    "loads where it points": (
        _STORE + "cvt.rzi.u32.f32 %r4, %f1; and.b32 %r4, %r4, 7; mul.wide.u32 %rd7, %r4, 4;"
        "add.s64 %rd8, %rd2, %rd7; ld.global.f32 %f5, [%rd8];"
    ),
    "reads what a later thread overwrites": (
        "@%p2 st.global.f32 [%rd4], %f4;@%p1 st.global.f32 [%rd6], %f2;"
    ),
    "reads what another writes before it does": (
        "@%p2 st.global.f32 [%rd4], %f4; bar.sync 0;@%p1 st.global.f32 [%rd4], %f2;"
    ),
}


@pytest.mark.parametrize("zero", [False, True], ids=["numbers", "zeros"])
@pytest.mark.parametrize("use", _USES)
def test_a_value_that_is_used_is_a_race(use: str, zero: bool) -> None:
    report, _ = _run(_LOAD + "mov.f32 %f4, 0f3F800000;" + _USES[use], zero=zero)
    assert report.inconclusive is None
    assert any(one.kind is Kind.RACE for one in report.wrong), report.findings


def test_without_memory_for_the_question_a_race_is_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blind, "bytes_needed", lambda state: 1 << 60)
    report, _ = _run(_LOAD + _STORE)
    assert report.wrong


def test_a_load_of_either_space_is_judged_in_each() -> None:
    """One generic load: its race in shared memory is one, whatever it does in global memory."""
    body = (
        "mov.u32 %r6, tile; cvt.u64.u32 %rd7, %r6; cvta.shared.u64 %rd7, %rd7;"
        "mov.u32 %r9, 0; add.s64 %rd8, %rd7, %rd3; mov.f32 %f4, 0f3F800000;"
        "setp.eq.u32 %p5, %r1, %r1;"
        "$again: ld.f32 %f3, [%rd4];"
        "@%p1 st.f32 [%rd4], %f4; mov.u64 %rd4, %rd8; add.u32 %r9, %r9, 1;"
        "setp.lt.u32 %p3, %r9, 2; @%p3 bra $again;"
    )
    report, _ = _run(_LOAD + body)
    assert {one.space for one in report.wrong if one.kind is Kind.RACE} == {"shared"}


def test_memory_is_left_as_the_launch_left_it() -> None:
    """The runs that ask what a load is for change nothing that anybody sees."""
    report, x = _run(_LOAD + _USES["stores it elsewhere"])
    assert report.wrong
    assert x.tolist() == [2.0 * one for one in range(1, 17)]
