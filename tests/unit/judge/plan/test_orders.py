"""References that order or select elements are known by what they call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.inputs.regimes import NUMERIC
from cuassay.judge.plan.orders import TIES, orders_elements


def _fails(x: Tensor) -> Tensor:
    raise RuntimeError("refused")


@pytest.mark.parametrize(
    ("call", "orders"),
    [
        (lambda x: torch.sort(x, dim=1, stable=True).indices, True),
        (lambda x: x.topk(2).values, True),
        (lambda x: x.argmax(-1), True),
        (lambda x: x.max(-1).indices, True),
        (lambda x: x.amax(-1), False),
        (lambda x: torch.softmax(x, -1), False),
        (lambda x: x.max(), False),
        (_fails, False),
    ],
)
def test_what_orders_is_known(call: Callable[[Tensor], Tensor], orders: bool) -> None:
    x = torch.randn(3, 5)
    kept = x.clone()
    assert orders_elements(call, [x]) is orders
    assert torch.equal(x, kept)


def test_the_regime_of_ties_is_planned() -> None:
    assert set(TIES) <= {regime.name for regime in NUMERIC}
