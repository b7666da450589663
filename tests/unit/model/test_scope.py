"""How far a trial looked, in words: conditions where it ends early, at most four lines."""

from __future__ import annotations

import dataclasses

from cuassay.model import serial
from cuassay.model.scope import (
    AxisScope,
    FamilyScope,
    JudgedBy,
    Scope,
    Unreached,
    WorkloadScope,
    scope_conditions,
    scope_lines,
    told_by_scope,
)

_COVERED = Scope(
    axes=(AxisScope(axis="rows", declared=4096, listed=16, values=4096),),
    values=8192,
    wanted=8192,
    workloads=(
        WorkloadScope(workload="w0", axes={"rows": 16}, judged=JudgedBy.VALUES, elements=32),
    ),
)


def test_what_was_judged_to_its_end_has_no_condition() -> None:
    assert scope_conditions(_COVERED, streams=True) == ()
    assert scope_lines(_COVERED)[0] == (
        "sizes: rows to 4,096 of 4,096, a call to 8,192 of 8,192 elements"
    )


def test_an_axis_that_ends_early_is_a_condition_that_names_both_sizes() -> None:
    short = AxisScope(axis="rows", declared=1 << 20, listed=70_000, values=4096, addresses=1 << 20)
    scope = dataclasses.replace(_COVERED, axes=(short,))
    (condition,) = scope_conditions(scope, streams=False)
    assert condition == (
        "sizes: judged no farther than rows to 4,096 of 1,048,576 (addresses to 1,048,576)"
    )


def test_sizes_without_a_bound_are_named_where_no_large_tensor_was_tried() -> None:
    family = FamilyScope(codes=("BIG001",), titles=("",), reason="--profile standard tries it")
    scope = dataclasses.replace(_COVERED, families=(family,))
    assert not scope_conditions(scope, streams=True)
    free = AxisScope(axis="rows", listed=128, values=128)
    scope = dataclasses.replace(scope, axes=(free,))
    assert scope_conditions(scope, streams=True) == (
        "large-tensors: no tensor of 2^31 elements was tried",
    )
    assert not scope_conditions(scope, streams=False)
    assert not scope_conditions(
        dataclasses.replace(scope, wanted=1 << 31, values=1 << 31), streams=True
    )


def test_a_listed_size_counts_where_nothing_is_declared() -> None:
    axis = AxisScope(axis="rows", listed=128, values=100)
    assert axis.wanted == 128
    assert not axis.is_covered


def test_a_call_of_all_axes_together_is_asked_for_too() -> None:
    scope = dataclasses.replace(_COVERED, wanted=1 << 20)
    (condition,) = scope_conditions(scope, streams=False)
    assert condition == "sizes: judged no farther than a call to 8,192 of 1,048,576 elements"


def test_workloads_say_how_they_were_judged() -> None:
    others = tuple(
        WorkloadScope(workload=name, axes={}, judged=judged, elements=1 << 33, reason="no room")
        for name, judged in (
            ("w1", JudgedBy.RULE),
            ("w2", JudgedBy.ADDRESSES),
            ("w3", JudgedBy.NO),
            ("w4", JudgedBy.NO),
        )
    )
    scope = dataclasses.replace(_COVERED, workloads=(*_COVERED.workloads, *others))
    (condition,) = scope_conditions(scope, streams=False)
    assert condition == (
        "workloads: 4 of 5 listed workloads not judged by truth: w1 by the benchmark's own rule "
        "alone; w2 by addresses alone (no room); w3, w4 not at all (no room)"
    )


def test_a_condition_whose_words_the_scope_has_is_told_by_its_key() -> None:
    scope = dataclasses.replace(_COVERED, wanted=1 << 20, power_missing="no time")
    conditions = ("layouts: contiguous", *scope_conditions(scope, streams=True), "sizes: others")
    keys, rest = told_by_scope(conditions, scope)
    assert keys == ("sizes", "power")
    assert rest == ["layouts: contiguous", "sizes: others"]


def test_streams_are_a_condition_of_kernels_that_no_gpu_ran() -> None:
    family = FamilyScope(codes=("STREAM001", "GRAPH001"), titles=("a", "b"), reason="needs a GPU")
    scope = dataclasses.replace(_COVERED, families=(family,))
    assert scope_conditions(scope, streams=False) == ()
    (condition,) = scope_conditions(scope, streams=True)
    assert condition.startswith("streams: not tried")
    assert "not run: STREAM001, GRAPH001 (needs a GPU)" in scope_lines(scope)


def test_memory_that_calls_share_is_a_condition() -> None:
    shared = (Unreached(file="k.py", line=3, last=3, test="WORK"),)
    scope = dataclasses.replace(_COVERED, shared=shared)
    told = "threads: calls at once work in the same memory: k.py:3 (WORK)"
    assert scope_conditions(scope, streams=False) == (told,)
    assert "shared by calls: k.py:3 (WORK)" in "\n".join(scope_lines(scope))


def test_launches_and_power_that_are_missing_are_conditions() -> None:
    scope = dataclasses.replace(_COVERED, has_launches=True, power_missing="it takes too long")
    launches, power = scope_conditions(scope, streams=False)
    assert launches.startswith("launches: no launch")
    assert power == "power: not measured: it takes too long"


def test_code_that_no_judged_call_ran_is_a_condition_with_its_lines() -> None:
    parts = tuple(
        Unreached(file="kernel.py", line=n, last=n + n % 2, test="x == 7") for n in range(1, 7)
    )
    scope = dataclasses.replace(_COVERED, unreached=parts[:1])
    (condition,) = scope_conditions(scope, streams=False)
    assert condition == "unreached: judged calls say nothing of kernel.py:1-2 (x == 7)"
    assert "unreached: kernel.py:1-2 (x == 7)" in scope_lines(scope)[-1]
    scope = dataclasses.replace(_COVERED, unreached=parts)
    (condition,) = scope_conditions(scope, streams=False)
    assert condition.endswith("kernel.py:4 (x == 7) and 2 more")


def test_a_scope_takes_four_lines_at_most() -> None:
    family = FamilyScope(codes=tuple("ABCDEFGH"), titles=(), reason="needs a GPU")
    scope = dataclasses.replace(_COVERED, families=(family,), launches_made=3, launches_judged=2)
    lines = scope_lines(scope, power="19 of 19")
    assert len(lines) == 4
    assert lines[2] == "not run: A, B, C, D and 4 more (needs a GPU)"
    assert lines[3] == "launches: 2 of 3 executed by the PTX machine; power: 19 of 19"


def test_it_is_kept_as_json() -> None:
    assert serial.from_json(Scope, serial.to_json(_COVERED)) == _COVERED


def test_an_axis_whose_numbers_nobody_judged_says_so() -> None:
    scope = Scope(axes=(AxisScope(axis="n", declared=4096),))
    assert scope_lines(scope)[0] == "sizes: n at no size of 4,096"
