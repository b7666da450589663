"""Outputs that are mostly rows of zeros: looking at the other rows alone changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle.compare import sums as compare_sums
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth import random_errors as trust_random
from cuassay.oracle.truth import scale as trust_scale
from cuassay.oracle.truth import yardstick as trust_yardstick
from cuassay.oracle.truth.make import OutputTruth, hit_counts, make_truth
from tests.support.oracle_cases import spec

_ROWS, _COLUMNS, _TOKENS = 96, 24, 40


def _gradient(grad: Tensor, index: Tensor) -> Tensor:
    out = torch.zeros(_ROWS, _COLUMNS)
    return out.index_add_(0, index, grad.float()).to(grad.dtype)


def _inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    grad = torch.randn(_TOKENS, _COLUMNS, generator=generator).to(dtype)
    return grad, torch.randint(0, 11, (_TOKENS,), generator=generator)


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_random, "_LARGE", {"cpu": 1})


def _truth(dtype: torch.dtype) -> OutputTruth:
    grad, index = _inputs(dtype)
    name = str(dtype).removeprefix("torch.")
    hits = {"y": hit_counts(index, _ROWS)}
    return make_truth(
        _gradient, [grad, index], [spec(name, "v", "h")], seed=1, index_hits=hits
    ).outputs[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_truth_is_the_same_up_to_the_noise(
    dtype: torch.dtype, request: pytest.FixtureRequest
) -> None:
    full = _truth(dtype)
    request.getfixturevalue("small_is_large")
    few = _truth(dtype)
    assert full.scale is not None
    assert few.scale is not None
    assert torch.equal(full.value, few.value)
    assert torch.equal(full.scale == 0, few.scale == 0)
    ratio = few.scale[full.scale > 0] / full.scale[full.scale > 0]
    assert 0.3 < float(ratio.min()) <= float(ratio.max()) < 3.0
    one, other = full.yardsticks, few.yardsticks
    assert one is not None
    assert other is not None
    assert torch.equal(one.count, other.count)
    torch.testing.assert_close(one.signal, other.signal)
    torch.testing.assert_close(one.energy, other.energy, rtol=0.5, atol=1e-9)
    grad, index = _inputs(dtype)
    for truth in (full, few):
        assert compare(_gradient(grad, index), truth).passed
        assert not compare(_gradient(grad, (index + 1) % _ROWS), truth).passed


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("live", [0, 1, 9])
def test_the_scale_does_not_depend_on_rows_of_zeros(
    live: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(2)
    value = torch.zeros(_ROWS, _COLUMNS, dtype=torch.float64)
    rows = torch.arange(live) * 7
    value[rows] = torch.randn(live, _COLUMNS, generator=generator, dtype=torch.float64)
    runs = [value.float() * 2.0**-20 * (1 + index) for index in range(5)]

    def scale() -> trust_scale.Scale:
        return trust_scale.achievable(
            trust_scale.Runs(
                value=value, deviations=runs[:3], errors=runs[3:], dtype=DType.BFLOAT16,
                roundoff=2.0**-24, rounded=False, discontinuous=False,
            )
        )  # fmt: skip

    few = scale()
    monkeypatch.setattr(trust_random, "_LARGE", {"cpu": 1 << 40})
    full = scale()
    torch.testing.assert_close(few.full, full.full)
    torch.testing.assert_close(few.noise, full.noise)


def test_folding_kept_rows_gives_the_sums_of_all() -> None:
    values = torch.zeros(50, 7, dtype=torch.float64)
    kept = torch.tensor([3, 4, 40])
    values[kept] = torch.randn(3, 7, generator=torch.Generator().manual_seed(1)).double()
    device = values.device
    few = compare_sums.fold(
        (50, 7), lambda r, c: [values[kept][r, c][None]], 1, device=device, kept=kept
    )
    full = compare_sums.fold((50, 7), lambda r, c: [values[r, c][None]], 1, device=device)
    for mine, theirs in zip(few, full, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.usefixtures("small_is_large")
def test_full_tensors_have_no_scarce_rows() -> None:
    assert trust_random.scarce_rows(torch.ones(10, 10)) is None


def test_a_truth_without_any_trusted_run_has_yardsticks_all_the_same() -> None:
    value = torch.randn(40, 24, generator=torch.Generator().manual_seed(2)).double()
    scale = torch.full_like(value, 1e-3)
    runs = trust_scale.Runs(
        value=value,
        deviations=[],
        errors=[],
        dtype=DType.FLOAT32,
        roundoff=2.0**-24,
        rounded=False,
        discontinuous=False,
    )
    given = trust_scale.Scale(full=scale, noise=scale)
    whole = trust_yardstick.yardsticks(runs, given, ("m", "n"), None, unit=1e-3)
    assert float(whole.count[0]) == value.numel()
    assert float(whole.energy[0]) == pytest.approx(value.numel())
