"""A truth decides where at least one of its outputs does."""

from __future__ import annotations

import torch

from cuassay.model.dtype import DType
from cuassay.oracle.truth.types import OutputTruth, Truth


def _truth(*why: str) -> Truth:
    outputs = tuple(
        OutputTruth(
            name=f"y{n}", dtype=DType.FLOAT32, value=torch.zeros(1), scale=None, ill_conditioned=one
        )
        for n, one in enumerate(why)
    )
    return Truth(outputs=outputs, kind="float64", reason="")


def test_one_output_that_can_be_judged_is_enough() -> None:
    assert _truth("", "a pole").ill_conditioned == ""
    assert _truth("a pole", "a pole", "cancels").ill_conditioned == "a pole; cancels"
