"""Gates are nearly closed in one case, whatever stands before them."""

from __future__ import annotations

import pytest
import torch

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.judge.look import look_at
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile


def _gates(name: str) -> tuple[list[tuple[float, float]], Case | None]:
    """Return how far each gate of the case is closed, and the case; none where there is none."""
    problem = registry.get(name)
    call = load_reference(problem).call
    looks = 0

    def gates(case: Case) -> tuple[tuple[float, float], ...]:
        nonlocal looks
        looks += 1
        values = list(materialise(problem, case, device=CPU).values())
        return look_at(call, values, lambda watched: watched(*values)).gates

    cases = plan_cases(problem, "ends", profile=Profile.QUICK, root_seed=5, gates=gates)
    assert looks <= 13
    found = next((one for one in cases if one.label == "gates nearly closed"), None)
    return (list(gates(found)) if found is not None else []), found


@pytest.mark.parametrize("name", ["swiglu", "swiglu_backward", "geglu", "gemm_bias_gelu"])
def test_rows_lie_from_where_a_gate_is_open_to_where_its_tail_is_lost(name: str) -> None:
    closed, case = _gates(name)
    assert case is not None
    low, high = max(closed, key=lambda one: one[1])
    assert 0.0 < low < 0.25
    assert 1.0 <= high < 2.0


def test_some_row_lies_where_another_form_has_lost_half_and_a_flush_loses_all() -> None:
    problem = registry.get("swiglu")
    _, case = _gates("swiglu")
    assert case is not None
    gate = materialise(problem, case, device=CPU)["gate"]
    assert isinstance(gate, torch.Tensor)
    rows = gate.float()
    assert bool(((rows < -15.0).all(-1) & (rows > -16.7).all(-1)).any())


@pytest.mark.parametrize("name", ["rmsnorm", "attention", "embedding"])
def test_a_reference_without_gates_has_no_such_case(name: str) -> None:
    assert _gates(name) == ([], None)
