"""What a profile means: how many inputs, calls, seconds and elements each part of a trial gets.

The sizes that cases are planned within are `inputs/budget.py`, since they depend on the device too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from cuassay.model.profile import Profile

T = TypeVar("T")
_Schedules = tuple[tuple[str, int], ...]
_ONE_ORDER: _Schedules = (("forward", 0),)
_BOTH_ORDERS: _Schedules = (*_ONE_ORDER, ("reverse", 0))
_FOUR_ORDERS: _Schedules = (*_BOTH_ORDERS, ("random", 1), ("random", 2))


class _Row(Generic[T]):
    """A line of the table: what one quantity is at each profile."""

    def __init__(self, quick: T, standard: T, deep: T) -> None:
        self._by_profile = {Profile.QUICK: quick, Profile.STANDARD: standard, Profile.DEEP: deep}

    @overload
    def __get__(self, effort: None, owner: type[Effort]) -> _Row[T]: ...

    @overload
    def __get__(self, effort: Effort, owner: type[Effort]) -> T: ...

    def __get__(self, effort: Effort | None, owner: type[Effort]) -> Any:
        return self if effort is None else self._by_profile[effort.profile]

    def every(self) -> tuple[T, ...]:
        """Return what it is at quick, standard and deep."""
        return tuple(self._by_profile.values())


@dataclass(frozen=True, slots=True)
class Effort:
    """The column of the table for one profile. Names that end in `_s` are seconds.

    `elements` are those of inputs and outputs together. An empty value or 0 leaves the part out.
    """

    profile: Profile

    # Values and shapes: seeds of each regime, over which a small bias adds up.
    further_seeds = _Row(0, 32, 64)
    non_finite_inputs = _Row(4, 16, 64)
    zero_scalars = _Row(2, 8, 32)
    same_calls = _Row(5, 20, 100)
    independent_axes = _Row(1, 3, 8)
    larger_cases = _Row(1, 1, 4)  # of each independent axis
    related_scenarios = _Row(3, 8, 20)
    parted_length = _Row(97, 193, 509)  # of a sum that is cut in parts
    relation_seeds = _Row(2, 3, 4)  # on which the reference confirms a relation

    each_size = _Row(0, 4096, 1 << 14)  # sizes of an axis in turn, from the least one on
    each_size_s = _Row(0.0, 24.0, 90.0)  # of processor time, for those of all axes

    # Large sizes. The judged elements are those that a truth is made of: slices with what all of
    # them need (a weight), or a call that has no slices. A tensor goes beyond the last ones.
    large_sizes_s = _Row(1.2, 12.0, 90.0)  # of all calls, their inputs and judgments included
    whole_elements = _Row(1 << 13, 1 << 16, 1 << 18)
    sliced_elements = _Row(1 << 15, 1 << 18, 1 << 20)
    judged_elements = _Row(1 << 19, 1 << 22, 1 << 24)
    beyond_elements = _Row[tuple[int, ...]]((), (1 << 31,), (1 << 31, 1 << 32))

    # The search for a failing case; its elements are by the kind of device.
    search_s = _Row(0.0, 15.0, 90.0)
    search_rounds = _Row(0, 1, 6)
    search_elements = _Row[Mapping[str, int]](
        {}, {"cpu": 1 << 15, "cuda": 1 << 20}, {"cpu": 1 << 16, "cuda": 1 << 22}
    )

    # Calls before a call, other processes, and states of a loop.
    history_calls = _Row(14, 10, 12)  # of one history, at most
    history_strength = _Row(2, 2, 3)  # how many factors of histories meet in all combinations
    reordered_tensors = _Row(3, 6, 12)
    little_tensors = _Row(3, 6, 12)  # of which little changes between calls
    serving_s = _Row(0.15, 0.6, 2.0)
    varied_s = _Row(0.4, 1.5, 6.0)
    varied_calls = _Row(1_600, 5_000, 16_000)  # on inputs of which each differs in one element
    shapes_in_turn = _Row(0, 12, 24)
    together_calls = _Row(24, 120, 600)  # from a second thread while another call stands still
    leak_s = _Row(0.4, 2.0, 2.0)
    many_s = _Row(1.5, 6.0, 20.0)
    many_calls = _Row(2_000, 10_000, 50_000)  # in each of three spans, where the time is enough
    settings_apart = _Row(1, 2, 4)
    training_steps = _Row[tuple[int, ...]]((), (2, 8, 16), (0, 4, 8, 12, 16, 24, 32, 40))
    training_data = _Row[tuple[str, ...]]((), ("real",), ("real", "zipf1.0"))

    # Memory
    masked_cases = _Row(1, 3, 8)
    masked_elements = _Row(1 << 15, 1 << 17, 1 << 20)
    sanitizes = _Row(False, True, True)  # whether compute-sanitizer runs
    sanitizer_s = _Row(60.0, 60.0, 600.0)  # of one of its tools

    late_ranks = _Row(False, True, True)  # whether each rank is late, else the first and the last

    # GPU
    compiles = _Row(False, True, True)  # whether torch.compile runs
    stream_rounds = _Row(4, 24, 200)
    load_calls = _Row(64, 400, 5000)
    load_elements = _Row(1 << 21, 1 << 22, 1 << 25)
    load_s = _Row(2.0, 4.0, 25.0)  # of calls under one load
    pause_variants = _Row(2, 6, 32)
    paused_s = _Row(1.5, 2.0, 25.0)  # of calls with one variant of the pauses
    timing_rounds = _Row(2, 7, 25)

    # PTX machine: a schedule is an order of threads and its seed.
    machine_cases = _Row(2, 4, 8)
    machine_schedules = _Row[_Schedules](_ONE_ORDER, _BOTH_ORDERS, _FOUR_ORDERS)
    machine_s = _Row(20.0, 60.0, 240.0)  # of one launch
    machine_samples_s = _Row(60.0, 120.0, 120.0)  # of some blocks of all launches
    other_configurations = _Row(8, 16, 32)  # of an autotuner
    other_configurations_s = _Row(8.0, 20.0, 60.0)  # after which no call begins
    launch_sizes = _Row(4, 8, 16)
    declared_sizes_s = _Row(6.0, 15.0, 90.0)

    # Decisions, and the power of the inputs
    broken_cases = _Row(6, 16, 64)
    broken_slices = _Row(6, 32, 128)
    benchmark_workloads = _Row(1, 3, 1000)
    exchange_cases = _Row(32, 64, 128)  # on which parts of a kernel's code are exchanged
    exchange_histories = _Row(4, 8, 16)
    exchange_s = _Row(20.0, 60.0, 120.0)
    idle_instructions_s = _Row(3.0, 20.0, 60.0)  # of processor time, for a kernel's instructions
    marginal_runs = _Row(8, 16, 40)
    marginal_s = _Row(1.5, 5.0, 20.0)
    power_mutants = _Row(24, 60, 120)
    power_cases = _Row(8, 24, 48)
    power_search_s = _Row(0.2, 5.0, 20.0)
    power_document_s = _Row(20.0, 60.0, 300.0)  # of that search where power is all that is asked

    # Smallest inputs, and causes
    shrink_runs = _Row(60, 120, 400)
    shrink_s = _Row(5.0, 15.0, 60.0)
    general_runs = _Row(20, 80, 200)  # which tell what of a smallest input does not matter
    general_s = _Row(1.0, 8.0, 30.0)
    general_fills = _Row(1, 3, 5)
    causes_s = _Row(10.0, 30.0, 60.0)
    cause_mutants = _Row(160, 300, 500)
    cause_edits = _Row(160, 300, 600)
    cause_edits_s = _Row(12.0, 30.0, 90.0)
    cause_instructions_s = _Row(8.0, 20.0, 60.0)  # of edits of instructions, without a compiler
