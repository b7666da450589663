"""Collectives of several ranks, each with what every rank does and what every rank shall get.

All of them are correct. Two calls follow each other without a barrier on the host, with other
numbers, so that memory is used again. Faults are edits of these: rank_faults.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan.ranks import Barrier, Call, Free, Multicast, Own, Pointers, Step, Symmetric, Table

Floats = NDArray[np.float32]
_FLAGS = r"""
typedef unsigned int u32;
__device__ __forceinline__ void put(u32 *flag, u32 value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ __forceinline__ u32 get(const u32 *flag) {
  u32 value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ bool is_before(u32 now, u32 wanted) { return (int)(now - wanted) < 0; }
// All ranks wait for the same block of every other one.
__device__ void meet(u32 *const *flags, int rank, int ranks, u32 epoch) {
  __syncthreads();
  if (threadIdx.x < ranks) {
    put(&flags[threadIdx.x][blockIdx.x * 8 + rank], epoch);
    while (is_before(get(&flags[rank][blockIdx.x * 8 + threadIdx.x]), epoch)) {}
  }
  __syncthreads();
}
"""
ONE_SHOT = (
    _FLAGS
    + r"""
extern "C" __global__ void one_shot(const float *in, float *out, float *const *data,
                                    u32 *const *flags, int rank, int ranks, int n, u32 epoch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[rank][i] = in[i];
  meet(flags, rank, ranks, 2 * epoch + 1);
  if (i < n) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += data[r][i];
    out[i] = sum;
  }
  meet(flags, rank, ranks, 2 * epoch + 2);
}
"""
)
# Volatile flags and fences, pointers in a struct by value.
FENCED = r"""
typedef unsigned int u32;
struct Floats { float *of[8]; };
struct Flags { u32 *of[8]; };
extern "C" __global__ void fenced(const float *in, float *out, Floats data, Flags flags, int rank,
                                  int ranks, int n, u32 epoch) {
  float *own = data.of[rank] + (epoch & 1) * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) own[i] = in[i];
  __threadfence_system();  // release
  __syncthreads();
  if (threadIdx.x < ranks) {
    *(volatile u32 *)&flags.of[threadIdx.x][rank] = epoch + 1;
    while ((int)(*(volatile u32 *)&flags.of[rank][threadIdx.x] - (epoch + 1)) < 0) {}
    __threadfence_system();  // acquire
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += data.of[r][(epoch & 1) * n + i];
    out[i] = sum;
  }
}
"""
TWO_SHOT = (
    _FLAGS
    + r"""
extern "C" __global__ void two_shot(const float *in, float *out, float *const *data,
                                    float *const *part, u32 *const *flags, int rank, int ranks,
                                    int n, u32 epoch) {
  int chunk = (n + ranks - 1) / ranks;
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[rank][i] = in[i];
  meet(flags, rank, ranks, 3 * epoch + 1);
  for (int i = threadIdx.x; i < chunk && rank * chunk + i < n; i += blockDim.x) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += data[r][rank * chunk + i];
    part[rank][i] = sum;
  }
  meet(flags, rank, ranks, 3 * epoch + 2);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = part[i / chunk][i % chunk];
  meet(flags, rank, ranks, 3 * epoch + 3);
}
"""
)
# Each rank writes its share into a slot of the others, which add the slots up.
REDUCE_SCATTER = (
    _FLAGS
    + r"""
extern "C" __global__ void reduce_scatter(const float *in, float *out, float *const *slots,
                                          u32 *const *flags, int rank, int ranks, int chunk,
                                          u32 epoch) {
  for (int r = 0; r < ranks; ++r)
    for (int i = threadIdx.x; i < chunk; i += blockDim.x)
      slots[r][rank * chunk + i] = in[r * chunk + i];
  meet(flags, rank, ranks, 2 * epoch + 1);
  for (int i = threadIdx.x; i < chunk; i += blockDim.x) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += slots[rank][r * chunk + i];
    out[i] = sum;
  }
  meet(flags, rank, ranks, 2 * epoch + 2);
}
"""
)
# Each rank adds its share to sums of the others, by atomics of the system.
ADDED = (
    _FLAGS
    + r"""
