"""Routing, gathering and experts against formulas in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import near, run, softmax


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
