"""Known targets: faults that must be caught, honest forms that must pass, on one oracle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import Comparison, compare
from cuassay.oracle.grade import grade
from cuassay.oracle.truth.make import OutputTruth, hit_counts, make_truth
from tests.support.oracle_cases import normal, spec, truth_of

_VOCABULARY, _WIDTH, _TOKENS = 256, 48, 3000


def _embedding_gradient(grad: Tensor, ids: Tensor) -> Tensor:
    out = torch.zeros(_VOCABULARY, grad.shape[1])
    return out.index_add_(0, ids, grad.float()).to(grad.dtype)


def _by_tiles(grad: Tensor, ids: Tensor, tile: int) -> Tensor:
    """Accumulate float32 inside tiles of one row's hits, bfloat16 across them."""
    out = torch.zeros(_VOCABULARY, grad.shape[1], dtype=torch.bfloat16)
    for row in sorted(set(ids.tolist())):
        total = torch.zeros(grad.shape[1])
        for part in torch.split(grad[ids == row].float(), tile):
            total = (total + part.sum(0)).to(torch.bfloat16).float()
        out[row] = total.to(torch.bfloat16)
    return out


def _pairwise(grad: Tensor, ids: Tensor) -> Tensor:
    out = torch.zeros(_VOCABULARY, grad.shape[1], dtype=torch.bfloat16)
    for row in sorted(set(ids.tolist())):
        parts = grad[ids == row].float()
        while len(parts) > 1:
            if len(parts) % 2:
                parts = torch.cat((parts, torch.zeros(1, grad.shape[1])))
            parts = (parts[::2] + parts[1::2]).to(torch.bfloat16).float()
        out[row] = parts[0].to(torch.bfloat16)
    return out


@pytest.fixture(scope="module")
def hot() -> tuple[Tensor, Tensor, OutputTruth]:
    generator = torch.Generator().manual_seed(3)
    chance = 1.0 / torch.arange(1, _VOCABULARY + 1).double()
    ids = torch.multinomial(chance, _TOKENS, replacement=True, generator=generator)
    grad = normal(_TOKENS, _WIDTH, seed=4, dtype=torch.bfloat16)
    truth = make_truth(
        _embedding_gradient,
        [grad, ids],
        [spec("bfloat16", "vocabulary", "hidden")],
        seed=5,
        index_hits={"y": hit_counts(ids, _VOCABULARY)},
    )
    return grad, ids, truth.outputs[0]


@pytest.mark.parametrize(
    "faulty",
    [
        lambda g, i: _by_tiles(g, i, 1),
        lambda g, i: _by_tiles(g, i, 32),
        _pairwise,
    ],
    ids=["running", "tile 32", "pairwise"],
)
def test_low_precision_accumulation_on_hot_rows_is_caught(
    hot: tuple[Tensor, Tensor, OutputTruth], faulty: Callable[[Tensor, Tensor], Tensor]
) -> None:
    grad, ids, truth = hot
    found = compare(faulty(grad, ids), truth)
    assert not found.passed
    candidate, trusted = found.groups["rows with >= 256 hits"]
    assert candidate > 2 * trusted
    assert found.groups["rows with 1 hit"][0] == 0.0


def test_float32_accumulation_in_any_order_is_accepted(
    hot: tuple[Tensor, Tensor, OutputTruth],
) -> None:
    grad, ids, truth = hot
    order = torch.randperm(_TOKENS, generator=torch.Generator().manual_seed(1))
    assert compare(_embedding_gradient(grad[order], ids[order]), truth).passed
    assert compare(_by_tiles(grad, ids, _TOKENS), truth).passed


def _truncated(x: Tensor) -> Tensor:
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.fixture(scope="module")
def product() -> tuple[Tensor, Tensor, OutputTruth]:
    a, b = normal(24, 8192), normal(8192, 32, seed=1)
    return a, b, truth_of(torch.matmul, [a, b], "float32", "m", "n")


def test_tf32_and_float16_inputs_are_rejected_in_a_float32_product(
    product: tuple[Tensor, Tensor, OutputTruth],
) -> None:
    a, b, truth = product
    for low in (_truncated(a) @ _truncated(b), a.half().float() @ b.half().float()):
        found = compare(low, truth)
        assert found.share > 10
        assert grade([found]) == "none"


def test_honest_products_pass_with_grade_float32(
    product: tuple[Tensor, Tensor, OutputTruth],
) -> None:
    a, b, truth = product
    parts = zip(a.tensor_split(8, 1), b.tensor_split(8, 0), strict=True)
    split = torch.stack([x @ y for x, y in parts]).sum(0)
    exact = (a.double() @ b.double()).float()
    found: list[Comparison] = [compare(y, truth) for y in (a @ b, split, exact)]
    assert all(comparison.passed for comparison in found)
    assert found[2].share < 0.1
    assert grade(found) == "strict"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_wrong_divisor_of_a_variance_is_caught(dtype: str) -> None:
    x = normal(48, 128, dtype=getattr(torch, dtype))

    def standardise(v: Tensor, correction: int = 0) -> Tensor:
        var, mean = torch.var_mean(v.float(), -1, keepdim=True, correction=correction)
        return ((v.float() - mean) * torch.rsqrt(var + 1e-5)).to(v.dtype)

    truth = truth_of(standardise, [x], dtype, "m", "n")
    assert compare(standardise(x), truth).passed
    assert not compare(standardise(x, 1), truth).passed


@pytest.mark.parametrize("columns", [64, 512])
def test_gain_of_one_bfloat16_row_of_a_product_is_caught(columns: int) -> None:
    a, b = normal(16, 256, dtype=torch.bfloat16), normal(256, columns, seed=1, dtype=torch.bfloat16)
    truth = truth_of(torch.matmul, [a, b], "bfloat16", "m", "n")
    broken = truth.value.clone()
    broken[7] *= 1.004
    assert compare(truth.value.bfloat16(), truth).passed
    assert not compare(broken.bfloat16(), truth).passed


def test_a_rounding_in_the_middle_is_honest_and_so_is_its_absence() -> None:
    x, w = normal(64, 256, dtype=torch.bfloat16), normal(256, seed=2, dtype=torch.bfloat16)

    def reference(v: Tensor, weight: Tensor) -> Tensor:
        y = v.float() * torch.rsqrt(v.float().square().mean(-1, keepdim=True) + 1e-6)
        return y.to(torch.bfloat16) * weight

    def fused(v: Tensor, weight: Tensor) -> Tensor:
        y = v.float() * torch.rsqrt(v.float().square().mean(-1, keepdim=True) + 1e-6)
        return (y * weight.float()).to(torch.bfloat16)

    truth = truth_of(reference, [x, w], "bfloat16", "m", "n")
    assert compare(reference(x, w), truth).passed
    assert compare(fused(x, w), truth).passed
    strict = truth_of(fused, [x, w], "bfloat16", "m", "n")
    assert compare(fused(x, w), strict).passed
