"""Places along an axis: which outputs are such, and what no tie can excuse."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare, measure
from cuassay.oracle.truth.make import OutputTruth
from tests.support.oracle_cases import normal, spec, truth_of, whole


def ties(rows: int = 32, columns: int = 8) -> Tensor:
    """Return small integers, of which every row of 8 or more holds equal ones."""
    drawn = torch.randint(0, 7, (rows, columns), generator=torch.Generator().manual_seed(3))
    return drawn.float()


def route(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two largest weights of each row, normalised, and their places."""
    weights, chosen = torch.topk(torch.softmax(logits, -1), 2, -1)
    return weights / weights.sum(-1, keepdim=True), chosen


def routed(logits: Tensor) -> tuple[OutputTruth, OutputTruth]:
    """Return the truths of weights and places."""
    specs = (spec("float32", "m", "k", name="w"), spec("int64", "m", "k", name="i"))
    weights, chosen = whole(route, [logits], *specs).outputs
    return weights, chosen


def last_first(logits: Tensor, count: int) -> Tensor:
    """Return the places of the largest values, of equal ones the last: as honest as the first."""
    found = logits.flip(-1).sort(dim=-1, descending=True, stable=True).indices
    return (logits.shape[-1] - 1 - found)[:, :count]


@pytest.mark.parametrize(
    ("fn", "dim"),
    [
        (lambda x: torch.topk(x * 1.1, 3).indices, 1),
        (lambda x: torch.topk(x * 1.1, 3).indices.to(torch.int32), 1),
        (lambda x: torch.sort(x * 1.1, dim=0).indices, 0),
        (lambda x: torch.argsort(x * 1.1, descending=True)[:, :3].contiguous(), 1),
        (lambda x: torch.topk(x * 1.1, 3).indices.flatten(), None),
        (lambda x: (x * 1.1).argmax(-1), None),
        (lambda x: (x * 1.1).max(-1).indices, None),
    ],
)
def test_results_of_choosing_operations_are_choices(
    fn: Callable[[Tensor], Tensor], dim: int | None
) -> None:
    result = fn(normal(16, 8))
    axes = [str(n) for n in range(result.dim())]
    choice = truth_of(fn, [normal(16, 8)], str(result.dtype)[6:], *axes).choice
    assert choice is not None
    assert choice.bound == (16 if dim == 0 else 8)
    assert choice.dim == dim


def padded(x: Tensor) -> Tensor:
    """Return places of which some are written over."""
    places = torch.topk(x * 1.1, 3).indices
    places[x.sum(-1) > 1e9] = -1
    return places


@pytest.mark.parametrize(
    "fn",
    [
        padded,
        lambda x: torch.topk(x * 1.1, 3).indices + 1,
        lambda x: torch.where(x[:, :3] > 9.0, -1, torch.topk(x * 1.1, 3).indices),
    ],
)
def test_places_that_the_reference_changes_are_no_choice(fn: Callable[[Tensor], Tensor]) -> None:
    assert truth_of(fn, [normal(16, 8)], "int64", "m", "k").choice is None


def test_one_ill_conditioned_output_leaves_the_others_to_judge() -> None:
    logits = ties()
    weights, chosen = routed(logits)
    assert "flips" in chosen.ill_conditioned
    assert weights.ill_conditioned == ""
    right, places = route(logits)
    assert compare(right, weights).passed
    assert not compare(right * 1.01, weights).passed
    aside = compare(places, chosen)
    assert aside.passed
    assert aside.share == 0.0
    assert aside.undecided == chosen.ill_conditioned


def test_a_case_decides_nothing_only_where_no_output_does() -> None:
    specs = (spec("float32", "m", "k", name="w"), spec("int64", "m", "k", name="i"))
    assert whole(route, [ties()], *specs).ill_conditioned == ""
    alone = whole(lambda x: route(x)[1], [ties()], specs[1])
    assert alone.ill_conditioned == alone.outputs[0].ill_conditioned != ""


