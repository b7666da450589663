"""Soft-maxes with a mask and with dropout against formulas in numpy float64."""

from __future__ import annotations

import numpy as np

from tests.support.catalog import near, run, softmax


def test_masked_soft_max_and_dropout() -> None:
    v, (p,) = run("softmax_masked")
    assert not v["mask"].all()
    near(p, softmax(np.where(v["mask"], v["scores"] * v["scale"], -np.inf)))
    v, (p,) = run("softmax_dropout", scalars={"p": 0.25})
    near(p, softmax(v["scores"] * v["scale"]) * v["kept"] / 0.75)


def test_softmax_softcap_formula() -> None:
    v, (p,) = run("softmax_softcap")
    near(p, softmax(v["cap"] * np.tanh(v["logits"] / v["cap"])))
