"""Products, quantisation, routing, sampling and scans against formulas in numpy float64."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from tests.support.catalog import Array, near, run, softmax


def test_gemm_family_formulas() -> None:
    v, (y,) = run("gemm")
    near(y, np.einsum("mk,kn->mn", v["a"], v["b"]), atol=4e-3)
    v, (y,) = run("batched_gemm")
    near(y, np.einsum("bmk,bkn->bmn", v["a"], v["b"]), atol=4e-3)
    v, (y,) = run("gemm_bias_gelu")
    product = v["a"] @ v["weight"] + v["bias"]
    expected = np.vectorize(lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)))(product)
    near(y, expected, atol=4e-3)


def test_grouped_gemm_by_rows() -> None:
    v, (y,) = run("grouped_gemm")
    expected = np.zeros_like(y)
    for row in range(len(y)):
        group = int(np.searchsorted(v["offsets"], row, side="right")) - 1
        expected[row] = v["a"][row] @ v["weight"][group]
    near(y, expected, atol=4e-3)


def test_fp8_products() -> None:
    v, (y,) = run("fp8_gemm")
    near(y, (v["a"] @ v["b"].T) * np.outer(v["scale_a"], v["scale_b"]), atol=4e-3)
    v, (y,) = run("fp8_gemm_block", axes={"n": 256, "k": 384})
    left = v["a"] * np.kron(v["scale_a"], np.ones((1, 128)))
    right = v["b"] * np.kron(v["scale_b"], np.ones((128, 128)))
    near(y, left @ right.T, atol=4e-3)


def _scale(x: Array, largest: float) -> Array:
    return np.asarray(np.maximum(np.abs(x).max(-1) / largest, 1e-10))


def test_quantize_int8_codes() -> None:
    v, (codes, scale) = run("quantize_int8_per_row")
    near(scale, _scale(v["x"], 127), rtol=1e-6)
    exact = v["x"] / _scale(v["x"], 127)[:, None]
    assert np.abs(codes).max() == 127
    assert (np.abs(codes - exact) <= 0.5 + 1e-4).all()


def _as_fp8(values: Array) -> Array:
    return values.astype(np.float32).astype(ml_dtypes.float8_e4m3fn).astype(np.float64)


@pytest.mark.parametrize("name", ["per_row", "block"])
def test_quantize_fp8_codes(name: str) -> None:
    v, (codes, scale) = run(f"quantize_fp8_{name}")
    x = v["x"] if name == "per_row" else v["x"].reshape(len(v["x"]), -1, 128)
    expected = _scale(x, 448)
    near(scale, expected, rtol=1e-6)
    wanted = _as_fp8(x / expected[..., None]).reshape(codes.shape)
    assert (codes == wanted).mean() > 0.99
    np.testing.assert_allclose(codes, wanted, rtol=0.13, atol=2**-9)


def test_quantize_fp8_per_tensor_saturates() -> None:
    v, (codes,) = run("quantize_fp8_per_tensor")
    wanted = _as_fp8(np.clip(v["x"] / v["scale"], -448, 448))
    assert (codes == wanted).mean() > 0.99


def test_dequantised_values() -> None:
    v, (y,) = run("dequantize_int8_per_row")
    near(y, v["codes"] * v["scale"][:, None], atol=0)
    v, (y,) = run("dequantize_fp8_block")
    near(y, v["codes"] * np.repeat(v["scale"], 128, axis=1), atol=0)


def test_moe_route_formula() -> None:
    v, (weights, chosen) = run("moe_route")
    p = softmax(v["logits"])
    wanted = np.argsort(-p, axis=1)[:, :2]
    best = np.take_along_axis(p, wanted, axis=1)
    assert (chosen == wanted).all()
    near(weights, best / best.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def test_moe_route_grouped_keeps_to_four_groups() -> None:
    v, (weights, chosen) = run("moe_route_grouped")
    scores = 1 / (1 + np.exp(-v["logits"]))
    biased, width = scores + v["bias"], scores.shape[1] // 8
    for row in range(len(scores)):
        group = [np.sort(part)[-2:].sum() for part in biased[row].reshape(8, width)]
        kept = set(np.argsort(group)[-4:].tolist())
        legal = [e for e in range(8 * width) if e // width in kept]
        wanted = sorted(legal, key=lambda expert: -biased[row, expert])[:8]
        assert chosen[row].tolist() == wanted
        picked = scores[row, wanted]
        near(weights[row], 2.5 * picked / picked.sum(), rtol=1e-5, atol=1e-6)


def test_moe_gather_groups_rows_by_expert() -> None:
    v, (rows, source, counts) = run("moe_gather")
    slots = [(expert, slot) for slot, expert in enumerate(v["experts_of"].reshape(-1))]
    wanted = [slot for _, slot in sorted(slots)]
    assert source.tolist() == wanted
    assert counts.tolist() == [sum(e == expert for e, _ in slots) for expert in range(16)]
    assert (rows == v["x"][np.array(wanted) // 2]).all()


def test_moe_combine_and_scatter_formulas() -> None:
    v, (y,) = run("moe_combine")
    near(y, np.einsum("tkh,tk->th", v["rows"][v["slots"]], v["weights"]), atol=4e-3)
    v, (y,) = run("moe_scatter")
    expected = np.zeros_like(y)
    np.add.at(expected, v["token_of"], v["rows"])
    near(y, expected, atol=4e-3)


def test_moe_experts_formula() -> None:
    v, (y,) = run("moe_experts")
    expected = np.zeros_like(y)
    for row in range(len(y)):
        expert = int(np.searchsorted(v["offsets"], row, side="right")) - 1
        gate, up = np.split(v["rows"][row] @ v["gate_up"][expert], 2)
        expected[row] = (gate / (1 + np.exp(-gate)) * up) @ v["down"][expert]
    near(y, expected, atol=1e-2)


def _first_above(weights: Array, uniform: float) -> int:
    total, goal = 0.0, uniform * weights.sum()
    for token, weight in enumerate(weights):
        total += weight
        if total > goal:
            return token
    return len(weights) - 1


def test_sample_top_k_formula() -> None:
    v, (token,) = run("sample_top_k", scalars={"k": 3, "temperature": 0.7})
    for row, logits in enumerate(v["logits"]):
        weights = np.zeros_like(logits)
        best = np.argsort(logits)[-3:]
        weights[best] = np.exp(logits[best] / 0.7)
        assert token[row] == _first_above(weights, v["uniform"][row])


def test_sample_top_p_formula() -> None:
    v, (token,) = run("sample_top_p", scalars={"top_p": 0.6, "temperature": 1.3})
    for row, p in enumerate(softmax(v["logits"] / 1.3)):
        order = np.argsort(-p)
        count = 1 + int(np.searchsorted(np.cumsum(p[order]), 0.6))
        weights = np.zeros_like(p)
        weights[order[:count]] = p[order[:count]]
        assert token[row] == _first_above(weights, v["uniform"][row])


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