extern "C" __global__ void added(const float *in, float *out, float *const *sums,
                                 u32 *const *flags, int rank, int ranks, int chunk, u32 epoch) {
  for (int i = threadIdx.x; i < chunk; i += blockDim.x) sums[rank][i] = 0.f;
  meet(flags, rank, ranks, 3 * epoch + 1);
  for (int r = 0; r < ranks; ++r)
    for (int i = threadIdx.x; i < chunk; i += blockDim.x)
      atomicAdd_system(&sums[r][i], in[r * chunk + i]);
  meet(flags, rank, ranks, 3 * epoch + 2);
  for (int i = threadIdx.x; i < chunk; i += blockDim.x) out[i] = sums[rank][i];
}
"""
)
# A flag for each chunk; two buffers in turn, and nobody begins a call that others are two behind.
ALL_GATHER = (
    _FLAGS
    + r"""
extern "C" __global__ void all_gather(const float *in, float *out, float *const *data,
                                      u32 *const *flags, int rank, int ranks, int chunk,
                                      u32 epoch) {
  int half = (epoch & 1) * ranks * chunk;
  for (int r = 0; r < ranks; ++r)
    for (int i = threadIdx.x; i < chunk; i += blockDim.x)
      data[r][half + rank * chunk + i] = in[i];
  __syncthreads();
  if (threadIdx.x < ranks) put(&flags[threadIdx.x][rank], epoch + 1);
  for (int r = 0; r < ranks; ++r) {
    if (threadIdx.x == 0)
      while (is_before(get(&flags[rank][r]), epoch + 1)) {}
    __syncthreads();
    for (int i = threadIdx.x; i < chunk; i += blockDim.x)
      out[r * chunk + i] = data[rank][half + r * chunk + i];
  }
}
"""
)
# Uneven splits: rank r sends counts[r * ranks + d] numbers to rank d; one counter of arrivals.
ALL_TO_ALL = (
    _FLAGS
    + r"""
extern "C" __global__ void all_to_all(const float *in, float *out, float *const *inbox,
                                      u32 *const *flags, const int *counts, int rank, int ranks,
                                      u32 epoch) {
  int sent = 0;
  for (int d = 0; d < ranks; ++d) {
    int at = 0, count = counts[rank * ranks + d];
    for (int r = 0; r < rank; ++r) at += counts[r * ranks + d];
    for (int i = threadIdx.x; i < count; i += blockDim.x) inbox[d][at + i] = in[sent + i];
    sent += count;
    __syncthreads();
    if (threadIdx.x == 0)
      asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(flags[d] + 32) : "memory");
  }
  if (threadIdx.x == 0)
    while (is_before(get(flags[rank] + 32), (epoch + 1) * ranks)) {}
  __syncthreads();
  int total = 0;
  for (int r = 0; r < ranks; ++r) total += counts[r * ranks + rank];
  for (int i = threadIdx.x; i < total; i += blockDim.x) out[i] = inbox[rank][i];
  meet(flags, rank, ranks, epoch + 1);
}
"""
)
# A barrier in one word of rank 0: each rank counts in its own byte.
ONE_WORD = r"""
typedef unsigned int u32;
__device__ void meet(u32 *word, int rank, int ranks, u32 epoch) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    atomicAdd_system(word, 1u << (8 * rank));
    for (int r = 0; r < ranks; ++r)
      while ((signed char)((*(volatile u32 *)word >> (8 * r)) - epoch) < 0) {}
    __threadfence_system();
  }
  __syncthreads();
}
extern "C" __global__ void one_word(const float *in, float *out, float *const *data, u32 *word,
                                    int rank, int ranks, int n, u32 epoch) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[rank][i] = in[i];
  meet(word, rank, ranks, 2 * epoch + 1);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += data[r][i];
    out[i] = sum;
  }
  meet(word, rank, ranks, 2 * epoch + 2);
}
"""

# Signals are taken away by who waits for them, so that they need no epoch.
SIGNALS = r"""
typedef unsigned int u32;
__device__ void send(u32 *signal) {
  __threadfence_system();  // release
  while (atomicCAS_system(signal, 0u, 1u) != 0) {}
}
__device__ void take(u32 *signal) {
  while (atomicCAS_system(signal, 1u, 0u) != 1) {}
  __threadfence_system();  // acquire
}
extern "C" __global__ void signals(const float *in, float *out, float *const *data,
                                   u32 *const *flags, int rank, int ranks, int n, u32 epoch) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[rank][i] = in[i];
  __syncthreads();
  if (threadIdx.x < ranks) {
    send(&flags[threadIdx.x][rank]);
    take(&flags[rank][threadIdx.x]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += data[r][i];
    out[i] = sum;
  }
  __syncthreads();
  if (threadIdx.x < ranks) {
    send(&flags[threadIdx.x][8 + rank]);
    take(&flags[rank][8 + threadIdx.x]);
  }
}
"""
# Each rank hands a chunk to the next one, adds what it gets, and hands the sums around again.
RING = (
    _FLAGS
    + r"""
