"""What one run of a reference shows: magnitudes, whether it orders, what it returns them in."""

from __future__ import annotations

from collections.abc import Callable

import torch

from cuassay.judge.look import Look, container_in, look_at


def _look(call: Callable[..., object], *values: object) -> Look:
    return look_at(call, values, lambda watched: watched(*values))


def test_the_largest_magnitude_of_inputs_and_of_each_operation_is_seen() -> None:
    shown = _look(lambda x: (x * 100.0).sum(), torch.tensor([1.0, -3.0]))
    assert shown.magnitudes[0] == 3.0
    assert max(shown.magnitudes) == 300.0


def test_a_reference_that_sorts_has_ties_and_one_that_adds_has_none() -> None:
    x = torch.tensor([2.0, 1.0, 2.0])
    assert _look(lambda x: x.topk(2).indices, x).orders
    assert not _look(lambda x: x + 1.0, x).orders


def test_how_far_gates_are_closed_is_seen() -> None:
    ((low, high),) = _look(torch.sigmoid, torch.tensor([0.0, -17.3])).gates
    assert (low, round(high, 3)) == (0.0, 1.0)


def test_what_outputs_are_returned_in_is_seen_with_and_without_hooks() -> None:
    x = torch.ones(2)
    calls: list[Callable[..., object]] = [lambda x: x + 1, lambda x: (x, x), lambda x: [x]]
    seen = [_look(call, x).container for call in calls]
    assert len(set(seen)) == 3
    assert seen == [container_in(call, lambda watched: watched(x)) for call in calls]
