"""How much one plan may cost: cases a purpose, elements a case, by profile and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cuassay.model.device import Device
from cuassay.model.verdict import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Seconds that a run of a reference in float64 takes at about, by what it computes.

    Of an operation of torch, of an element that one reads or writes, and of a multiply-add. Plans
    count with these and never with a clock: what is judged must not depend on how busy a machine
    is.
    """

    operation_s: float
    element_s: float
    multiply_add_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimit:
    """How much a trial computes at most, in seconds by a `Pace`, so that every trial has an end.

    `case_s` is the most that truth of a case of our own sizes takes, `workload_s` of the problem's,
    `check_s` what all scenarios of a check take, or what the judge tries while it plans one.
    `machine` bounds the elements and multiply-adds of one call at sizes of ours: on a CPU the
    candidate's kernels are executed instruction by instruction. Cases of at most `free_elements` in
    inputs and outputs are within that.
    """

    pace: Pace
    case_s: float
    workload_s: float
    check_s: float
    machine: int | None = None
    free_elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Numbers of cases, and the most elements of inputs and outputs that one case may have.

    `growth_large_fills` is growth_fills where constant axes make every growth case larger than
    four times `hot_elements`. `hot_length` is the wished length of the hot axis and
    `growth_lengths` the lengths that a growth test tries: both end at the axis's maximum.
    `small_work` is the most that the axes of a small case may multiply to: attention's scores
    and gathered pages are no elements of inputs or outputs. `named_cases` lie beside one number of
    the candidate's sources, `pair_cases` beside two at once, `written_cases` at others that they
    hold. `end_cases` lie at ends of domains.
    `listed_axes` cases have one axis at its listed size where a whole listed call has no room.
    `work` bounds what calls compute.
    """

    work: WorkLimit
    numeric_cases: int
    numeric_workloads: int
    numeric_elements: int
    hot_cases: int
    hot_length: int
    hot_elements: int
    growth_lengths: tuple[int, ...]
    growth_fills: int
    growth_large_fills: int
    growth_axes: int
    shape_cases: int
    shape_elements: int
    benchmark_cases: int
    benchmark_elements: int
    named_cases: int
    named_elements: int
    named_large: int
    pair_cases: int
    written_cases: int
    listed_axes: int
    listed_elements: int
    recorded_cases: int
    small_elements: int
    end_cases: int
    small_work: int


# One core of a CPU; an H100 or H200, where Python's dispatch of an operation takes as long.
_CPU_PACE = Pace(operation_s=2e-4, element_s=2e-8, multiply_add_s=1e-9)
_CUDA_PACE = Pace(operation_s=2e-4, element_s=5e-11, multiply_add_s=1e-13)
# What each quantity is at quick, standard and deep, on a CPU and on a GPU. On a CPU Triton's
# interpreter takes some 5 ms a program, so lengths stay in the thousands, and the PTX machine
# executes some 10 million multiply-adds of a plain loop a second, a core some ten billion of a
# product in float64.
_Columns = tuple[Any, Any, Any]
_WORK: Mapping[str, tuple[_Columns, _Columns]] = {
    "case_s": ((8.0, 32.0, 128.0), (4.0, 16.0, 64.0)),
    "workload_s": ((16.0, 64.0, 256.0), (4.0, 16.0, 64.0)),
    "check_s": ((16.0, 80.0, 800.0), (24.0, 80.0, 800.0)),
    "machine": ((2**24, 2**27, 2**29), (None, None, None)),
    "free_elements": ((2**18, 2**19, 2**20), (0, 0, 0)),
}
_CASES: Mapping[str, tuple[_Columns, _Columns]] = {
    "numeric_cases": ((4, 13, 40), (4, 13, 40)),
    "numeric_workloads": ((2, 3, 4), (2, 3, 8)),
    "numeric_elements": ((2**18, 2**19, 2**20), (2**29, 2**29, 2**30)),
    "hot_cases": ((3, 6, 16), (3, 6, 16)),
    "hot_length": ((1024, 2048, 4096), (32768, 65536, 131072)),
    "hot_elements": ((2**18, 2**19, 2**20), (2**25, 2**26, 2**27)),
    "growth_lengths": (
        ((128, 512, 2048), (128, 512, 1024, 4096), (128, 512, 1024, 4096, 8192)),
        ((1024, 8192, 65536), (512, 4096, 32768, 131072), (512, 4096, 32768, 131072, 524288)),
    ),
    "growth_fills": ((2, 2, 2), (2, 2, 2)),
    "growth_large_fills": ((1, 2, 2), (2, 2, 2)),
    "growth_axes": ((1, 3, 3), (1, 3, 3)),
    "shape_cases": ((8, 18, 60), (8, 18, 60)),
    "shape_elements": ((2**17, 2**17, 2**17), (2**22, 2**24, 2**24)),
    "benchmark_cases": ((1, 2, 4), (1, 3, 16)),
    "benchmark_elements": ((2**24, 2**24, 2**24), (2**30, 2**30, 2**30)),
    "named_cases": ((6, 16, 64), (8, 32, 96)),
    "named_elements": ((2**22, 2**22, 2**22), (2**26, 2**27, 2**27)),
    "named_large": ((2, 2, 2), (2, 4, 8)),
    "pair_cases": ((2, 6, 16), (3, 8, 24)),
    "written_cases": ((4, 12, 48), (4, 12, 48)),
    "listed_axes": ((3, 3, 3), (3, 3, 3)),
    "listed_elements": ((0, 2**18, 2**20), (0, 2**30, 2**30)),
    "recorded_cases": ((8, 8, 8), (8, 8, 8)),
    "small_elements": ((2**15, 2**15, 2**15), (2**20, 2**20, 2**20)),
    "end_cases": ((10, 16, 16), (10, 16, 16)),
    "small_work": ((2**17, 2**17, 2**17), (2**24, 2**24, 2**24)),
}
_DRAWN_ELEMENTS = 2**22  # that a CPU draws in a few hundredths of a second
_GIB = 1 << 30
_CONTEXTS_GIB = 1.5  # what CUDA itself takes in the judge and in a worker
_PROCESSES_GIB = 6.0
_KEPT = 1.25
# Truth in float64, two or more draws, two trusted errors, the scale and its temporaries, and the
# inputs in two precisions: bytes for each element of inputs and outputs.
_BYTES_AN_ELEMENT = 64


def for_modules(budget: Budget) -> Budget:
    """Return the budget of modules that are built for each size: cases of ours are smaller.

    A CPU draws their weights and inputs, in each process anew. They have one case at a listed size
    beside these (see `numeric`), and the benchmark's own.
    """
    return replace(
        budget,
        numeric_elements=min(budget.numeric_elements, _DRAWN_ELEMENTS),
        hot_elements=min(budget.hot_elements, _DRAWN_ELEMENTS),
        named_elements=min(budget.named_elements, _DRAWN_ELEMENTS),
    )


def budget_for(profile: Profile, *, device: Device, memory_gib: float | None = None) -> Budget:
    """Return the budget of a profile on `cpu` or any `cuda` device.

    On a GPU no planned case has more elements than `memory_gib` has room for.
    """
    column = tuple(Profile).index(profile)
    pace = _CUDA_PACE if device.on_gpu else _CPU_PACE
    limits = {name: values[device.on_gpu][column] for name, values in _WORK.items()}
    counts = {name: values[device.on_gpu][column] for name, values in _CASES.items()}
    budget = Budget(work=WorkLimit(pace=pace, **limits), **counts)
    if not device.on_gpu or memory_gib is None:
        return budget
    most = room_bytes(memory_gib) // _BYTES_AN_ELEMENT
    return replace(
        budget,
        numeric_elements=min(budget.numeric_elements, most),
        hot_elements=min(budget.hot_elements, most),
        shape_elements=min(budget.shape_elements, most),
        named_elements=min(budget.named_elements, most),
        benchmark_elements=min(budget.benchmark_elements, most),
        small_elements=min(budget.small_elements, most),
    )


def room_bytes(memory_gib: float) -> int:
    """Return how many bytes of planned GPU memory are left for the tensors of one case."""
    return int(max(memory_gib - _CONTEXTS_GIB, memory_gib / 8.0) * _GIB)


def planned_memory_gib(profile: Profile, given_gib: float | None) -> float | None:
    """Return how much GPU memory a trial plans with: what was given, else 8 GiB at `quick`."""
    return 8.0 if given_gib is None and profile is Profile.QUICK else given_gib


def booked_bytes(tensor_bytes: int) -> int:
    """Return the GPU memory that a trial takes whose tensors are planned to take so much.

    Five or six processes have a context and an allocator that keeps what it got: six trials with
    6.5 GiB each took 45 to 110 GiB side by side on an H200.
    """
    return int(_KEPT * tensor_bytes + _PROCESSES_GIB * _GIB)
