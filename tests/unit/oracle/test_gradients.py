"""The gradients of a function as a function."""

from __future__ import annotations

import torch
from torch import Tensor

from cuassay.oracle.gradients import differentiated


def _three(x: Tensor, w: Tensor, unused: Tensor) -> tuple[Tensor, ...]:
    return x * w, x.detach().square(), (x > 0).float()


def test_gradients_are_those_of_the_outputs_that_have_a_path() -> None:
    gradient = differentiated(_three, [0, 1, 2], count=3)
    x, w, unused = torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0]), torch.ones(4)
    upstream = [torch.tensor([1.0, 10.0]), torch.ones(2), torch.ones(2)]
    of_x, of_w, of_unused = gradient(x, w, unused, *upstream)
    assert of_x.tolist() == [5.0, 70.0]
    assert of_w.tolist() == [2.0, 30.0]
    assert of_unused.tolist() == [0.0] * 4
    assert not x.requires_grad
    assert "_three" in gradient.__name__


def test_a_function_without_any_path_has_zeros_and_gradients_lie_in_order() -> None:
    def cut(x: Tensor) -> tuple[Tensor, ...]:
        return (x.detach().t(),)

    (found,) = differentiated(cut, [0], count=1)(torch.ones(2, 3), torch.ones(3, 2))
    assert found.tolist() == [[0.0] * 3] * 2

    def turned(x: Tensor) -> tuple[Tensor, ...]:
        return (x.t() * 2,)

    with torch.no_grad():  # as a judge calls it
        (found,) = differentiated(turned, [0], count=1)(torch.ones(2, 3), torch.ones(3, 2))
    assert found.is_contiguous()
    assert found.tolist() == [[2.0] * 3] * 2
