"""Advice on the first warp's accesses: sectors of global memory, banks of shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind, MachineFinding
from ptxsan.options import Options
from ptxsan_support.ptx import buffer_of, execute, kernel


def _advice(body: str, *, words: int = 4096) -> list[MachineFinding]:
    report = execute(
        kernel(body), buffer_of(np.zeros(words, np.uint32)), buffer_of(np.zeros(words, np.uint32)),
        options=Options(advice=True),
    )  # fmt: skip
    return [one for one in report.findings if one.kind in (Kind.UNCOALESCED, Kind.BANK_CONFLICT)]


def _global(stride: int) -> str:
    return (
        f"mul.wide.u32 %rd3, %r1, {stride}; add.u64 %rd3, %rd3, %rd1; ld.global.u32 %r2, [%rd3];"
        "mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd4, %rd2; st.global.u32 [%rd4], %r2;"
    )


@pytest.mark.parametrize(("stride", "seen"), [(4, None), (8, None), (32, 32), (128, 32)])
def test_a_warp_that_touches_a_sector_a_lane_is_told(stride: int, seen: int | None) -> None:
    found = _advice(_global(stride))
    if seen is None:
        assert found == []
    else:
        (one,) = found
        assert one.kind is Kind.UNCOALESCED
        assert one.measures == {"seen": seen, "needed": 4.0}
        assert one.accesses[0].what == "ld.global.u32"
        assert f"touches {seen} sectors of 32 bytes a warp where 4 would do" in one.text


@pytest.mark.parametrize(
    ("stride", "turns"), [(4, None), (8, None), (16, 4), (128, 32), (132, None)]
)
def test_lanes_that_meet_in_a_bank_take_turns(stride: int, turns: int | None) -> None:
    found = _advice(
        f".shared .align 128 .b8 tile[8192]; mov.u32 %r3, tile; mad.lo.u32 %r3, %r1, {stride}, %r3;"
        "st.shared.u32 [%r3], %r1;"
    )
    if turns is None:
        assert found == []
    else:
        (one,) = found
        assert one.kind is Kind.BANK_CONFLICT
        assert one.measures["seen"] == turns


def test_one_word_for_all_lanes_is_no_conflict() -> None:
    assert _advice(
        ".shared .align 128 .b8 tile[128]; mov.u32 %r3, tile; st.shared.u32 [%r3], 1;"
    ) == []  # fmt: skip
