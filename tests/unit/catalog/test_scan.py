"""Scans step by step in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import near, run


def test_selective_scan_step_by_step() -> None:
    v, (y,) = run("selective_scan")
    step = np.log1p(np.exp(v["delta"]))
    state = np.zeros((*v["u"].shape[:2], v["a"].shape[1]))
    expected = np.zeros_like(v["u"])
    for t in range(v["u"].shape[2]):
        state = np.exp(step[..., t, None] * v["a"]) * state
        state += (step[..., t] * v["u"][..., t])[..., None] * v["b"][:, None, :, t]
        expected[..., t] = np.einsum("bcn,bn->bc", state, v["c"][..., t]) + v["d"] * v["u"][..., t]
    near(y, expected, atol=4e-3)


def test_causal_conv1d_formula() -> None:
    v, (y,) = run("causal_conv1d")
    total = np.zeros_like(v["x"]) + v["bias"][:, None]
    for t in range(v["x"].shape[2]):
        for tap in range(4):
            if t - 3 + tap >= 0:
                total[..., t] += v["weight"][:, tap] * v["x"][..., t - 3 + tap]
    near(y, total / (1 + np.exp(-total)), atol=4e-3)
