"""Planted failures shrink to the exact minimum, deterministically and within the tries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from cuassay.catalog import registry
from cuassay.inputs.materialise import Value, materialise
from cuassay.inputs.shrink import shrink
from cuassay.model.case import Case, Fill
from cuassay.model.device import CPU
from cuassay.model.domain import Mask, Opaque
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec

EMBEDDING = registry.get("embedding_grad")
START = Case(
    label="found",
    axes={"tokens": 8192, "hidden": 300, "vocab": 777},
    fills={
        "grad_output": Fill(kind="normal", parameters={"scale": 3.0}),
        "input_ids": Fill(kind="zipf"),
        "weight": Fill(kind="normal"),
    },
    scalars={"scale": 5.5},
    seed=9,
)


@pytest.mark.parametrize(
    ("still_fails", "expected"),
    [
        (lambda a: a["tokens"] >= 258, {"tokens": 258, "hidden": 1, "vocab": 1}),
        (lambda a: a["hidden"] > 64 and a["vocab"] >= 3, {"tokens": 1, "hidden": 65, "vocab": 3}),
        (lambda a: True, {"tokens": 1, "hidden": 1, "vocab": 1}),
        (
            lambda a: a["tokens"] >= 8192 and a["hidden"] == 300,
            {"tokens": 8192, "hidden": 300, "vocab": 1},
        ),
        (lambda a: a["tokens"] * a["hidden"] >= 1000, {"tokens": 1000, "hidden": 1, "vocab": 1}),
    ],
)
def test_sizes_reach_the_exact_minimum(
    still_fails: Callable[[dict[str, int]], bool], expected: dict[str, int]
) -> None:
    def predicate(case: Case) -> bool:
        return still_fails(dict(case.axes))

    result = shrink(START, predicate, EMBEDDING, max_tries=200)
    if expected == {"tokens": 1000, "hidden": 1, "vocab": 1}:
        # Not unique: any case that fails and cannot lose one step of one axis is minimal.
        axes = dict(result.case.axes)
        assert axes["tokens"] * axes["hidden"] >= 1000
        assert (axes["tokens"] - 1) * axes["hidden"] < 1000
        assert axes["tokens"] * (axes["hidden"] - 1) < 1000
    else:
        assert result.case.axes == expected
    assert not result.exhausted


def test_fills_become_plain_and_scalars_usual() -> None:
    result = shrink(START, lambda case: case.axes["tokens"] >= 258, EMBEDDING).case
    assert result.fills["grad_output"] == Fill(kind="zeros")
    assert result.fills["input_ids"] == Fill(kind="single_hot")
    assert result.scalars == {"scale": 1.0}


def test_what_the_failure_needs_is_kept() -> None:
    def predicate(case: Case) -> bool:
        return case.fills["grad_output"].kind in ("normal", "ones") and case.scalars["scale"] > 2

    result = shrink(START, predicate, EMBEDDING).case
    assert result.fills["grad_output"] == Fill(kind="ones")
    assert result.scalars == {"scale": 5.5}
    assert dict(result.axes) == {"tokens": 1, "hidden": 1, "vocab": 1}


def test_tries_are_counted_and_bounded() -> None:
    seen: list[Case] = []

    def predicate(case: Case) -> bool:
        seen.append(case)
        return case.axes["tokens"] >= 5000

    result = shrink(START, predicate, EMBEDDING, max_tries=7)
    assert result.tries == len(seen) == 7
    assert result.exhausted
    assert result.case.axes["tokens"] >= 5000


def test_shrinking_is_deterministic_and_ends_within_sixty_tries_here() -> None:
    def predicate(case: Case) -> bool:
        return case.axes["tokens"] >= 258

    first = shrink(START, predicate, EMBEDDING)
    assert first == shrink(START, predicate, EMBEDDING)
    assert first.tries < 60


def test_a_case_that_cannot_shrink_comes_back_as_it_was() -> None:
    assert shrink(START, lambda case: case == START, EMBEDDING).case == START


def test_a_benchmark_case_shrinks_only_if_it_fails_without_its_workload() -> None:
    case = dataclasses.replace(START, benchmark=True, generator=True, workload="w0", fills={})
    kept = shrink(case, lambda tried: tried.benchmark, EMBEDDING).case
    assert kept == case
    result = shrink(case, lambda tried: tried.axes["tokens"] >= 3, EMBEDDING).case
    assert not result.benchmark
    assert not result.generator
    assert result.workload is None
    assert result.axes["tokens"] == 3


def test_what_only_the_generator_can_make_is_left_to_it() -> None:
    case = dataclasses.replace(START, generator=True, fills={})
    inputs = tuple(dataclasses.replace(spec, domain=Opaque()) for spec in EMBEDDING.inputs)
    problem = dataclasses.replace(EMBEDDING, inputs=inputs)
    result = shrink(case, lambda tried: tried.axes["tokens"] >= 3, problem).case
    assert result.generator
    assert not result.fills
    assert result.axes["tokens"] == 3


@pytest.mark.parametrize("value", [True, False])
def test_a_flag_is_named_by_its_value(value: bool) -> None:
    flag = TensorSpec(name="flag", dtype=DType.BOOL, shape=(), domain=Mask())
    problem = dataclasses.replace(EMBEDDING, inputs=(*EMBEDDING.inputs, flag))

    def made(case: Case) -> dict[str, Value]:
        return materialise(problem, case, device=CPU)

    start = next(
        case
        for case in (
            dataclasses.replace(START, seed=n, fills={**START.fills, "flag": Fill(kind="uniform")})
            for n in range(40)
        )
        if bool(made(case)["flag"]) is value
    )
    result = shrink(
        start, lambda case: bool(made(case)["flag"]) is value, problem, inputs=made
    ).case
    assert result.fills["flag"] == Fill(kind="ones" if value else "zeros")
