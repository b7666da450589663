"""Draws judged by the other draws: where a yardstick is a guess, the limits give room."""

from __future__ import annotations

import torch
from torch import Tensor

from cuassay.oracle.truth.left_out import MOST_ELEMENT_ROOM, by_the_others, element_room
from tests.support.oracle_cases import normal

_EVERY = torch.ones(5000, dtype=torch.bool)


def _largest(rest: Tensor) -> Tensor:
    return rest.amax(-2).clamp_min(1.0)


def test_slices_that_average_independent_errors_get_no_room() -> None:
    scores = 1.0 + 0.02 * normal(4, 5000, seed=1).double()
    assert float(by_the_others(scores, _largest, _EVERY, 2.5, [5000])[0]) == 1.0


def test_slices_that_are_one_sample_each_get_room_for_the_worst_of_many() -> None:
    scores = normal(2, 5000, seed=2).double().abs()
    raised = float(by_the_others(scores, _largest, _EVERY, 2.5, [5000])[0])
    assert 2.5 * raised > 1.2 * float(scores.amax()) / float(scores.amin(0).clamp_min(1.0).amax())
    assert 2.5 * raised > 3.5  # the largest of 5000 normal deviates over at least 1


def test_slices_that_are_not_judged_do_not_count() -> None:
    scores = torch.ones(2, 5000, dtype=torch.float64)
    scores[0, 7] = 100.0
    judged = _EVERY.clone()
    assert float(by_the_others(scores, _largest, judged, 2.5, [5000])[0]) > 10
    judged[7] = False
    assert float(by_the_others(scores, _largest, judged, 2.5, [5000])[0]) == 1.0


def test_a_single_draw_says_nothing() -> None:
    assert float(by_the_others(torch.ones(1, 5000), _largest, _EVERY, 2.5, [5000])[0]) == 1.0


def _room(deviation: Tensor, model: Tensor) -> float:
    draws = [normal(*deviation.shape, seed=seed) * deviation for seed in (3, 4)]
    share = 1.0 / (len(draws) + 8.0)
    square = model.double() * (1.0 - 2 * share)
    for draw in draws:
        square += draw.double().square() * share
    return element_room(square, draws, torch.zeros_like(square), share=share, limit=6.0)


def test_elements_that_the_model_knows_get_no_room() -> None:
    even = torch.ones(200, 300)
    assert _room(even, even) == 1.0


def test_elements_that_the_model_does_not_know_get_some_and_never_more_than_twice() -> None:
    uneven = torch.ones(200, 300)
    uneven[::7, ::5] = 2.0
    assert 1.0 < _room(uneven, torch.ones(200, 300)) < MOST_ELEMENT_ROOM
    uneven[::7, ::5] = 1e4
    assert _room(uneven, torch.ones(200, 300)) == MOST_ELEMENT_ROOM
