"""Blocks that wait for others: they end where those come, and are a deadlock where none does."""

from __future__ import annotations

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

# Ways in which threads of block `b` wait until word `w` of `flag` is at least `n`.
_BARRIER = """__shared__ int seen;
    while (true) {
        if (threadIdx.x == 0) seen = atomicAdd(flag + w, 0);
        __syncthreads();
        int now = seen;
        __syncthreads();
        if (now >= n) break;
    }"""
WAITS = {
    "one thread and a barrier behind": """
        if (threadIdx.x == 0) while (atomicAdd(flag + w, 0) < n) {}
        __syncthreads();""",
    "a barrier in the loop": _BARRIER,
    "three barriers in the loop": _BARRIER.replace(
        "int now = seen;", "int now = seen; __syncthreads();"
    ),
    "a shuffle in the loop": """int now;
        do {
            now = threadIdx.x % 32 == 0 ? *(volatile int*)(flag + w) : 0;
            now = __shfl_sync(0xffffffffu, now, 0);
        } while (now < n);
        __threadfence();
        __syncwarp();""",  # a shuffle orders nothing
    "a vote of the whole block": """
        while (!__syncthreads_or(threadIdx.x == 3 && *(volatile int*)(flag + w) >= n)) {}
        __threadfence();""",
    "every thread by itself": "while (atomicAdd(flag + w, 0) < n) {} __threadfence();",
}


def launched(
    wait: str, body: str, *, grid: int, block: int = 64, schedule: str = "forward",
    limit_s: float = 60.0,
) -> tuple[MachineReport, np.ndarray]:  # fmt: skip
    """Run `k(int* p, int* flag)` over zeros; return the report and what lies at p."""
    source = f"""
    __device__ void wait(int* flag, int w, int n) {{ {wait} }}
    __device__ void tell(int* flag, int w) {{
        __syncthreads();
        if (threadIdx.x == 0) {{ __threadfence(); atomicAdd(flag + w, 1); }}
    }}
    extern "C" __global__ void k(int* p, int* flag) {{
        int b = blockIdx.x, last = gridDim.x - 1; {body} }}"""
    memory = [np.zeros(4 * 2048, np.uint8) for _ in range(2)]
    launch = Launch(
        kernel="k", grid=(grid, 1, 1), block=(block, 1, 1),
        arguments=tuple(
            Pointer(buffer=Buffer(name=name, data=data))
            for name, data in zip(("p", "flag"), memory, strict=True)
        ),
    )  # fmt: skip
    options = Options(schedule=schedule, shadow=False, optimise=False, limit_s=limit_s)
    report = run(parse(compile_ptx(source, arch="sm_80")), launch, options=options)
    return report, memory[0].view(np.int32)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", WAITS)
def test_a_block_that_waits_for_the_last_one_ends(name: str, schedule: str) -> None:
    body = """
        if (b == last) { if (threadIdx.x == 5) p[0] = 7; tell(flag, 0); }
        else { wait(flag, 0, 1); if (threadIdx.x == 9) p[1 + b] = p[0]; }"""
    report, left = launched(WAITS[name], body, grid=5, schedule=schedule)
    assert report.inconclusive is None
    assert report.wrong == ()
    assert left[:5].tolist() == [7] * 5


@pytest.mark.parametrize("step", [1, -1])
def test_long_chains_of_blocks_end_in_little_time(step: int) -> None:
    body = f"""
        int from = b + {step};
        if (from >= 0 && from <= last) {{ wait(flag, from, 1); p[b] = p[from] + 1; }}
        tell(flag, b);"""
    report, left = launched(WAITS["a barrier in the loop"], body, grid=400, block=32)
    assert report.inconclusive is None
    expected = np.arange(400) if step == -1 else np.arange(400)[::-1]
    assert left[:400].tolist() == expected.tolist()
    assert report.statistics.lane_instructions < 400 * 32 * 20_000


@pytest.mark.parametrize("name", WAITS)
def test_blocks_that_wait_for_each_other_are_a_deadlock(name: str) -> None:
    planted = "{ wait(flag, 1 - b, 1); p[b] = 1; tell(flag, b); }"
    twin = """
        if (b == 0) { p[0] = 1; tell(flag, 0); wait(flag, 1, 1); }
        else { wait(flag, 0, 1); tell(flag, 1); }"""
    report, _ = launched(WAITS[name], planted, grid=2, limit_s=20)
    assert report.inconclusive is None
    (found,) = report.wrong
    assert found.kind is Kind.DEADLOCK
    assert {access.block for access in found.accesses} == {(0, 0, 0), (1, 0, 0)}
    assert "buffer 'flag' (offset 4)" in found.text
    assert "buffer 'flag' (offset 0)" in found.text
    assert "2 of 2 blocks wait, 0 have ended" in found.text
    assert launched(WAITS[name], twin, grid=2)[0].wrong == ()


def test_a_counter_that_stops_short_is_a_deadlock() -> None:
    body = "if (b) tell(flag, 3); else wait(flag, 3, COUNT);"
    wait = WAITS["a barrier in the loop"]
    report, _ = launched(wait, body.replace("COUNT", "gridDim.x"), grid=4, limit_s=20)
    (found,) = report.wrong
    assert found.kind is Kind.DEADLOCK
    assert "buffer 'flag' (offset 12) to change; 1 of 4 blocks wait, 3 have ended" in found.text
    assert launched(wait, body.replace("COUNT", "last"), grid=4)[0].wrong == ()


@pytest.mark.parametrize(
    ("now", "clocks"),
    [("clock64()", "300000ll"), ("clock64()", "90000000000ll"), ("clock()", "2000000000")],
)
def test_a_wait_that_gives_up_by_the_clock_is_no_deadlock(now: str, clocks: str) -> None:
    body = f"""
        auto start = {now};
        while (atomicAdd(flag, 0) == 0 && {now} - start < {clocks}) {{ __syncthreads(); }}
        p[threadIdx.x] = 1;"""
    report, left = launched("", body, grid=1, block=32)
    assert report.inconclusive is None
    assert report.wrong == ()
    assert left[:32].tolist() == [1] * 32


def test_threads_of_a_block_that_wait_through_shared_memory_get_on() -> None:
    """The turn goes round between two warps, and nothing outside of the block changes."""
    body = """
        __shared__ volatile int turn, sum;
        if (threadIdx.x == 0) { turn = 0; sum = 0; }
        __syncthreads();
        int me = threadIdx.x / 32;
        if (threadIdx.x % 32 == 0)
            for (int k = 0; k < 50; ++k) {
                while (turn != me) {}
                __threadfence_block();
                sum = sum + 1;
                __threadfence_block();
                turn = 1 - me;
            }
        __syncthreads();
        if (threadIdx.x == 0) p[0] = sum;"""
    report, left = launched("", body, grid=1)
    assert report.inconclusive is None
    assert Kind.DEADLOCK not in {one.kind for one in report.findings}
    assert left[0] == 100
