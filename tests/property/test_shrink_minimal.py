"""Planted failures shrink to the exact minimum, and "holds for" says what was planted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_trial import axis, problem, scaled_add, tensor

from cuassay.inputs.elements import minimal_subset
from cuassay.inputs.generalise import generalise
from cuassay.inputs.materialise import materialise
from cuassay.inputs.shrink import shrink
from cuassay.inputs.size_law import OutOfBudget, SizeProbe, size_law
from cuassay.model.case import Case, Fill
from cuassay.model.device import CPU
from cuassay.model.problem import Problem, Scalar

TWO_AXES = problem(
    "planted",
    axes=[axis("rows", maximum=4096), axis("cols", maximum=4096)],
    inputs=[tensor("x", "rows", "cols")],
    outputs=[tensor("y", "rows")],
    workloads=[{"rows": 16, "cols": 32}],
)
PERIODS = (4, 16, 64, 128)


def start(rows: int, cols: int, fill: Fill | None = None) -> Case:
    fills = {"x": fill or Fill(kind="normal")}
    return Case(label="found", axes={"rows": rows, "cols": cols}, fills=fills, seed=3)


def values_of(case: Case) -> torch.Tensor:
    made = materialise(TWO_AXES, case, device=CPU)["x"]
    assert isinstance(made, torch.Tensor)
    return made


def inputs(case: Case) -> dict[str, torch.Tensor | Scalar]:
    return {"x": values_of(case)}


@given(rows=st.integers(1, 300), cols=st.integers(1, 300), more=st.integers(0, 900))
def test_thresholds_shrink_exactly(rows: int, cols: int, more: int) -> None:
    def fails(case: Case) -> bool:
        return case.axes["rows"] >= rows and case.axes["cols"] >= cols

    shrunk = shrink(start(rows + more, cols + more), fails, TWO_AXES, max_tries=300).case
    assert dict(shrunk.axes) == {"rows": rows, "cols": cols}
    assert shrunk.fills == {"x": Fill(kind="zeros")}


@given(
    period=st.sampled_from(PERIODS),
    where=st.integers(0, 1 << 20),
    multiple=st.integers(0, 20),
    rows=st.integers(1, 9),
)
def test_one_remainder_shrinks_exactly(period: int, where: int, multiple: int, rows: int) -> None:
    remainder = where % period

    def fails(case: Case) -> bool:
        return case.axes["cols"] % period == remainder and case.axes["rows"] >= rows

    first = start(rows + 40, remainder + period * (multiple + 1))
    shrunk = shrink(first, fails, TWO_AXES, max_tries=300).case
    assert dict(shrunk.axes) == {"rows": rows, "cols": remainder or period}


@given(period=st.sampled_from(PERIODS), share=st.floats(0.0, 1.0), multiple=st.integers(0, 20))
def test_partial_tiles_shrink_exactly(period: int, share: float, multiple: int) -> None:
    limit = min(int(share * period), period - 2)

    def fails(case: Case) -> bool:
        return case.axes["cols"] % period > limit

    shrunk = shrink(start(50, period * multiple + period - 1), fails, TWO_AXES, max_tries=300).case
    assert dict(shrunk.axes) == {"rows": 1, "cols": limit + 1}


@given(needed=st.sets(st.integers(0, 40), max_size=4), count=st.integers(41, 60))
def test_delta_debugging_leaves_what_is_needed(needed: set[int], count: int) -> None:
    kept = minimal_subset(range(count), lambda some: needed <= set(some))
    assert set(kept) == needed


@given(limit=st.integers(1, 5000), seed=st.integers(0, 1 << 30))
def test_a_magnitude_gate_shrinks_to_one_least_element(limit: int, seed: int) -> None:
    def fails(case: Case) -> bool:
        return bool((values_of(case).abs() > limit).any())

    fill = Fill(kind="normal", parameters={"scale": 3.0 * limit})
    first = dataclasses.replace(start(24, 24, fill), seed=seed)
    result = shrink(first, fails, TWO_AXES, max_tries=300, inputs=inputs)
    assert dict(result.case.axes) == {"rows": 1, "cols": 1}
    assert [abs(value) for value in values_of(result.case).reshape(-1).tolist()] == [limit + 1]


def test_two_elements_of_a_row_are_left() -> None:
    """A failure that needs a positive and a later negative element, in rows of four or more."""

    def fails(case: Case) -> bool:
        values = values_of(case)
        return values.shape[1] >= 4 and bool((values[:, 0] > 0.5).any() & (values < -0.5).any())

    shrunk = shrink(start(20, 30), fails, TWO_AXES, max_tries=400, inputs=inputs).case
    values = values_of(shrunk)
    assert values.shape[1] == 4
    assert int((values != 0).sum()) == 2
    assert set(values.reshape(-1).tolist()) == {-1.0, 0.0, 1.0}


def law(fails: Callable[[int], bool], first: int, *, cap: int = 5000, runs: int = 60) -> str:
    left = [runs]

    def ask(size: int) -> bool:
        left[0] -= 1
        if left[0] < 0:
            raise OutOfBudget
        return fails(size)

    return size_law(SizeProbe(name="cols", start=first, low=1, cap=cap, step=1, fails=ask))


@given(least=st.integers(1, 3000))
def test_the_law_of_a_threshold(least: int) -> None:
    said = law(lambda size: size >= least, least)
    assert said == ("any cols" if least == 1 else f"any cols >= {least}")


@given(period=st.sampled_from((16, 32, 64, 128, 256)), share=st.floats(0.0, 1.0))
def test_the_law_of_a_partial_tile(period: int, share: float) -> None:
    limit = min(max(int(share * period), 2), period - 3)
    said = law(lambda size: size % period > limit, limit + 1)
    assert said == f"only when cols mod {period} > {limit}"


@given(period=st.sampled_from((4, 16, 64, 128)), where=st.integers(0, 1 << 20))
def test_the_law_of_one_remainder(period: int, where: int) -> None:
    remainder = where % period
    said = law(lambda size: size % period == remainder, remainder or period)
    assert said == f"only when cols mod {period} = {remainder}"


@pytest.mark.parametrize("period", [4, 32, 128])
def test_the_law_of_all_but_whole_tiles(period: int) -> None:
    assert law(lambda size: size % period != 0, 1) == f"only when cols mod {period} != 0"


@given(runs=st.integers(0, 12), period=st.sampled_from(PERIODS))
def test_a_short_budget_claims_nothing_that_was_not_seen(runs: int, period: int) -> None:
    said = law(lambda size: size % period == 1, 1, runs=runs)
    assert "any" not in said


def test_odd_laws_are_listed_not_invented() -> None:
    squares = {n * n for n in range(100)}
    said = law(lambda size: size in squares, 4)
    assert said.startswith("of ") or ", not " in said


def planted(rows: int, limit: int) -> Callable[[Case], bool]:
    def fails(case: Case) -> bool:
        return case.axes["rows"] >= rows and case.axes["cols"] % 128 > limit

    return fails


def test_the_line_of_the_design() -> None:
    fails = planted(4, 64)
    smallest = shrink(start(77, 4 * 128 + 100), fails, TWO_AXES, max_tries=200).case
    said = generalise(smallest, fails, TWO_AXES, max_runs=80)
    assert said.startswith("any seed; any rows >= 4; only when cols mod 128 > 64; any x (")


def test_fills_and_scalars_that_matter_are_named() -> None:
    made: Problem = scaled_add().problem
    case = Case(
        label="found",
        axes={"rows": 1, "cols": 1},
        fills={"x": Fill(kind="ones"), "bias": Fill(kind="zeros")},
        scalars={"gain": 3.5},
        seed=1,
    )

    def fails(changed: Case) -> bool:
        return changed.fills["x"].kind == "ones" and float(changed.scalars["gain"]) > 2.0

    said = generalise(case, fails, made, max_runs=80)
    assert "x of ones, not of normal or zeros" in said
    assert "any bias" in said
    assert "gain = 3.5, not 0.5" in said
    assert "any rows; any cols" in said


def test_seeds_that_matter_are_counted() -> None:
    case = start(4, 4)
    said = generalise(case, lambda changed: changed.seed == case.seed, TWO_AXES, max_runs=3)
    assert said.startswith("1 of 3 seeds")


def test_nothing_known_is_nothing_said() -> None:
    assert generalise(start(4, 4), lambda _: None, TWO_AXES, max_runs=20) == ""
    assert generalise(start(4, 4), lambda _: True, TWO_AXES, max_runs=0) == ""


def test_runs_are_bounded() -> None:
    ran: list[Case] = []

    def fails(case: Case) -> bool:
        ran.append(case)
        return case.axes["cols"] % 128 > 64

    generalise(start(4, 65), fails, TWO_AXES, max_runs=20)
    assert len(ran) == 20


def test_a_law_that_an_unused_size_contradicts_is_not_said() -> None:
    """Every probed size from 5 on fails; 7 does not, and nobody used it to find the law."""
    assert law(lambda size: size >= 5, 5) == "any cols >= 5"
    assert law(lambda size: size >= 5 and size != 7, 5) == ""


def test_a_law_of_sizes_is_about_drawn_values() -> None:
    """Listed values of a smallest case are another tensor at another size."""
    drawn = {"x": Fill(kind="normal")}
    listed = dataclasses.replace(
        start(1, 4), fills={"x": Fill(kind="explicit", parameters={"values": (0.0, 0.0, 0.0, 5.0)})}
    )

    def fails(case: Case) -> bool:  # listed values are repeated: the last one stands at 3, 7, 11
        return case.fills["x"].kind == "explicit" and case.axes["cols"] % 4 == 0

    said = generalise(listed, fails, TWO_AXES, max_runs=80, drawn=drawn)
    assert "cols" not in said
