"""Optimizer steps against formulas in numpy float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.catalog import near, run


def test_adamw_step_formula() -> None:
    v, (param, first, second) = run("adamw_step", scalars={"step": 3})
    m = v["beta1"] * v["exp_avg"] + (1 - v["beta1"]) * v["grad"]
    s = v["beta2"] * v["exp_avg_sq"] + (1 - v["beta2"]) * v["grad"] ** 2
    hat = (m / (1 - v["beta1"] ** 3)) / (np.sqrt(s / (1 - v["beta2"] ** 3)) + v["eps"])
    expected = v["param"] - v["lr"] * (hat + v["weight_decay"] * v["param"])
    for got, want in ((param, expected), (first, m), (second, s)):
        near(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_momentum_step_formula(nesterov: bool) -> None:
    v, (param, buffer) = run("sgd_momentum_step", scalars={"nesterov": nesterov})
    grad = v["grad"] + v["weight_decay"] * v["param"]
    expected = v["momentum"] * v["momentum_buffer"] + grad
    direction = grad + v["momentum"] * expected if nesterov else expected
    near(buffer, expected, rtol=1e-5, atol=1e-6)
    near(param, v["param"] - v["lr"] * direction, rtol=1e-5, atol=1e-6)


def test_muon_step_moves_by_a_polynomial_of_the_singular_values() -> None:
    v, (param, buffer) = run("muon_step")
    expected = v["momentum"] * v["momentum_buffer"] + (1 - v["momentum"]) * v["grad"]
    near(buffer, expected, rtol=1e-5, atol=1e-6)
    direction = v["momentum"] * expected + (1 - v["momentum"]) * v["grad"]
    left, values, right = np.linalg.svd(direction, full_matrices=False)
    values = values / np.linalg.norm(direction)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    rows, columns = direction.shape
    moved = (left * values) @ right * max(1.0, rows / columns) ** 0.5
    error = np.linalg.norm(v["param"] - param - v["lr"] * moved)
    assert error < 0.05 * v["lr"] * np.linalg.norm(moved)  # the iteration runs in bfloat16
