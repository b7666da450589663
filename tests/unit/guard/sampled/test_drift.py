"""Drift: small errors of one sign, call after call."""

from __future__ import annotations

import torch

from cuassay.oracle.compare.outputs import Bias
from cuassay.oracle.truth.types import TrustedBias
from cuassay_guard.sampled.drift import Drift, limit


def _bias(projection: float) -> Bias:
    trusted = TrustedBias(draws=(0.0,), known=(0.0,), norm2=1.0, room=0.0)
    return Bias(kind="gain", projection=projection, trusted=trusted)


def test_drift_finds_a_constant_sign_and_no_rounding() -> None:
    drifting, calls = Drift(), 0
    while drifting.add("y", [_bias(1.0)]) is None:
        calls += 1
    assert 30 <= calls <= 60  # K = limit(K)^2
    generator = torch.Generator().manual_seed(5)
    noise = torch.randn(40_000, generator=generator).tolist()
    fair = Drift()
    assert not any(fair.add("y", [_bias(value)]) for value in noise)
    assert limit(1) < 9
    assert limit(10**6) < 8
    assert fair.new(1)
    assert not fair.new(1)
