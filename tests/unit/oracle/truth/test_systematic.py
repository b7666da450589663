"""The drift of sums whose addends repeat."""

from __future__ import annotations

import pytest
import torch

from cuassay.oracle.truth import systematic
from cuassay.oracle.truth.systematic import drift


@pytest.mark.parametrize("at_once", [1, 700, 4000])
def test_large_operands_are_looked_at_in_parts(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = torch.randn(3, 5, 128, dtype=torch.float64)
    values[1] = values[1, :, :1]  # rows of equal addends
    whole = drift(values, values.sum(-1))
    monkeypatch.setattr(systematic, "_AT_ONCE", at_once)
    parts = drift(values, values.sum(-1))
    assert whole is not None
    assert parts is not None
    assert torch.equal(parts, whole)
    assert bool((parts[1] > 0).all())
    assert not bool(parts[0].any())
    assert drift(values[0], values[0].sum(-1)) is None
