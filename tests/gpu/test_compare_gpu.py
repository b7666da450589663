"""On a GPU: the fused comparator agrees with the plain path, truth is the same, memory is small."""

from __future__ import annotations

import math

import pytest
import torch
from tests.support.oracle_cases import spec
from torch import Tensor

from cuassay.oracle.compare import groups as compare_groups
from cuassay.oracle.compare import sums as compare_sums
from cuassay.oracle.compare.outputs import compare, output_sums
from cuassay.oracle.truth.make import OutputTruth, hit_counts, make_truth

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
_DTYPES = ["float32", "bfloat16", "float16"]


def _scaled(x: Tensor) -> Tensor:
    return x * 1.5


def _truth(x: Tensor, dtype: str, *shape: str) -> OutputTruth:
    return make_truth(_scaled, [x], [spec(dtype, *shape)], seed=1).outputs[0]


@pytest.mark.parametrize("dtype", _DTYPES)
@pytest.mark.parametrize(
    "shape", [(1000, 777), (33, 4096), (5, 7, 130), (100_003,), (4096, 3), (7,)]
)
def test_fused_and_plain_sums_agree(dtype: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, device="cuda").to(getattr(torch, dtype))
    truth = _truth(x, dtype, *"abc"[: len(shape)])
    candidate = x * 1.5
    if candidate.numel() > 50:
        candidate.view(-1)[41] = math.nan
        candidate.view(-1)[43] *= 1.1
    compare_triton = pytest.importorskip("cuassay.oracle.compare.triton_sums")
    _, views = output_sums(candidate, truth)
    fused = compare_triton.fused_sums(*views, truth)
    plain = compare_sums.eager_sums(*views, truth)
    scale = plain.rows.abs().amax(1, keepdim=True)
    assert ((fused.rows - plain.rows).abs() <= 1e-4 * scale + 1e-12).all()
    if fused.columns.numel():
        scale = plain.columns.abs().amax(1, keepdim=True)
        assert ((fused.columns - plain.columns).abs() <= 1e-4 * scale + 1e-12).all()
    assert float(fused.peak.max()) == pytest.approx(float(plain.peak.max()), rel=1e-4)


def test_columns_of_two_have_more_strips_than_a_grid_is_high() -> None:
    x = torch.randn(17_000_000, 2, device="cuda").bfloat16()
    truth = _truth(x, "bfloat16", "m", "n")
    assert compare(x * 1.5, truth).passed
    wrong = x * 1.5
    wrong[16_999_998, 1] += 100.0
    assert compare(wrong, truth).worst_index == (16_999_998, 1)


@pytest.mark.parametrize("spoil", ["large", "nan", "zero"])
def test_the_worst_place_of_a_large_output_is_found(spoil: str) -> None:
    torch.manual_seed(4)
    x = torch.randn(2048, 1024, device="cuda").bfloat16()
    x[100:200] = 0.0
    truth = _truth(x, "bfloat16", "m", "n")
    candidate = x * 1.5
    assert compare(candidate, truth).passed
    row = 150 if spoil == "zero" else 1777
    candidate[row, 1001] = {"large": 100.0, "nan": math.nan, "zero": 1e-3}[spoil]
    found = compare(candidate, truth)
    assert not found.passed
    assert found.worst_index == (row, 1001)
    assert found.error_map is not None
    worst = max(range(len(found.error_map.cells)), key=found.error_map.cells.__getitem__)
    assert divmod(worst, found.error_map.columns) == (row // 64, 1001 // 16)


@pytest.mark.parametrize("dtype", _DTYPES)
def test_statistics_agree_with_the_cpu(dtype: str) -> None:
    torch.manual_seed(1)
    x = torch.randn(300, 640).to(getattr(torch, dtype))
    broken = (x * 1.5).clone()
    broken[7] *= 1.01
    on_cpu = _truth(x, dtype, "m", "n")
    on_gpu = _truth(x.cuda(), dtype, "m", "n")
    for candidate, passed in ((x * 1.5, True), (broken, False)):
        here, there = compare(candidate, on_cpu), compare(candidate.cuda(), on_gpu)
        assert here.passed is there.passed is passed
        assert there.share == pytest.approx(here.share, rel=0.25)


def test_a_candidate_on_another_device_is_moved() -> None:
    x = torch.randn(64, 64, device="cuda")
    assert compare((x * 1.5).cpu(), _truth(x, "float32", "m", "n")).passed


def test_hit_groups_on_the_device() -> None:
    torch.manual_seed(2)
    ids = torch.randint(0, 50, (20_000,), device="cuda")
    grad = torch.randn(20_000, 128, device="cuda").bfloat16()

    def reference(g: Tensor, i: Tensor) -> Tensor:
        out = torch.zeros(64, 128, device=g.device)
        return out.index_add_(0, i, g.float()).bfloat16()

    truth = make_truth(
        reference,
        [grad, ids],
        [spec("bfloat16", "v", "h")],
        seed=3,
        index_hits={"y": hit_counts(ids, 64)},
    ).outputs[0]
    assert compare(reference(grad, ids), truth).passed
    low = torch.zeros(64, 128, dtype=torch.bfloat16, device="cuda").index_add_(0, ids, grad)
    found = compare(low, truth)
    assert not found.passed
    assert found.groups[compare_groups.HIT_LABELS[3]][0] > 2 * found.trusted_relative_error


def test_extra_memory_of_a_comparison_is_a_small_part_of_the_output() -> None:
    x = torch.randn(16_384, 4096, device="cuda").bfloat16()
    truth = _truth(x, "bfloat16", "m", "n")
    candidate = x * 1.5
    compare(candidate, truth)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    assert compare(candidate, truth).passed
    extra = torch.cuda.max_memory_allocated() - before
    assert extra < 0.5 * 4 * candidate.numel()
