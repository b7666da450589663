"""Choices of experts: equal ones are the same, and those of a trusted run are made again."""

from __future__ import annotations

import pytest
import torch

from cuassay_loops.kernels import KernelFault
from cuassay_loops.model.routing import ForcedRoutes, Routes, same_choice

_LOGITS = torch.tensor([[3.0, 1.0, 2.0, 0.0], [0.0, 5.0, 5.0, 1.0]])


@pytest.mark.parametrize(
    ("chosen", "same"),
    [
        ([[0, 2], [1, 2]], [True, True]),
        ([[2, 0], [2, 1]], [True, True]),  # in another order
        ([[0, 1], [1, 2]], [False, True]),
        ([[0, 0], [1, 1]], [False, False]),  # one expert twice, as probable as the best or not
        ([[0, 2], [1, 3]], [True, False]),
    ],
)
def test_experts_as_probable_as_the_best_are_the_same_choice(
    chosen: list[list[int]], same: list[bool]
) -> None:
    assert same_choice(_LOGITS, torch.tensor(chosen)).tolist() == same


def test_rounding_of_logits_makes_no_other_choice() -> None:
    near = torch.tensor([[1.0, 1.0 + 2**-22, 0.0]])
    assert same_choice(near, torch.tensor([[0]])).item()
    assert not same_choice(torch.tensor([[1.0, 1.01, 0.0]]), torch.tensor([[0]])).item()


def test_the_choices_of_the_trusted_run_are_made_again() -> None:
    routes = Routes()
    weights, kept = torch.tensor([[0.7, 0.3], [0.5, 0.5]]), torch.tensor([[0, 2], [1, 2]])
    routes.settled(0, _LOGITS, (weights, kept), trusted=True, judged=False)
    other = torch.tensor([[0, 1], [2, 1]])
    found, chosen = routes.settled(0, _LOGITS, (weights, other), trusted=False, judged=False)
    assert torch.equal(chosen, kept)
    # Token 0 did not choose expert 2: its weights are made afresh; token 1 only swapped its two.
    assert torch.allclose(found[0], torch.softmax(torch.tensor([3.0, 2.0]), -1))
    assert found[1].tolist() == [0.5, 0.5]
    assert routes.known(1, trusted=False) is None  # of another layer
    routes.part = 1
    assert routes.known(0, trusted=False) is None  # of another part of the batch


def test_a_wrong_choice_of_the_judged_router_stays() -> None:
    routes = Routes()
    weights, kept = torch.tensor([[0.7, 0.3], [0.5, 0.5]]), torch.tensor([[0, 2], [1, 2]])
    routes.settled(0, _LOGITS, (weights, kept), trusted=True, judged=False)
    wrong = torch.tensor([[2, 0], [1, 3]])
    _, chosen = routes.settled(0, _LOGITS, (weights, wrong), trusted=False, judged=True)
    assert chosen.tolist() == [[0, 2], [1, 3]]
    with pytest.raises(KernelFault, match="holds 4; expected experts from 0 to 3"):
        routes.settled(
            0, _LOGITS, (weights, torch.tensor([[0, 4], [1, 2]])), trusted=False, judged=True
        )


def test_duplicates_take_the_choices_of_their_sample() -> None:
    routes = Routes()
    kept = torch.tensor([[0, 1], [2, 3], [1, 2], [3, 0]])  # two samples of two tokens
    routes.settled(0, torch.zeros(4, 4), (torch.ones(4, 2), kept), trusted=True, judged=False)
    routes.repeat(torch.tensor([1, 0, 1]), samples=2)
    again = routes.known(0, trusted=False)
    assert again is not None
    assert again.tolist() == [[1, 2], [3, 0], [0, 1], [2, 3], [1, 2], [3, 0]]


def test_known_sequences_are_forced_within_their_block() -> None:
    routes = ForcedRoutes([[torch.tensor([[0, 1], [2, 3]])]])
    assert routes.known(0, trusted=True) is None
    with routes.at([0, 0], [1, 0]):
        found = routes.known(0, trusted=True)
        assert found is not None
        assert found.tolist() == [[2, 3], [0, 1]]
    assert routes.known(0, trusted=True) is None
