"""How much one plan may cost: cases a purpose, elements a case, by profile and device."""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    free_elements: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Numbers of cases, and the most elements of inputs and outputs that one case may have.

    `growth_large_fills` is growth_fills where constant axes make every growth case larger than
    four times `hot_elements`. `hot_length` is the wished length of the hot axis and
    `growth_lengths` the lengths that a growth test tries: both end at the axis's maximum.
    `small_work` is the most that the axes of a small case may multiply to: attention's scores
    and gathered pages are no elements of inputs or outputs. `named_cases` lie beside one number of
    the candidate's sources, `pair_cases` beside two at once. `end_cases` lie at ends of domains.
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
    benchmark_elements: int = 2**24
    named_cases: int = 6
    named_elements: int = 2**22
    named_large: int = 2
    pair_cases: int = 2
    listed_axes: int = 3
    listed_elements: int = 0
    recorded_cases: int = 8
    small_elements: int = 2**15
    end_cases: int = 10
    small_work: int = 2**17


# One core of a CPU; an H100 or H200, where Python's dispatch of an operation takes as long.
_CPU_PACE = Pace(operation_s=2e-4, element_s=2e-8, multiply_add_s=1e-9)
_CUDA_PACE = Pace(operation_s=2e-4, element_s=5e-11, multiply_add_s=1e-13)
# On a CPU Triton's interpreter takes some 5 ms a program, so lengths stay in the thousands.
# The PTX machine executes some 10 million multiply-adds of a plain loop a second, a core some
# ten billion of a product in float64.
_CPU = {
    Profile.QUICK: Budget(
        work=WorkLimit(
            pace=_CPU_PACE,
            case_s=8.0,
            workload_s=16.0,
            check_s=16.0,
            machine=2**24,
            free_elements=2**18,
        ),
        numeric_cases=4,
        numeric_workloads=2,
        numeric_elements=2**18,
        hot_cases=3,
        hot_length=1024,
        hot_elements=2**18,
        growth_lengths=(128, 512, 2048),
        growth_fills=2,
        growth_large_fills=1,
        growth_axes=1,
        shape_cases=8,
        shape_elements=2**17,
        benchmark_cases=1,
    ),
    Profile.STANDARD: Budget(
        work=WorkLimit(
            pace=_CPU_PACE,
            case_s=32.0,
            workload_s=64.0,
            check_s=80.0,
            machine=2**27,
            free_elements=2**19,
        ),
        numeric_cases=13,
        numeric_workloads=3,
        numeric_elements=2**19,
        hot_cases=6,
        hot_length=2048,
        hot_elements=2**19,
        growth_lengths=(128, 512, 1024, 4096),
        growth_fills=2,
        growth_large_fills=2,
        growth_axes=3,
        shape_cases=18,
        shape_elements=2**17,
        benchmark_cases=2,
        end_cases=16,
        named_cases=16,
        pair_cases=6,
        listed_elements=2**18,
    ),
    Profile.DEEP: Budget(
        work=WorkLimit(
            pace=_CPU_PACE,
            case_s=128.0,
            workload_s=256.0,
            check_s=800.0,
            machine=2**29,
            free_elements=2**20,
        ),
        numeric_cases=40,
        numeric_workloads=4,
        numeric_elements=2**20,
        hot_cases=16,
        hot_length=4096,
        hot_elements=2**20,
        growth_lengths=(128, 512, 1024, 4096, 8192),
        growth_fills=2,
        growth_large_fills=2,
        growth_axes=3,
        shape_cases=60,
        shape_elements=2**17,
        benchmark_cases=4,
        end_cases=16,
        named_cases=64,
        pair_cases=16,
        listed_elements=2**20,
    ),
}
_CUDA = {
    Profile.QUICK: Budget(
        work=WorkLimit(pace=_CUDA_PACE, case_s=4.0, workload_s=4.0, check_s=24.0),
        numeric_cases=4,
        numeric_workloads=2,
        numeric_elements=2**29,
        hot_cases=3,
        hot_length=32768,
        hot_elements=2**25,
        growth_lengths=(1024, 8192, 65536),
        growth_fills=2,
        growth_large_fills=2,
        growth_axes=1,
        shape_cases=8,
        shape_elements=2**22,
        benchmark_cases=1,
        benchmark_elements=2**30,
        named_cases=8,
        pair_cases=3,
        named_elements=2**26,
        small_elements=2**20,
        small_work=2**24,
    ),
    Profile.STANDARD: Budget(
        work=WorkLimit(pace=_CUDA_PACE, case_s=16.0, workload_s=16.0, check_s=80.0),
        numeric_cases=13,
        numeric_workloads=3,
        numeric_elements=2**29,
        hot_cases=6,
        hot_length=65536,
        hot_elements=2**26,
        growth_lengths=(512, 4096, 32768, 131072),
        growth_fills=2,
        growth_large_fills=2,
        growth_axes=3,
        shape_cases=18,
        shape_elements=2**24,
        benchmark_cases=3,
        end_cases=16,
        benchmark_elements=2**30,
        named_cases=32,
        pair_cases=8,
        named_elements=2**27,
        named_large=4,
        listed_elements=2**30,
        small_elements=2**20,
        small_work=2**24,
    ),
    Profile.DEEP: Budget(
        work=WorkLimit(pace=_CUDA_PACE, case_s=64.0, workload_s=64.0, check_s=800.0),
        numeric_cases=40,
        numeric_workloads=8,
        numeric_elements=2**30,
        hot_cases=16,
        hot_length=131072,
        hot_elements=2**27,
        growth_lengths=(512, 4096, 32768, 131072, 524288),
        growth_fills=2,
        growth_large_fills=2,
        growth_axes=3,
        shape_cases=60,
        shape_elements=2**24,
        benchmark_cases=16,
        end_cases=16,
        benchmark_elements=2**30,
        named_cases=96,
        pair_cases=24,
        named_elements=2**27,
        named_large=8,
        listed_elements=2**30,
        small_elements=2**20,
        small_work=2**24,
    ),
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
    if not device.on_gpu:
        return _CPU[profile]
    budget = _CUDA[profile]
    if memory_gib is None:
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
