"""Findings in words: where an access lies, to whom the memory belongs, and who waits for whom."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind, MachineFinding, MachineReport
from ptxsan.launch import Buffer
from ptxsan_support.ptx import buffer_of, execute, kernel


def _words(name: str, count: int = 32) -> Buffer:
    return buffer_of(np.zeros(count, np.uint32), name)


def _run(body: str, *, registers: str = "", block: int = 32, words: int = 32) -> MachineReport:
    return execute(
        kernel(body, registers=registers), _words("a", words), _words("b", words), block=block
    )


def _one(report: MachineReport, kind: Kind) -> MachineFinding:
    (found,) = [one for one in report.findings if one.kind is kind]
    return found


@pytest.mark.parametrize(
    ("body", "offset"),
    [
        ("st.global.u32 [%rd1+128], %r1;", 128),
        ("st.global.u32 [%rd1+-4], %r1;", -4),
    ],
)
def test_an_access_beyond_a_buffer_says_how_far_and_of_which(body: str, offset: int) -> None:
    found = _one(_run(body, block=1), Kind.OUT_OF_BOUNDS)
    assert found.text.startswith("st.global.u32 writes 4 bytes at ")
    assert "buffer 'a'" in found.text
    assert (found.space, found.offset) == ("global", offset)
    assert [one.thread for one in found.accesses] == [(0, 0, 0)]


def test_an_address_of_no_buffer_is_named_as_a_number() -> None:
    found = _one(_run("mov.u64 %rd3, 64; ld.global.u32 %r2, [%rd3];", block=1), Kind.OUT_OF_BOUNDS)
    assert "ld.global.u32 reads 4 bytes at global address 0x40" in found.text
    assert found.allocation == ""


def test_an_access_that_is_not_aligned_says_so() -> None:
    found = _one(_run("ld.global.u32 %r2, [%rd1+2];", block=1), Kind.MISALIGNED)
    assert "at offset 2 of buffer 'a', which is not aligned to that" in found.text


def test_what_is_beyond_its_buffer_may_be_misaligned_as_well() -> None:
    report = _run("ld.global.u32 %r2, [%rd1+126];", block=1)
    assert {one.kind for one in report.findings} == {Kind.OUT_OF_BOUNDS, Kind.MISALIGNED}


def test_shared_memory_is_told_by_the_name_of_its_variable() -> None:
    report = _run(
        "mov.u32 %r2, tile; st.shared.u32 [%r2+64], %r1;",
        registers=".shared .align 4 .b8 tile[64];",
        block=1,
    )
    found = _one(report, Kind.OUT_OF_BOUNDS)
    assert "shared variable 'tile'" in found.text
    assert found.space == "shared"


def test_two_threads_that_write_one_place_are_both_named() -> None:
    found = _one(_run("st.global.u32 [%rd1], %r1;"), Kind.RACE)
    assert len(found.accesses) == 2
    first, second = (one.thread for one in found.accesses)
    assert first != second
    assert found.count >= 1


def test_a_read_of_memory_that_nobody_wrote_is_told_by_what_uses_it() -> None:
    report = _run(
        "mov.u32 %r2, tile; ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd2], %r3;",
        registers=".shared .align 4 .b8 tile[64];",
        block=1,
    )
    found = _one(report, Kind.UNINITIALISED)
    assert found.text == ("st.global.u32 stores a value that depends on memory that nobody wrote")


def test_a_thread_that_ends_before_a_barrier_is_named_beside_one_that_waits() -> None:
    report = _run("setp.eq.u32 %p1, %r1, 0; @%p1 bra END; bar.sync 0;\nEND:", block=64)
    found = _one(report, Kind.ENDED_BEFORE)
    assert "waits at bar.sync, thread (0, 0, 0) of its block has ended before" in found.text


def test_a_loop_that_nobody_ends_says_how_many_blocks_wait() -> None:
    found = _one(_run("L: bra L;", block=1), Kind.DEADLOCK)
    assert "waits in a loop; 1 of 1 blocks wait, 0 have ended" in found.text


def test_a_trap_ends_the_launch_and_is_a_finding() -> None:
    assert _one(_run("trap;", block=1), Kind.TRAP).text == "trap was reached"
