"""What nothing orders: strong accesses, missing acquires, and the order that a schedule chose.

Each planted fault stands beside a correct twin, which differs in what orders the accesses alone.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.api import Report, check
from ptxsan.findings import Kind, MachineReport, Severity
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.nvrtc import available, compile_ptx
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import buffer_of, execute, kernel

needs_nvrtc = pytest.mark.skipif(not available(), reason="NVRTC is not installed")
ORDER = frozenset((Kind.RACE, Kind.UNORDERED, Kind.ACQUIRE_FENCE))


def launched(
    source: str, *, grid: int = 2, block: int = 1, schedule: str = "forward", words: int = 64
) -> MachineReport:
    """Run `k(int* p, int* flag)` over zeros."""
    memory = [np.zeros(4 * words, np.uint8) for _ in range(2)]
    launch = Launch(
        kernel="k",
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        arguments=tuple(
            Pointer(buffer=Buffer(name=name, data=data))
            for name, data in zip(("p", "flag"), memory, strict=True)
        ),
    )
    text = compile_ptx('extern "C" __global__ void k(int* p, int* flag) ' + source, arch="sm_80")
    options = Options(schedule=schedule, shadow=False, optimise=False)
    return run(parse(text), launch, options=options)


def said(report: MachineReport) -> set[tuple[Kind, Severity]]:
    """Return what a report says of the order of accesses."""
    assert report.inconclusive is None
    return {(one.kind, one.severity) for one in report.findings if one.kind in ORDER}


UNORDERED = {(Kind.UNORDERED, Severity.NOTE)}
UNFENCED = {(Kind.ACQUIRE_FENCE, Severity.NOTE)}
RACE = {(Kind.RACE, Severity.WRONG)}


@needs_nvrtc
@pytest.mark.parametrize(
    ("planted", "twin", "grid", "block"),
    [
        pytest.param(
            "{ volatile int* v = p; v[0] += 1; }", "{ atomicAdd(p, 1); }", 1, 64, id="increment"
        ),
        pytest.param(
            "{ volatile int* v = p; v[0] += 1; }", "{ atomicAdd(p, 1); }", 64, 1, id="of-blocks"
        ),
        pytest.param(
            """{ __shared__ volatile int s[64]; int t = threadIdx.x; s[t] = p[t]; __syncthreads();
                 if (t < 32) { s[t] += s[t + 32]; s[t] += s[t + 16]; }
                 __syncthreads(); if (t == 0) flag[0] = s[0]; }""",
            """{ __shared__ volatile int s[64]; int t = threadIdx.x; s[t] = p[t]; __syncthreads();
                 if (t < 32) { int a = s[t] + s[t + 32]; __syncwarp(); s[t] = a; __syncwarp();
                               a += s[t + 16]; __syncwarp(); s[t] = a; }
                 __syncthreads(); if (t == 0) flag[0] = s[0]; }""",
            1, 64, id="warp-synchronous",
        ),
        pytest.param(
            "{ volatile int* v = p; if (blockIdx.x == 0) atomicExch(p, 7); else v[0] = 9; }",
            "{ if (blockIdx.x == 0) atomicExch(p, 7); else atomicExch(p, 9); }",
            2, 1, id="exchange-and-store",
        ),
        pytest.param(
            "{ *(volatile int*)p = threadIdx.x; }", "{ *(volatile int*)p = 1; }", 1, 64, id="done"
        ),
        pytest.param(
            """{ volatile int* v = p; while (atomicCAS(flag, 0, 1) != 0) {} __threadfence();
                 v[0] += 1; *(volatile int*)flag = 0; }""",
            """{ volatile int* v = p; while (atomicCAS(flag, 0, 1) != 0) {} __threadfence();
                 v[0] += 1; __threadfence(); *(volatile int*)flag = 0; }""",
            4, 1, id="lock-without-release",
        ),
        pytest.param(
            """{ volatile int* v = p; int turn = atomicAdd(flag, 1);
                 while (*(volatile int*)(flag + 1) != turn) {}
                 v[0] += 1; __threadfence();
                 *(volatile int*)(flag + 1) = turn + 1; v[1] = turn; }""",
            """{ volatile int* v = p; int turn = atomicAdd(flag, 1);
                 while (*(volatile int*)(flag + 1) != turn) {}
                 __threadfence(); v[0] += 1; v[1] = turn; __threadfence();
                 *(volatile int*)(flag + 1) = turn + 1; }""",
            4, 1, id="ticket-lock",
        ),
    ],
)  # fmt: skip
def test_strong_accesses_that_nothing_orders_are_a_note(
    planted: str, twin: str, grid: int, block: int
) -> None:
    assert said(launched(planted, grid=grid, block=block)) >= UNORDERED
    assert (Kind.RACE, Severity.WRONG) not in said(launched(planted, grid=grid, block=block))
    assert said(launched(twin, grid=grid, block=block)) == set()


@needs_nvrtc
def test_a_weak_side_makes_it_a_race() -> None:
    planted = "{ if (blockIdx.x == 0) *(volatile int*)p = 1; else p[1] = p[0]; }"
    twin = "{ if (blockIdx.x == 0) *(volatile int*)p = 1; else p[1] = p[2]; }"
    assert said(launched(planted)) == RACE
    assert said(launched(twin)) == set()


_HANDS_OVER = """{
    if (blockIdx.x * blockDim.x + threadIdx.x == 0) {
        p[0] = 7; __threadfence(); atomicExch(flag, 1);
    } else { while (atomicAdd(flag, 0) == 0) {} FENCE p[1] = p[0]; } }"""


@needs_nvrtc
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
@pytest.mark.parametrize(
    ("fence", "grid", "block", "expected"),
    [
        ("", 2, 1, UNFENCED),
        ("", 1, 2, UNFENCED),
        ("__threadfence();", 2, 1, set()),
        ("__threadfence();", 1, 2, set()),
        ("__threadfence_block();", 2, 1, UNFENCED),
        ("__threadfence_block();", 1, 2, set()),
    ],
)
def test_a_read_without_a_fence_behind_it_acquires_nothing(
    fence: str, grid: int, block: int, expected: set[tuple[Kind, Severity]], schedule: str
) -> None:
    source = _HANDS_OVER.replace("FENCE", fence)
    assert said(launched(source, grid=grid, block=block, schedule=schedule)) == expected


@needs_nvrtc
def test_a_barrier_hands_on_what_a_fenced_read_saw_and_no_more() -> None:
    source = """{ if (blockIdx.x == 0) {
        p[threadIdx.x] = 7; __threadfence(); __syncthreads();
        if (threadIdx.x == 0) atomicExch(flag, 1);
    } else {
        if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) {} FENCE }
        __syncthreads(); p[32 + threadIdx.x] = p[threadIdx.x]; } }"""
    assert said(launched(source.replace("FENCE", ""), block=32)) == UNFENCED
    assert said(launched(source.replace("FENCE", "__threadfence();"), block=32)) == set()


@needs_nvrtc
@pytest.mark.parametrize(("grid", "block"), [(1, 64), (2, 32), (64, 1)])
def test_a_plain_look_at_what_atomics_update_is_a_race_at_every_block_size(
    grid: int, block: int
) -> None:
    guarded = """{ int v = 1 + threadIdx.x + blockIdx.x * blockDim.x;
                   if (p[0] < v) atomicMax(p, v); }"""
    twin = guarded.replace("p[0] < v", "atomicAdd(p, 0) < v")
    assert said(launched(guarded, grid=grid, block=block)) == RACE
    assert said(launched(twin, grid=grid, block=block)) == set()


def test_a_load_that_every_thread_repeats_before_one_of_them_updates_is_a_note() -> None:
    """As Triton compiles a scalar load and an exchange of it."""
    body = """
        ld.global.u32 %r2, [%rd1];
        setp.eq.s32 %p1, %r1, 0;
        setp.ne.s32 %p2, %r2, 0;
        @%p2 bra END;
        @%p1 atom.global.acq_rel.gpu.exch.b32 %r3, [%rd1], 1;
        END:"""
    report = execute(
        kernel(body), buffer_of(np.zeros(8, np.int32)), buffer_of(np.zeros(8, np.int32))
    )
    assert said(report) == {(Kind.RACE, Severity.NOTE)}
    apart = body.replace("@%p1 atom", "atom")
    report = execute(
        kernel(apart), buffer_of(np.zeros(8, np.int32)), buffer_of(np.zeros(8, np.int32))
    )
    assert said(report) == RACE


@needs_nvrtc
def test_a_read_after_ones_own_atomic_does_not_hide_the_atomic() -> None:
    planted = """{ if (threadIdx.x == 0) for (int i = 0; i < 2; i++)
                     if (p[0] < 5 - i - (int)blockIdx.x * 3) atomicMax(p, 5 - i); }"""
    twin = planted.replace("p[0] <", "atomicAdd(p, 0) <")
    for schedule in ("forward", "reverse"):
        assert said(launched(planted, block=32, schedule=schedule)) == RACE
        assert said(launched(twin, block=32, schedule=schedule)) == set()


_LOCKED = """{
    while (atomicCAS(flag, 0, 1) != 0) {}
    __threadfence();
    if (blockIdx.x == WHO) { INSIDE } else { p[1] = p[0]; }
    __threadfence();
    atomicExch(flag, 0);
    if (blockIdx.x == WHO) { OUTSIDE } }"""


@needs_nvrtc
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
@pytest.mark.parametrize("who", ["0", "1"])
def test_the_order_in_which_a_lock_is_taken_hides_no_race(who: str, schedule: str) -> None:
    planted = _LOCKED.replace("INSIDE", "").replace("OUTSIDE", "p[0] = 3;").replace("WHO", who)
    twin = _LOCKED.replace("INSIDE", "p[0] = 3;").replace("OUTSIDE", "").replace("WHO", who)
    assert said(launched(planted, schedule=schedule)) == RACE
    assert said(launched(twin, schedule=schedule)) == set()


@needs_nvrtc
def test_a_second_run_leaves_memory_as_the_first_one_did() -> None:
    source = (
        "{ while (atomicCAS(flag, 0, 1) != 0) {} __threadfence(); p[0] = 2 * p[0] + 1 + blockIdx.x;"
    )
    source += " __threadfence(); atomicExch(flag, 0); }"
    memory = {name: np.zeros(256, np.uint8) for name in ("p", "flag")}
    launch = Launch(
        kernel="k", grid=(3, 1, 1), block=(1, 1, 1),
        arguments=tuple(Pointer(buffer=Buffer(name=n, data=d)) for n, d in memory.items()),
    )  # fmt: skip
    text = compile_ptx('extern "C" __global__ void k(int* p, int* flag) ' + source, arch="sm_80")
    report = run(parse(text), launch, options=Options(shadow=False, optimise=False))
    assert said(report) == set()
    assert memory["p"].view(np.int32)[0] == 2 * (2 * 1 + 2) + 3


@needs_nvrtc
def test_an_exchange_that_nobody_reads_may_begin_on_unwritten_memory() -> None:
    def report_of(source: str) -> MachineReport:
        data = np.zeros(64, np.uint8)
        fresh = Buffer(name="p", data=data, initialised=np.zeros(64, np.bool_))
        other = Buffer(name="flag", data=np.zeros(64, np.uint8))
        launch = Launch(
            kernel="k", grid=(1, 1, 1), block=(1, 1, 1),
            arguments=(Pointer(buffer=fresh), Pointer(buffer=other)),
        )  # fmt: skip
        text = compile_ptx(
            'extern "C" __global__ void k(int* p, int* flag) ' + source, arch="sm_80"
        )
        return run(parse(text), launch, options=Options(shadow=False, optimise=False))

    assert [one.kind for one in report_of("{ atomicAdd(p, 1); }").wrong] == [Kind.UNINITIALISED]
    assert report_of("{ flag[0] = atomicExch(p, 1); }").wrong
    assert report_of("{ atomicExch(p, 1); flag[0] = p[0]; }").findings == ()


_MANY = r"""
extern "C" __global__ void relay(float *x, unsigned *flags, unsigned *done, float *out, int many) {
  if (blockIdx.x < many) {
    if (threadIdx.x == 0) {
      x[blockIdx.x] = 1.f;
      __threadfence();
      *(volatile unsigned *)&flags[blockIdx.x] = 1;
    }
  } else if (blockIdx.x == many) {
    if (threadIdx.x < many) {
      while (*(volatile unsigned *)&flags[threadIdx.x] == 0) {}
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      *(volatile unsigned *)done = 1;
    }
  } else {
    if (threadIdx.x == 0) {
      while (*(volatile unsigned *)done == 0) {}
      __threadfence();
    }
    __syncthreads();
    if (threadIdx.x < many) out[threadIdx.x] = x[threadIdx.x];
  }
}
"""


@needs_nvrtc
@pytest.mark.parametrize(("many", "lenient"), [(20, False), (50, True)])
def test_who_learnt_from_more_blocks_than_a_release_has_room_for_raises_no_alarm(
    many: int, lenient: bool
) -> None:
    def report_of(source: str) -> Report:
        args = {
            "x": np.zeros(64, np.float32), "flags": np.zeros(64, np.uint32),
            "done": np.zeros(1, np.uint32), "out": np.zeros(64, np.float32), "many": many,
        }  # fmt: skip
        return check(source, "relay", grid=many + 2, block=64, args=args)

    report = report_of(_MANY)
    assert report.ok, report.text
    assert any("release and acquire more" in one for one in report.reports[0].left_out) is lenient
    unfenced = _MANY.replace("x[blockIdx.x] = 1.f;\n      __threadfence();", "x[blockIdx.x] = 1.f;")
    assert not report_of(unfenced).ok
