"""Which draws are made in one run, and the memory that is planned for them."""

from __future__ import annotations

import pytest
import torch

from cuassay.model.device import CPU, CUDA, Device
from cuassay.oracle.truth.memory import bytes_needed, is_small, live_bytes


@pytest.mark.parametrize(("device", "most"), [(CPU, 1 << 17), (CUDA, 1 << 24)])
def test_draws_are_made_in_one_run_up_to_a_size_of_the_device(device: Device, most: int) -> None:
    assert is_small(most // 2, most // 2, device)
    assert not is_small(most // 2, most // 2 + 1, device)


@pytest.mark.parametrize(("device", "most"), [(CPU, 1 << 18), (CUDA, 1 << 24)])
def test_of_few_inputs_the_outputs_may_be_larger(device: Device, most: int) -> None:
    assert is_small(1 << 15, most - (1 << 15), device)
    assert not is_small(1 << 15, most - (1 << 15) + 1, device)


def test_a_small_memory_holds_draws_in_one_run_of_few_elements_alone() -> None:
    gib = 1 << 30
    assert is_small(1 << 20, 0, CUDA, budget_bytes=gib)
    assert not is_small(1 << 22, 0, CUDA, budget_bytes=gib)
    assert is_small(1 << 22, 0, CUDA, budget_bytes=8 * gib)


def test_draws_in_one_run_take_the_memory_of_all() -> None:
    x = torch.empty(1 << 19, device="meta")
    live = live_bytes(torch.exp, [x])
    needed = {
        device: bytes_needed(live, [x], [x.shape], draws=8, device=device) for device in (CPU, CUDA)
    }
    assert needed[CUDA] - needed[CPU] >= 7 * 8 * x.numel()