extern "C" __global__ void ring(const float *in, float *out, float *const *inbox,
                                u32 *const *flags, int rank, int ranks, int n, u32 epoch) {
  int chunk = n / ranks, steps = 2 * (ranks - 1), next = (rank + 1) % ranks;
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i];
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    bool adds = step < ranks - 1;
    int sent = (rank - step + (adds ? 0 : ranks) + 2 * ranks) % ranks;
    int got = (sent - 1 + ranks) % ranks;
    for (int i = threadIdx.x; i < chunk; i += blockDim.x)
      inbox[next][step * chunk + i] = out[sent * chunk + i];
    __syncthreads();
    if (threadIdx.x == 0) {
      put(flags[next], epoch * steps + step + 1);
      while (is_before(get(flags[rank]), epoch * steps + step + 1)) {}
    }
    __syncthreads();
    for (int i = threadIdx.x; i < chunk; i += blockDim.x) {
      float value = inbox[rank][step * chunk + i];
      out[got * chunk + i] = adds ? out[got * chunk + i] + value : value;
    }
    __syncthreads();
  }
}
"""
)
# Each rank sums its chunk over the memory of all ranks, and stores the sums into all of them.
MULTICAST = (
    _FLAGS
    + r"""
extern "C" __global__ void multicast(const float *in, float *out, float *const *data, float *all,
                                     u32 *const *flags, int rank, int ranks, int n, u32 epoch) {
  int chunk = (n + ranks - 1) / ranks;
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[rank][i] = in[i];
  meet(flags, rank, ranks, 2 * epoch + 1);
  for (int i = threadIdx.x; i < chunk && rank * chunk + i < n; i += blockDim.x) {
    float sum, *place = all + rank * chunk + i;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
                 : "=f"(sum) : "l"(place) : "memory");
    asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(place), "f"(sum) : "memory");
  }
  meet(flags, rank, ranks, 2 * epoch + 2);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = data[rank][i];
}
"""
)
# One instruction counts an arrival on all ranks.
COUNTED = r"""
typedef unsigned int u32;
__device__ void meet(u32 *own, u32 *all, u32 wanted) {
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("multimem.red.release.sys.global.add.u32 [%0], 1;" ::"l"(all) : "memory");
    u32 came;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(came) : "l"(own) : "memory");
    } while ((int)(came - wanted) < 0);
  }
  __syncthreads();
}
extern "C" __global__ void counted(const float *in, float *out, float *const *data, u32 *own,
                                   u32 *all, int rank, int ranks, int n, u32 epoch) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) data[rank][i] = in[i];
  meet(own, all, (2 * epoch + 1) * ranks);
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float sum = 0.f;
    for (int r = 0; r < ranks; ++r) sum += data[r][i];
    out[i] = sum;
  }
  meet(own, all, (2 * epoch + 2) * ranks);
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What each rank does, and pairs of what it gets and what it shall get."""

    steps: Sequence[Sequence[Step]]
    results: Sequence[tuple[Floats, Floats]]


def _numbers(ranks: int, calls: int, size: int) -> NDArray[np.float32]:
    """Return small whole numbers, so that sums are exact in any order: by rank, call, element."""
    return np.random.default_rng(0).integers(1, 9, (ranks, calls, size)).astype(np.float32)


def _zeros(name: str, ranks: int, size: int) -> Symmetric:
    return Symmetric(name, [np.zeros(size, np.float32) for _ in range(ranks)])


def _flags(ranks: int, size: int = 64) -> Symmetric:
    return Symmetric("flags", [np.zeros(size, np.uint32) for _ in range(ranks)])


def _outputs(ranks: int, calls: int, size: int) -> list[list[Floats]]:
    return [[np.zeros(size, np.float32) for _ in range(calls)] for _ in range(ranks)]


def all_reduce(kernel: str, ranks: int, *, calls: int = 2, n: int = 40, blocks: int = 1) -> Work:
    """Return the calls of one of the kernels of this name."""
    numbers, outputs = _numbers(ranks, calls, n), _outputs(ranks, calls, n)
    data, flags = _zeros("data", ranks, 2 * n), _flags(ranks)
    part, inbox = _zeros("part", ranks, n), _zeros("inbox", ranks, 4 * n)

    def call(rank: int, epoch: int) -> Call:
        args = {"in": numbers[rank, epoch].copy(), "out": outputs[rank][epoch]}
        last = {"rank": rank, "ranks": ranks, "n": n, "epoch": epoch}
        memory: dict[str, object]
        match kernel:
            case "fenced":
                memory = {"data": Pointers(data), "flags": Pointers(flags)}
            case "two_shot":
                memory = {"data": Table(data), "part": Table(part), "flags": Table(flags)}
            case "one_word":
                memory = {"data": Table(data), "word": Own(flags, 0)}
            case "multicast":
                memory = {"data": Table(data), "all": Multicast(data), "flags": Table(flags)}
            case "counted":
                own, each = Own(flags, rank), Multicast(flags)
                memory = {"data": Table(data), "own": own, "all": each}
            case "ring":
                memory = {"inbox": Table(inbox), "flags": Table(flags)}
            case _:
                memory = {"data": Table(data), "flags": Table(flags)}
        return Call(kernel, blocks, 64 if blocks == 1 else 32, args | memory | last)

    steps = [[call(rank, epoch) for epoch in range(calls)] for rank in range(ranks)]
    sums = numbers.sum(0)
    results = [(outputs[r][c], sums[c]) for r in range(ranks) for c in range(calls)]
    return Work(steps=steps, results=results)


def one_shot(ranks: int) -> Work:
    """Return calls of one_shot, of two blocks."""
    return all_reduce("one_shot", ranks, blocks=2)


def fenced(ranks: int) -> Work:
    """Return three calls of fenced, so that a buffer is used twice."""
    return all_reduce("fenced", ranks, calls=3)


def two_shot(ranks: int) -> Work:
    """Return calls of two_shot; the last rank's chunk is shorter."""
    return all_reduce("two_shot", ranks, n=41)


