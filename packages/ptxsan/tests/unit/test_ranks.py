"""Kernels that span devices: faults and twins at two and three ranks, and what orders devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptxsan import ranks
from ptxsan.errors import LaunchError, MachineError, UsageError
from ptxsan.findings import Kind, Severity
from ptxsan_corpus.rank_faults import FAULTS, Fault, Pattern
from ptxsan_corpus.rank_kernels import TWINS, Work, with_barriers

_FIRST_OF_PATTERN = [next(one for one in FAULTS if one.pattern is each) for each in Pattern]


def _run(source: str, work: Work, *, peers: bool = True) -> tuple[ranks.Report, list[ranks.Order]]:
    """Return the report, and the orders after which a rank has a wrong result."""
    wrong: list[ranks.Order] = []

    def after(order: ranks.Order) -> None:
        if not all(np.array_equal(got, wanted) for got, wanted in work.results):
            wrong.append(order)

    return ranks.check(source, work.steps, strict_order=True, after=after, peers=peers), wrong


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", TWINS)
def test_correct_collectives_are_clean_and_right_in_every_order(name: str, count: int) -> None:
    source, work = TWINS[name]
    report, wrong = _run(source, work(count))
    assert report.ok, report.text
    assert report.findings == ()
    assert not wrong


@pytest.mark.parametrize(
    ("fault", "count"),
    [*((one, 2) for one in FAULTS), *((one, 3) for one in _FIRST_OF_PATTERN)],
    ids=lambda one: one.name if isinstance(one, Fault) else str(one),
)
def test_planted_faults_are_found(fault: Fault, count: int) -> None:
    source, work = TWINS[fault.twin]
    assert fault.old in source
    report, _ = _run(source.replace(fault.old, fault.new), work(count))
    assert {one.kind for one in report.wrong} & fault.kinds, report.text
    assert all(access.device is not None for one in report.wrong for access in one.accesses)


def test_each_pattern_has_a_fault() -> None:
    assert {one.pattern for one in FAULTS} == set(Pattern)
    assert len({one.name for one in FAULTS}) == len(FAULTS) >= 24


def test_both_lines_of_a_race_and_their_devices_are_named() -> None:
    source, work = TWINS["one_shot"]
    report, _ = _run(source.replace("st.release.sys", "st.relaxed.sys"), work(2))
    race = report.wrong[0]
    assert race.kind is Kind.RACE
    assert {access.device for access in race.accesses} == {0, 1}
    lines = source.splitlines()
    said = {lines[(access.source_line or 0) - 1].strip() for access in race.accesses}
    assert said == {
        "if (i < n) data[rank][i] = in[i];",
        "for (int r = 0; r < ranks; ++r) sum += data[r][i];",
    }
    assert "on device 1 (launch 1, one_shot)" in report.text


def test_a_deadlock_says_who_waits_for_whom() -> None:
    source, work = TWINS["one_shot"]
    absent = source.replace("  meet(", "  if (rank == 1) return;\n  meet(", 1)
    report, _ = _run(absent, work(2))
    found = next(one for one in report.wrong if one.kind is Kind.DEADLOCK)
    assert "on device 0" in found.text
    assert "buffer 'flags of rank 0'" in found.text
    assert "all launches of device 1 have ended" in found.text


def test_a_barrier_on_the_host_orders_ranks() -> None:
    source, work = TWINS["reduce_scatter"]
    without = source.replace("  meet(flags, rank, ranks, 2 * epoch + 2);\n", "")
    assert not _run(without, work(2))[0].ok
    report, wrong = _run(without, with_barriers(work(2)))
    assert report.ok, report.text
    assert not wrong


def test_memory_of_another_rank_needs_peer_access() -> None:
    source, work = TWINS["one_shot"]
    report, _ = _run(source, work(2), peers=False)
    found = [one for one in report.wrong if one.kind is Kind.PEER_ACCESS]
    assert found
    assert "cudaDeviceEnablePeerAccess" in found[0].text
    assert "Access to memory of another device without peer access" in report.text


_NEIGHBOURS = r"""
typedef unsigned int u32;
__device__ void put(u32 *flag, u32 value) {
  asm volatile("st.release.SCOPE.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ u32 get(const u32 *flag) {
  u32 value;
  asm volatile("ld.acquire.SCOPE.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ void put_far(u32 *flag, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ u32 get_far(const u32 *flag) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
// Block 1 writes, block 0 tells the other device, and there block 0 tells block 1, which reads.
extern "C" __global__ void relay(float *const *data, u32 *const *flags, float *out, int rank) {
  u32 *own = flags[rank], *other = flags[1 - rank];
  if (blockIdx.x == 1) data[rank][threadIdx.x] = rank + 1.f;
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 1) put(own, 1);
  if (threadIdx.x == 0 && blockIdx.x == 0) {
    while (get(own) == 0) {}
    put_far(other + 1, 1);
    while (get_far(own + 1) == 0) {}
    put(own + 2, 1);
  }
  if (threadIdx.x == 0 && blockIdx.x == 1)
    while (get(own + 2) == 0) {}
  __syncthreads();
  if (blockIdx.x == 1) out[threadIdx.x] = data[1 - rank][threadIdx.x];
}
"""


def _relay() -> Work:
    data = ranks.Symmetric("data", [np.zeros(32, np.float32) for _ in range(2)])
    flags = ranks.Symmetric("flags", [np.zeros(4, np.uint32) for _ in range(2)])
    out = [np.zeros(32, np.float32) for _ in range(2)]
    steps = [
        [ranks.Call("relay", 2, 32, {
            "data": ranks.Table(data), "flags": ranks.Table(flags), "out": out[rank], "rank": rank,
        })]
        for rank in range(2)
    ]  # fmt: skip
    wanted = [np.full(32, 2 - rank, np.float32) for rank in range(2)]
    return Work(steps=steps, results=[*zip(out, wanted, strict=True)])


def test_what_one_block_learnt_of_another_device_reaches_the_blocks_of_its_own() -> None:
    report, wrong = _run(_NEIGHBOURS.replace("SCOPE", "gpu"), _relay())
    assert report.ok, report.text
    assert not wrong


def test_a_block_that_tells_its_own_device_at_the_scope_of_a_block_tells_nobody() -> None:
    report, _ = _run(_NEIGHBOURS.replace("SCOPE", "cta"), _relay())
    assert Kind.RACE in {one.kind for one in report.wrong}


_BEHIND = r"""
typedef unsigned int u32;
extern "C" __global__ void fill(float *data, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = i;
}
extern "C" __global__ void take(float *const *data, u32 *const *flags, float *out, int rank,
                                int n) {
  WRITES
  if (threadIdx.x == 0) {
    asm volatile("st.PUT.sys.global.u32 [%0], %1;" ::"l"(flags[1 - rank]), "r"(1) : "memory");
    u32 seen = 0;
    while (!seen)
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(flags[rank])
                   : "memory");
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = data[1 - rank][i];
}
"""


@pytest.mark.parametrize(
    ("put", "writes", "ok"),
    [
        ("relaxed", "", True),  # the launch before has ended, and with it what it wrote
        ("relaxed", "if (threadIdx.x == 0) data[rank][0] = 0.f;", False),
        ("release", "if (threadIdx.x == 0) data[rank][0] = 0.f;", True),
    ],
)
def test_launches_before_are_published_whatever_the_flag_releases(
    put: str, writes: str, ok: bool
) -> None:
    data = ranks.Symmetric("data", [np.zeros(70, np.float32) for _ in range(2)])
    flags = ranks.Symmetric("flags", [np.zeros(1, np.uint32) for _ in range(2)])
    out = [np.zeros(70, np.float32) for _ in range(2)]
    steps = [
        [
            ranks.Call("fill", 1, 96, {"data": ranks.Own(data, rank), "n": 70}),
            ranks.Call("take", 1, 32, {
                "data": ranks.Table(data), "flags": ranks.Table(flags), "out": out[rank],
                "rank": rank, "n": 70,
            }),
        ]
        for rank in range(2)
    ]  # fmt: skip
    source = _BEHIND.replace("PUT", put).replace("WRITES", writes)
    wanted = np.arange(70, dtype=np.float32)
    report, wrong = _run(source, Work(steps=steps, results=[(one, wanted) for one in out]))
    assert report.ok is ok, report.text
    assert not wrong
    assert report.kernel == "fill and take"


def test_orders_of_two_and_three_devices() -> None:
    assert len(ranks.orders((0, 1))) == 5
    three = ranks.orders((0, 1, 2))
    assert len(three) == 13
    assert {one.late for one in three} == {(0,), (1,), (2,), (1, 2), (0, 2), (0, 1), ()}


def test_memory_stays_as_the_first_order_leaves_it() -> None:
    source, work = TWINS["one_shot"]
    made = work(2)
    _run(source, made)
    assert all(np.array_equal(got, wanted) for got, wanted in made.results)


def test_missing_order_of_strong_accesses_is_a_note_but_a_missing_fence_is_wrong() -> None:
    source, work = TWINS["one_shot"]
    relaxed = source.replace("ld.acquire.sys", "ld.relaxed.sys")
    report = ranks.check(relaxed, work(2).steps)
    assert [one.kind for one in report.wrong] == [Kind.ACQUIRE_FENCE] * 2
    assert "__threadfence_system()" in report.wrong[0].text
    assert all(one.severity is Severity.WRONG for one in report.findings)


_CLUSTER = """
extern "C" __global__ void __cluster_dims__(2) k(float *x) { x[blockIdx.x] = 1.f; }
"""


_OWN = """
__device__ int calls;
__constant__ float known = 2.f;
extern "C" __global__ void counts(float *x) { x[0] = ++calls; }
extern "C" __global__ void keeps(float *x) { x[0] = *(float *)malloc(4); }
extern "C" __global__ void knows(float *x) { x[threadIdx.x] = known; printf("%d", threadIdx.x); }
"""


def test_memory_that_each_device_has_for_itself_is_refused() -> None:
    one = np.zeros(4, np.float32)
    with pytest.raises(MachineError, match="uses the variable 'calls'"):
        ranks.check(_OWN, [[ranks.Call("counts", 1, 1, {"x": one})]])
    with pytest.raises(MachineError, match="calls malloc or free"):
        ranks.check(_OWN, [[ranks.Call("keeps", 1, 1, {"x": one})]])
    report = ranks.check(_OWN, [[ranks.Call("knows", 1, 2, {"x": one})]])
    assert report.ok, report.text
    assert one.tolist() == [2, 2, 0, 0]


def test_what_cannot_run_at_once_is_refused() -> None:
    one = np.zeros(4, np.float32)
    with pytest.raises(MachineError, match="has clusters"):
        ranks.check(_CLUSTER, [[ranks.Call("k", 2, 1, {"x": one})]] * 2, arch="sm_90")
    source, work = TWINS["one_shot"]
    steps = work(2).steps
    with pytest.raises(UsageError, match="different numbers of Barrier"):
        ranks.check(source, [[*steps[0], ranks.Barrier()], steps[1]])
    with pytest.raises(UsageError, match="takes 8 arguments, 0 are given on rank 0"):
        ranks.check(source, [[ranks.Call("one_shot", 1, 32, {})]])
    with pytest.raises(UsageError, match="has 2 arrays for 3 ranks"):
        ranks.check(source, [*steps, steps[0]])
    call = steps[0][0]
    assert isinstance(call, ranks.Call)
    with pytest.raises(LaunchError, match=r"a block of \(2048, 1, 1\)"):
        ranks.check(source, [[replace(call, block=2048)], [call]])
