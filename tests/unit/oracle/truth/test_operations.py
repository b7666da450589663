"""The classes of operations: torch has them, and none belongs to two ways of rounding."""

from __future__ import annotations

from typing import Any

import torch

from cuassay.oracle.truth.operations import ARITHMETIC, EXACT, STEPS, TRANSCENDENTAL

_aten: Any = torch.ops.aten


def test_an_operation_rounds_in_one_way() -> None:
    assert not EXACT & ARITHMETIC
    assert not EXACT & TRANSCENDENTAL
    assert not ARITHMETIC & TRANSCENDENTAL


def test_what_jumps_is_exact_or_rounds_once() -> None:
    assert not STEPS & TRANSCENDENTAL
    assert {"argmax", "topk", "floor", "lt"} <= STEPS & EXACT


def test_names_of_rounded_operations_are_torchs_own() -> None:
    known = {name for name in ARITHMETIC | TRANSCENDENTAL if hasattr(_aten, name)}
    unknown = (ARITHMETIC | TRANSCENDENTAL) - known
    # What torch decomposes before dispatch, under the names that the models here give them.
    assert unknown <= {"relu_backward", "mse_loss_pointwise", "masked_scale"}