def signals(ranks: int) -> Work:
    """Return calls of signals."""
    return all_reduce("signals", ranks)


def ring(ranks: int) -> Work:
    """Return calls of ring."""
    return all_reduce("ring", ranks, n=42)


def one_word(ranks: int) -> Work:
    """Return calls of one_word."""
    return all_reduce("one_word", ranks)


def multicast(ranks: int) -> Work:
    """Return calls of multicast; the last rank's chunk is shorter."""
    return all_reduce("multicast", ranks, n=41)


def counted(ranks: int) -> Work:
    """Return calls of counted."""
    return all_reduce("counted", ranks)


def freed(ranks: int) -> Work:
    """Return one call of one_shot, behind which each rank frees its buffer."""
    work = all_reduce("one_shot", ranks, calls=1)
    first = work.steps[0][0]
    assert isinstance(first, Call)
    table = first.args["data"]
    assert isinstance(table, Table)
    return Work(steps=[[*each, Free(table.memory)] for each in work.steps], results=work.results)


def scattered(kernel: str, ranks: int, *, calls: int = 2, chunk: int = 33) -> Work:
    """Return the calls of reduce_scatter or added."""
    numbers = _numbers(ranks, calls, ranks * chunk)
    outputs, flags = _outputs(ranks, calls, chunk), _flags(ranks)
    slots = _zeros("slots", ranks, ranks * chunk)

    def call(rank: int, epoch: int) -> Call:
        args = {
            "in": numbers[rank, epoch].copy(), "out": outputs[rank][epoch], "slots": Table(slots),
            "flags": Table(flags), "rank": rank, "ranks": ranks, "chunk": chunk, "epoch": epoch,
        }  # fmt: skip
        return Call(kernel, 1, 64, args)

    steps = [[call(rank, epoch) for epoch in range(calls)] for rank in range(ranks)]
    sums = numbers.sum(0).reshape(calls, ranks, chunk)
    results = [(outputs[r][c], sums[c, r]) for r in range(ranks) for c in range(calls)]
    return Work(steps=steps, results=results)


