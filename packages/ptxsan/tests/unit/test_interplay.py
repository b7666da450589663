"""What blocks can see of each other: nothing, sums that they add to, or anything."""

from __future__ import annotations

import pytest

from ptxsan.interplay import Interplay, acquires, interplay, unread_updates, updates_of
from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan_support.ptx import kernel


def _program(body: str) -> Program:
    module = parse(kernel(body))
    return build(module, "k")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd2], %r2;", Interplay.APART),
        ("red.global.add.u32 [%rd1], 1;", Interplay.UPDATES),
        ("atom.global.add.u32 %r2, [%rd1], 1;", Interplay.UPDATES),  # its result is not read
        ("atom.global.add.u32 %r2, [%rd1], 1; st.global.u32 [%rd2], %r2;", Interplay.ANY),
        ("atom.global.cas.b32 %r2, [%rd1], 0, 1;", Interplay.ANY),
        ("atom.shared.add.u32 %r2, [%rd1], 1; st.global.u32 [%rd2], %r2;", Interplay.APART),
        ("ld.relaxed.gpu.global.u32 %r2, [%rd1];", Interplay.ANY),
        ("ld.volatile.shared.u32 %r2, [%r1];", Interplay.APART),
        ("st.release.gpu.global.u32 [%rd1], 1;", Interplay.ANY),
        ("red.global.add.u32 [%rd1], 1; ld.acquire.gpu.global.u32 %r2, [%rd1];", Interplay.ANY),
    ],
)
def test_blocks_see_of_each_other(body: str, expected: Interplay) -> None:
    assert interplay(_program(body)) is expected


def test_an_update_counts_as_read_wherever_its_result_is_used() -> None:
    program = _program(
        "atom.global.add.u32 %r2, [%rd1], 1; atom.global.add.u32 %r3, [%rd1], 1;"
        "st.global.u32 [%rd2], %r3;"
    )
    unread = unread_updates(program.body)
    assert [program.body[site].opcode for site in unread] == ["atom.global.add.u32"]
    assert len(unread) == 1
    assert not updates_of(program).deferrable
    assert updates_of(program).heard


def test_what_is_not_read_learns_nothing_of_a_release() -> None:
    assert not acquires(_program("red.release.gpu.global.add.u32 [%rd1], 1;").body)
    assert acquires(_program("ld.acquire.gpu.global.u32 %r2, [%rd1];").body)
