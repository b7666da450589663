"""The optimizers of the matrix: warmed up, in place, and every one of them takes a step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cuassay.errors import UnknownNameError
from cuassay_loops.train.optimizers import RECIPES, WARM_UP, Descent, recipe


def _parameters() -> list[nn.Parameter]:
    draw = torch.Generator().manual_seed(1)
    shapes = ((8, 8), (8,), (64, 4))  # a matrix, a gain, a table
    return [nn.Parameter(torch.randn(shape, generator=draw)) for shape in shapes]


@pytest.mark.parametrize("name", RECIPES)
def test_each_optimizer_changes_weights_in_place(name: str) -> None:
    parameters = _parameters()
    before = [one.detach().clone() for one in parameters]
    descent = Descent(name, parameters, recipe(name).learning_rate)
    gradients = {str(i): one.detach().clone() for i, one in enumerate(parameters)}
    for _ in range(3):
        descent.step(gradients)
    for one, old in zip(parameters, before, strict=True):
        assert torch.isfinite(one).all()
        assert not torch.equal(one.detach(), old)
        assert one.grad is None  # nothing of a step is left for the next


def test_the_learning_rate_rises_to_its_value() -> None:
    weight = nn.Parameter(torch.zeros(1))
    descent = Descent("sgd", [weight], 0.5)
    steps = []
    for _ in range(WARM_UP + 3):
        before = weight.item()
        descent.step({"w": torch.ones(1)})
        steps.append(before - weight.item())
    expected = [0.5 * min(1.0, (n + 1) / WARM_UP) for n in range(WARM_UP + 3)]
    assert steps == pytest.approx(expected, rel=1e-5)


def test_gradients_must_be_those_of_all_parameters() -> None:
    with pytest.raises(ValueError, match="zip"):
        Descent("sgd", _parameters(), 0.1).step({"0": torch.ones(8, 8)})


def test_an_unknown_optimizer_is_told_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'adamw'"):
        recipe("adam")
