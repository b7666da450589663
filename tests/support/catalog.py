"""Run a catalogued reference on a planned case and hand everything out as float64 numpy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile

Array = npt.NDArray[Any]


def run(
    name: str,
    *,
    case: str = "small A",
    axes: dict[str, int] | None = None,
    scalars: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], list[Array]]:
    """Return inputs by name and outputs in order, of a small case, axes and scalars changed."""
    problem = registry.get(name)
    cases = plan_cases(problem, "small", profile=Profile.QUICK, root_seed=2)
    chosen = next(each for each in cases if each.label == case)
    chosen = dataclasses.replace(
        chosen,
        axes={**chosen.axes, **(axes or {})},
        scalars={**chosen.scalars, **(scalars or {})},
    )
    values = materialise(problem, chosen, device=CPU)
    returned = load_reference(problem).call(*values.values())
    outputs = returned if isinstance(returned, tuple) else (returned,)
    return {key: wide(value) for key, value in values.items()}, [wide(out) for out in outputs]


def wide(value: Any) -> Any:
    """Return a tensor as float64, int64 or bool numpy; scalars as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point:
        return value.double().numpy()
    return value.numpy() if value.dtype is torch.bool else value.long().numpy()


def near(got: Array, expected: Array, *, rtol: float = 1e-2, atol: float = 1e-3) -> None:
    """Assert closeness with a tolerance of one or two bfloat16 roundings."""
    scale = float(np.abs(expected).max()) if expected.size else 0.0
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol * max(scale, 1e-30))


def softmax(scores: Array) -> Array:
    """Return the soft-max over the last axis; -inf has no weight."""
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(raised / raised.sum(-1, keepdims=True))


def heads_of(v: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Return queries, and keys and values repeated for the heads that share them."""
    group = v["q"].shape[1] // v["k"].shape[1]
    return v["q"], np.repeat(v["k"], group, axis=1), np.repeat(v["v"], group, axis=1)


def weights_of(v: dict[str, Any], *, cap: float = 0.0, window: int = 1 << 30) -> Array:
    """Return the weights of causal attention, capped and within a window where it says so."""
    q, k, _ = heads_of(v)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * v["scale"]
    if cap:
        scores = cap * np.tanh(scores / cap)
    age = np.subtract.outer(np.arange(q.shape[2]), np.arange(k.shape[2])) + k.shape[2] - q.shape[2]
    return softmax(np.where((age >= 0) & (age < window), scores, -np.inf))
