"""How large the numbers become on the way: of inputs first, then of every operation."""

from __future__ import annotations

import math

import torch

from cuassay.hooks import Observed
from cuassay.oracle.lift.magnitudes import Magnitudes


def test_inputs_come_first_and_then_results_in_order() -> None:
    x = torch.tensor([1.0, -3.0])
    measured = Magnitudes([x, 5, torch.empty(0), torch.tensor([7])])
    with Observed(measured):
        y = x.exp()
        (y * 1e30) * 1e30
    inputs, exponential, large, infinite = measured.read()
    assert inputs == 3.0
    assert exponential == float(x.exp().max())
    assert 2e30 < large < 3e30
    assert infinite == math.inf


def test_nothing_measured_reads_as_nothing() -> None:
    assert Magnitudes([3, "x", torch.tensor([True])]).read() == ()