def test_an_honest_choice_among_ties_passes() -> None:
    logits = ties()
    _, chosen = routed(logits)
    assert compare(last_first(logits, 2), chosen).passed
    assert compare(torch.topk(logits, 2).indices, chosen).passed


@pytest.mark.parametrize("wrong", ["twice", "outside", "negative"])
def test_no_tie_excuses_what_is_no_choice(wrong: str) -> None:
    logits = torch.zeros(32, 8)
    _, chosen = routed(logits)
    got = last_first(logits, 2)
    assert compare(got, chosen).passed
    got[5, 1] = {"twice": int(got[5, 0]), "outside": 8, "negative": -1}[wrong]
    found = compare(got, chosen)
    assert not found.passed
    assert found.undecided == ""
    assert found.worst_index == (5, 1)


def test_a_wrong_shape_is_wrong_on_an_ill_conditioned_output_too() -> None:
    _, chosen = routed(ties())
    assert compare(torch.zeros(3, 2, dtype=torch.int64), chosen).mismatch


def test_what_flips_may_be_any_of_its_numbers_and_never_none() -> None:
    values = normal(32, 8)

    def first_two(logits: Tensor, values: Tensor) -> Tensor:
        return values.gather(1, torch.topk(logits, 2).indices)

    truth = whole(first_two, [torch.zeros(32, 8), values], spec("float32", "m", "k", name="w"))
    (output,) = truth.outputs
    assert "flips" in output.ill_conditioned
    assert output.settled
    assert compare(values[:, -2:].contiguous(), output).undecided
    for number in (float("nan"), float("inf")):
        got = values[:, -2:].clone()
        got[5, 1] = number
        found = compare(got, output)
        assert not found.passed
        assert found.is_of_other_class
        assert found.worst_index == (5, 1)


def test_truth_is_not_settled_where_one_of_its_numbers_is_infinite() -> None:
    x = normal(32, 8)
    assert whole(torch.exp, [x], spec("float32", "m", "k", name="y")).outputs[0].settled
    x[3, 2] = float("inf")
    assert not whole(torch.exp, [x], spec("float32", "m", "k", name="y")).outputs[0].settled


def test_exact_ties_may_fall_either_way_but_only_among_equals() -> None:
    x = ties()
    truth = truth_of(lambda v: torch.topk(v, 3).indices, [x], "int64", "m", "k")
    assert truth.ill_conditioned == ""
    got = last_first(x, 3)
    assert bool((got != truth.value).any())
    assert compare(got, truth).passed
    least = x.argmin(-1)
    got[:, 2] = least
    assert not compare(got, truth).passed


def test_the_first_of_equal_maxima_is_promised() -> None:
    x = ties()
    truth = truth_of(lambda v: v.argmax(-1), [x], "int64", "m")
    assert not compare(last_first(x, 1)[:, 0], truth).passed


def test_what_is_set_aside_is_still_measured() -> None:
    weights, chosen = routed(ties())
    assert measure(route(ties())[0], weights).passed
    wrong = (chosen.value + 1) % 8
    assert not measure(wrong[:, [1, 0]].contiguous(), chosen).passed


def test_a_result_that_each_rank_has_may_fall_as_the_one_result_may() -> None:
    def on_each(x: Tensor) -> Tensor:
        places = torch.topk(x, 3).indices
        return places.unsqueeze(0).expand(2, *places.shape)

    x = ties()
    truth = truth_of(on_each, [x], "int64", "ranks", "m", "k")
    assert truth.choice is not None
    assert truth.choice.dim == 2
    got = last_first(x, 3).expand(2, -1, -1).clone()
    middle = got.roll(1, -1)  # of three that tie neither the first nor the last is in the middle
    assert bool((got != truth.value).any())
    assert compare(got, truth).passed
    same = (x.gather(1, got[0]) == x.gather(1, middle[0])).all(-1)
    assert bool(same.any())
    assert compare(torch.where(same[:, None], middle, got), truth).passed
    got[1, :, 2] = x.argmin(-1)
    assert not compare(got, truth).passed