def reduce_scatter(ranks: int) -> Work:
    """Return calls of reduce_scatter."""
    return scattered("reduce_scatter", ranks)


def added(ranks: int) -> Work:
    """Return calls of added."""
    return scattered("added", ranks)


def all_gather(ranks: int, *, calls: int = 3, chunk: int = 33) -> Work:
    """Return three calls of all_gather, so that a buffer is used twice."""
    numbers, flags = _numbers(ranks, calls, chunk), _flags(ranks)
    outputs = _outputs(ranks, calls, ranks * chunk)
    data = _zeros("data", ranks, 2 * ranks * chunk)

    def call(rank: int, epoch: int) -> Call:
        args = {
            "in": numbers[rank, epoch].copy(), "out": outputs[rank][epoch], "data": Table(data),
            "flags": Table(flags), "rank": rank, "ranks": ranks, "chunk": chunk, "epoch": epoch,
        }  # fmt: skip
        return Call("all_gather", 1, 64, args)

    steps = [[call(rank, epoch) for epoch in range(calls)] for rank in range(ranks)]
    wholes = [numbers[:, epoch].reshape(-1) for epoch in range(calls)]
    results = [(outputs[r][c], wholes[c]) for r in range(ranks) for c in range(calls)]
    return Work(steps=steps, results=results)


def all_to_all(ranks: int, *, calls: int = 2) -> Work:
    """Return calls of all_to_all with uneven splits, one of them empty."""
    counts = np.array(
        [[(7 * r + 5 * d + 4) % 11 for d in range(ranks)] for r in range(ranks)], np.int32
    )
    size = int(counts.sum())
    numbers, outputs = _numbers(ranks, calls, size), _outputs(ranks, calls, size)
    inbox, flags = _zeros("inbox", ranks, size), _flags(ranks)

    def call(rank: int, epoch: int) -> Call:
        args = {
            "in": numbers[rank, epoch].copy(), "out": outputs[rank][epoch], "inbox": Table(inbox),
            "flags": Table(flags), "counts": counts.reshape(-1).copy(), "rank": rank,
            "ranks": ranks, "epoch": epoch,
        }  # fmt: skip
        return Call("all_to_all", 1, 64, args)

    steps = [[call(rank, epoch) for epoch in range(calls)] for rank in range(ranks)]
    results = []
    for epoch in range(calls):
        for rank in range(ranks):
            pieces = []
            for other in range(ranks):
                start = int(counts[other, :rank].sum())
                pieces.append(numbers[other, epoch, start : start + counts[other, rank]])
            whole = np.zeros(size, np.float32)
            whole[: int(counts[:, rank].sum())] = np.concatenate(pieces)
            results.append((outputs[rank][epoch], whole))
    return Work(steps=steps, results=results)


def with_barriers(work: Work) -> Work:
    """Return the same work with a barrier of the host behind every call."""
    steps = [[each for one in own for each in (one, Barrier())] for own in work.steps]
    return Work(steps=steps, results=work.results)


TWINS: dict[str, tuple[str, Callable[[int], Work]]] = {
    "one_shot": (ONE_SHOT, one_shot), "fenced": (FENCED, fenced), "two_shot": (TWO_SHOT, two_shot),
    "reduce_scatter": (REDUCE_SCATTER, reduce_scatter), "added": (ADDED, added),
    "all_gather": (ALL_GATHER, all_gather), "all_to_all": (ALL_TO_ALL, all_to_all),
    "one_word": (ONE_WORD, one_word), "freed": (ONE_SHOT, freed),
    "signals": (SIGNALS, signals), "ring": (RING, ring),
    "multicast": (MULTICAST, multicast), "counted": (COUNTED, counted),
}  # fmt: skip
