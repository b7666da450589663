"""Lanes that ask who executes with them: `__activemask()` and coalesced groups."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.nvrtc import available, compile_ptx
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run

pytestmark = pytest.mark.skipif(not available(), reason="NVRTC is not installed")
SCHEDULES = ("forward", "reverse", "random")
_parsed = functools.cache(  # one module under all schedules: cooperative_groups.h takes a second
    lambda source: parse(compile_ptx(source, arch="sm_90", name="k.cu"))
)


def launched(
    body: str, *, block: int = 64, schedule: str = "forward"
) -> tuple[MachineReport, np.ndarray, np.ndarray]:
    """Run `k(int* p, int* count)` of two blocks over zeros; return the report and both arrays."""
    source = f"""#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(int* p, int* count) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        {body}
    }}"""
    module = _parsed(source)
    p, count = (np.zeros(256, np.int32) for _ in range(2))
    buffers = [Buffer(name=n, data=a.view(np.uint8)) for n, a in (("p", p), ("count", count))]
    launch = Launch(
        kernel="k", grid=(2, 1, 1), block=(block, 1, 1), buffers=tuple(buffers),
        arguments=tuple(Pointer(buffer=one) for one in buffers),
    )  # fmt: skip
    report = run(module, launch, options=Options(schedule=schedule, seed=3, limit_s=30.0))
    return report, p, count


def kinds(report: MachineReport) -> set[Kind]:
    assert report.inconclusive is None
    return {one.kind for one in report.findings}


AGGREGATED = """
    if (i % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        int base = 0;
        if (active.thread_rank() == 0) base = atomicAdd(count, active.size());
        p[active.shfl(base, 0) + active.thread_rank()] = i + 1;
    }"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_coalesced_group_is_of_the_lanes_that_took_the_branch(schedule: str) -> None:
    report, p, count = launched(AGGREGATED, schedule=schedule)
    assert not kinds(report)
    chosen = [i for i in range(128) if i % 3 == 0]
    assert count[0] == len(chosen)
    assert sorted(p[: len(chosen)] - 1) == chosen


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_groups_in_a_loop_that_lanes_leave_at_different_times(schedule: str) -> None:
    report, _, count = launched(
        """for (int n = 0; n < threadIdx.x % 7; ++n) {
            unsigned active = __activemask();
            if (__ffs(active) - 1 == threadIdx.x % 32) atomicAdd(count, __popc(active));
        }""",
        schedule=schedule,
    )
    assert not kinds(report)
    assert count[0] == 2 * sum(i % 7 for i in range(64))


def test_lanes_that_go_around_a_group_are_not_of_it() -> None:
    report, p, _ = launched("p[i] = 0; if (threadIdx.x % 32 < 5) p[i] = __activemask();")
    assert not kinds(report)
    assert set(p[:5]) == {31}
    assert not p[5:32].any()


def test_a_group_labelled_by_value() -> None:
    report, _, count = launched(
        """if (i % 5) {
            cg::coalesced_group active = cg::coalesced_threads();
            auto group = cg::labeled_partition(active, i % 5);
            if (group.thread_rank() == 0) atomicAdd(count + i % 5, group.size());
        }"""
    )
    assert not kinds(report)
    assert list(count[:5]) == [
        0,
        *(len([i for i in range(128) if i % 5 == n]) for n in (1, 2, 3, 4)),
    ]


def test_a_lane_that_spins_for_one_that_asks() -> None:
    report, _, count = launched(
        """volatile int* flag = count + 1 + i / 32;
        if (threadIdx.x % 32 == 1) { while (!*flag) {} }
        else if (threadIdx.x % 32 == 0) { atomicAdd(count, __popc(__activemask())); *flag = 1; }"""
    )
    assert Kind.DEADLOCK not in kinds(report)
    assert count[0] == 4


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_mask_from_before_the_branch_names_lanes_that_do_not_come(schedule: str) -> None:
    report, _, _ = launched(
        """unsigned active = __activemask();
        if (threadIdx.x % 2) p[i] = __shfl_sync(active, i, 1);
        count[i] = 2;""",
        schedule=schedule,
    )
    assert kinds(report) & {Kind.DIVERGENT_COLLECTIVE}


def test_a_full_mask_where_lanes_went_another_way() -> None:
    report, _, _ = launched(
        """if (threadIdx.x % 3 == 0) {
            unsigned active = 0xffffffffu;
            p[i] = __popc(__activemask()) + __shfl_sync(active, i, 0);
        }
        count[i] = 2;"""
    )
    assert kinds(report) & {Kind.DIVERGENT_COLLECTIVE}
