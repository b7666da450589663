"""BIG001: what more elements than 32 bits count are judged as, declared and not declared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch import Tensor

from cuassay.checks.numeric import large_tensors
from cuassay.checks.numeric.large_tensors import Big001
from cuassay.model.effort import Effort
from cuassay.model.outcome import FindingClass
from tests.support.fake_trial import examine, scaled_add

Kernel = Callable[[Tensor, Tensor, float], Tensor]
LIMIT = 4096


def honest(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    return x * gain + bias


def wraps(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    out = (x * gain + bias).contiguous()
    out.view(-1)[LIMIT:] = 0.0
    return out


def crashes(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    if x.numel() > LIMIT:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return honest(x, bias, gain)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tensors, "_LIMIT", LIMIT)
    monkeypatch.setattr(large_tensors, "_OVER", LIMIT // 4)
    monkeypatch.setattr(Effort, "beyond_elements", (LIMIT,))
    monkeypatch.setattr(large_tensors, "_fits", lambda problem, sizes: True)


@pytest.mark.parametrize("kernel", [wraps, crashes])
def test_a_declared_size_is_wrong(kernel: Kernel) -> None:
    (found,) = examine(Big001(), scaled_add(declared=True), lambda: kernel)
    assert found.finding_class is FindingClass.WRONG
    assert not found.condition
    assert "rows = 80" in found.message


@pytest.mark.parametrize("kernel", [wraps, crashes])
def test_a_size_that_nobody_declared_is_a_condition(kernel: Kernel) -> None:
    (found,) = examine(Big001(), scaled_add(declared=False), lambda: kernel)
    assert found.code == "BIG001"
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition.startswith("large-tensors: ")


@pytest.mark.parametrize("declared", [True, False])
def test_offsets_in_64_bits_are_silent(declared: bool) -> None:
    assert examine(Big001(), scaled_add(declared=declared), lambda: honest) == []
