"""Sums of centred terms keep the deviation of the forms that never centre them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cuassay.oracle.truth.centred import Centred

_X = torch.tensor([[101.0, 99.0, 103.0, 97.0]], dtype=torch.float64)


def _reduced(values: Tensor) -> Tensor:
    return values.abs().sum(-1, keepdim=True) * 1e-3


def _total(values: Tensor) -> Tensor:
    return values.sum(-1, keepdim=True)


class _Run:
    """A run in which each step is noted as a lifted run would."""

    def __init__(self) -> None:
        self.centred = Centred()

    def do(self, name: str, out: Tensor, /, **named: Any) -> Tensor:
        self.centred.note(name, named, out)
        return out

    def deviation(self, values: Tensor) -> float:
        found = self.centred.deviation(values, _reduced(values), total=_total, reduced=_reduced)
        assert found is not None
        return float(found)

    def centre(self, x: Tensor = _X) -> Tensor:
        mean = self.do("mean", x.mean(-1, keepdim=True), self=x)
        return self.do("sub", x - mean, self=x, other=mean)


def test_a_centred_sum_may_err_as_the_sum_of_what_was_centred() -> None:
    run = _Run()
    assert run.deviation(run.centre()) == float(_reduced(_X)) == 0.4
    assert run.deviation(_X * 1.0) == 0.4  # nothing is known of others: their own
    weight = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    centre = run.centre()
    product = run.do("mul", centre * weight, self=centre, other=weight)
    assert run.deviation(product) == float(_reduced(_X * weight))
    other_way = run.do("mul", weight * centre, self=weight, other=centre)
    assert run.deviation(other_way) == float(_reduced(_X * weight))
    part = run.do("div", centre / 4.0, self=centre, other=4.0)
    assert run.deviation(part) == 0.1


def test_a_variance_may_err_by_the_root_of_what_the_mean_adds() -> None:
    run = _Run()
    centre = run.centre()
    square = run.do("pow", centre**2, self=centre, exponent=2)
    own = float(_reduced(square))
    ratio = float(_X.square().sum() / square.sum())
    assert run.deviation(square) == own * ratio**0.5
    cube = run.do("pow", centre**3, self=centre, exponent=3)
    assert run.deviation(cube) == float(_reduced(cube))


def test_only_a_tensors_own_mean_centres_it() -> None:
    run = _Run()
    other = torch.ones(1, 4, dtype=torch.float64)
    mean = run.do("mean", other.mean(-1, keepdim=True), self=other)
    difference = run.do("sub", _X - mean, self=_X, other=mean)
    assert run.deviation(difference) == float(_reduced(difference))
    own = run.do("sum", _X.sum(-1, keepdim=True), self=_X)
    mean = run.do("div", own / 4, self=own, other=4)  # a sum over its length is a mean
    centre = run.do("sub", _X - mean, self=_X, other=mean)
    assert run.deviation(centre) == 0.4
    scaled = run.do("sub", _X - 2 * mean, self=_X, other=mean, alpha=2)
    assert run.deviation(scaled) == float(_reduced(scaled))
