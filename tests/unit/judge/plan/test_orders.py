"""References that order or select elements are known by what they call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.hooks import Observed
from cuassay.inputs.regimes import NUMERIC
from cuassay.judge.plan.orders import TIES, Orders


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
    ],
)
def test_what_orders_is_known(call: Callable[[Tensor], Tensor], orders: bool) -> None:
    seen = Orders()
    with Observed(seen):
        call(torch.randn(3, 5))
    assert seen.found is orders


def test_the_regime_of_ties_is_planned() -> None:
    assert set(TIES) <= {regime.name for regime in NUMERIC}


_LOADED = (
    "import sys, torch\n"
    "from cuassay.hooks import Observed\n"
    "from cuassay.judge.plan.orders import Orders\n"
    "seen = Orders()\n"
    "with Observed(seen):\n"
    "    torch.ones(3).sort()[0].float().sum()\n"
    "print(seen.found)\n"
    "print([name for name in ('sympy', 'torch._dynamo') if name in sys.modules])\n"
)


def test_watching_a_reference_loads_no_compiler() -> None:
    """It would take one to two seconds of every trial, before the first check."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["True", "[]"], done.stderr
