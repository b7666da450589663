"""Gated units against formulas in numpy float64, gradients by central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.catalog import Array, near, run


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _silu(x: Array) -> Array:
    return np.asarray(x / (1 + np.exp(-x)))


def test_geglu_formula() -> None:
    v, (y,) = run("geglu")
    near(y, _gelu(v["gate"]) * v["up"])


@pytest.mark.parametrize(("name", "unit"), [("swiglu", _silu), ("geglu", _gelu)])
def test_gated_gradients_by_central_differences(name: str, unit: Any) -> None:
    v, (grad_gate, grad_up) = run(f"{name}_backward")
    step = 1e-5
    slope = (unit(v["gate"] + step) - unit(v["gate"] - step)) / (2 * step)
    near(grad_gate, v["grad_output"] * v["up"] * slope)
    near(grad_up, v["grad_output"] * unit(v["gate"]))


def test_swiglu_formula() -> None:
    v, (y,) = run("swiglu")
    near(y, _silu(v["gate"]) * v["up"])
