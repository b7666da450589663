"""Schedules and advice: what depends on the order, and where a warp wastes its accesses."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import pytest

from ptxsan.errors import MachineError
from ptxsan.findings import Kind, Severity
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan.schedules import compare

_KERNEL = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u32 k_2)
{
.reg .b32 %r<20>; .reg .f32 %f<8>; .reg .b64 %rd<12>; .reg .pred %p<4>;
.shared .align 4 .b32 tile[1024];
ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1]; ld.param.u32 %r1, [k_2];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.s32 %r5, %r2, %r3, %r4; mul.lo.s32 %r6, %r5, %r1; mul.wide.s32 %rd3, %r6, 4;
add.s64 %rd4, %rd1, %rd3;
BODY
ret;
}
"""


def _launch(stride: int, values: np.ndarray, outputs: np.ndarray) -> Launch:
    return Launch(
        kernel="k", grid=(4, 1, 1), block=(64, 1, 1),
        arguments=(
            Pointer(buffer=Buffer(name="x", data=values.view(np.uint8))),
            Pointer(buffer=Buffer(name="y", data=outputs.view(np.uint8))),
            struct.pack("<I", stride),
        ),
    )  # fmt: skip


def test_sums_in_the_order_of_atomics_differ_and_integer_ones_do_not() -> None:
    module = parse(
        _KERNEL.replace("BODY", "ld.global.f32 %f1, [%rd4]; red.global.add.f32 [%rd2], %f1;")
    )
    values = np.random.default_rng(0).standard_normal(256).astype(np.float32) * 1e3
    found = compare(module, lambda: _launch(1, values.copy(), np.zeros(4, np.float32)))
    assert [one.buffer for one in found.order_dependent] == ["y"]
    assert found.order_dependent[0].schedules[0] == "forward"
    assert found.order_dependent[0].offset < 4
    whole = parse(
        _KERNEL.replace("BODY", "ld.global.u32 %r7, [%rd4]; red.global.add.u32 [%rd2], %r7;")
    )
    counts = np.arange(256, dtype=np.uint32)
    again = compare(whole, lambda: _launch(1, counts.copy(), np.zeros(4, np.uint32)))
    assert again.order_dependent == ()
    assert again.findings == ()


def test_a_schedule_with_its_seed_gives_the_same_bytes() -> None:
    module = parse(
        _KERNEL.replace("BODY", "ld.global.f32 %f1, [%rd4]; red.global.add.f32 [%rd2], %f1;")
    )
    values = np.random.default_rng(0).standard_normal(256).astype(np.float32) * 1e3
    seen = []
    for _ in range(2):
        outputs = np.zeros(4, np.float32)
        run(module, _launch(1, values, outputs), options=Options(schedule="random", seed=7))
        seen.append(outputs.tobytes())
    assert seen[0] == seen[1]


@pytest.mark.parametrize(("stride", "kinds"), [(1, []), (16, [Kind.UNCOALESCED])])
def test_wide_strides_are_uncoalesced(stride: int, kinds: list[Kind]) -> None:
    body = "ld.global.u32 %r7, [%rd4]; red.global.add.u32 [%rd2], %r7;"
    module = parse(_KERNEL.replace("BODY", body))
    launch = _launch(stride, np.zeros(256 * 16, np.uint32), np.zeros(4, np.uint32))
    report = run(module, launch, options=Options(advice=True))
    assert [one.kind for one in report.findings] == kinds
    assert all(one.severity is Severity.ADVICE for one in report.findings)
    assert all(one.measures["needed"] == 4 for one in report.findings)


@pytest.mark.parametrize(("stride", "kinds"), [(4, []), (128, [Kind.BANK_CONFLICT])])
def test_threads_in_one_bank_wait_for_each_other(stride: int, kinds: list[Kind]) -> None:
    body = (
        f"and.b32 %r8, %r4, 31; mul.lo.u32 %r8, %r8, {stride}; mov.u32 %r9, tile;"
        "add.u32 %r9, %r9, %r8; setp.lt.u32 %p1, %r4, 32; @%p1 st.shared.u32 [%r9], %r4;"
    )
    module = parse(_KERNEL.replace("BODY", body))
    launch = _launch(1, np.zeros(256, np.uint32), np.zeros(4, np.uint32))
    report = run(module, launch, options=Options(advice=True))
    assert [one.kind for one in report.findings] == kinds


def test_an_index_that_overflowed_is_called_so() -> None:
    body = "shl.b32 %r7, %r5, 30; mul.wide.s32 %rd5, %r7, 4; add.s64 %rd6, %rd1, %rd5;"
    module = parse(_KERNEL.replace("BODY", body + "ld.global.u32 %r8, [%rd6];"))
    launch = _launch(1, np.zeros(256, np.uint32), np.zeros(4, np.uint32))
    report = run(module, launch)
    assert [one.kind for one in report.findings] == [Kind.ADDRESS_OVERFLOW]


def test_a_launch_that_does_not_fit_is_refused_before_it_starts() -> None:
    module = parse(_KERNEL.replace("BODY", ""))
    launch = _launch(1, np.zeros(1 << 16, np.uint32), np.zeros(4, np.uint32))
    with pytest.raises(MachineError, match=r"needs \d+ bytes of state, 1000000 are allowed"):
        run(module, launch, options=Options(memory_bytes=1_000_000))


def test_more_threads_than_race_records_can_name_are_refused() -> None:
    module = parse(_KERNEL.replace("BODY", ""))
    launch = dataclasses.replace(
        _launch(1, np.zeros(4, np.uint32), np.zeros(4, np.uint32)), grid=(1 << 21, 1, 1)
    )
    with pytest.raises(MachineError, match="runs 33554432 at most"):
        run(module, launch)
