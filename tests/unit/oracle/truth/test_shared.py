"""Inputs that repeat: one rounding error must not count as many, nor hide a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.groups import GroupKind
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.make import OutputTruth
from cuassay.oracle.truth.shared import FlatOutput, shared
from tests.support.oracle_cases import normal, truth_of

_ROWS, _COLUMNS = 24, 640


def _share(value: Tensor, kind: GroupKind, *, noise: float = 1e-6) -> Tensor:
    runs = [torch.full((value.numel(),), noise)]
    judged = FlatOutput(
        value=value.reshape(-1).double(),
        scale=torch.full((value.numel(),), 1e-6, dtype=torch.float64),
        runs=runs,
    )
    return shared(judged, [kind], tuple(value.shape), None).pairs


_TENSOR = GroupKind(kind="tensor")
_AXIS0, _AXIS1 = GroupKind(kind="axis", axis=0), GroupKind(kind="axis", axis=1)


def test_independent_values_share_nothing() -> None:
    x = normal(20, 50)
    for kind in (_TENSOR, _AXIS0, _AXIS1):
        assert float(_share(x, kind).max()) == 0.0


def test_a_constant_slice_is_one_error_and_only_that_slice() -> None:
    x = normal(20, 50)
    x[7] = 3.0
    found = _share(x, _AXIS0)
    assert float(found[7]) == 1.0
    assert float(found[:7].max()) == 0.0


def test_equal_rows_share_errors_along_columns_and_in_the_whole() -> None:
    x = normal(1, 50).expand(40, 50).contiguous()
    assert float(_share(x, _AXIS1).min()) == 1.0
    assert float(_share(x, _AXIS0).max()) == 0.0
    assert float(_share(x, _TENSOR)) == pytest.approx(1 / 50, rel=0.5)


def test_blocks_and_few_values_are_counted() -> None:
    blocks = normal(8, 16).repeat_interleave(10, 1)
    assert float(_share(blocks, _AXIS0).mean()) == pytest.approx(9 / 159, rel=0.5)
    few = torch.randint(0, 2, (8, 400), generator=torch.Generator().manual_seed(1))
    assert float(_share(few + 1.0, _AXIS0).mean()) == pytest.approx(0.5, abs=0.1)


def test_rows_of_a_batch_are_groups_of_their_own() -> None:
    x = normal(3, 4, 32)
    x[1, 2] = 1.0
    found = _share(x, GroupKind(kind="rows"))
    assert found.shape == (12,)
    assert int((found == 1.0).sum()) == 1
    assert float(found[6]) == 1.0


def test_zeros_without_noise_are_exact_rather_than_shared() -> None:
    x = normal(20, 64).clamp_min(0.0)
    assert float(_share(x, _AXIS0, noise=0.0).max()) == 0.0
    assert float(_share(x, _AXIS0).min()) > 0.05


def test_sums_that_differ_in_the_last_bit_of_float64_are_equal() -> None:
    x = torch.full((20, 64), 0.1, dtype=torch.float64)
    x += 1e-17 * normal(20, 64).double()
    assert float(_share(x, _AXIS0).min()) == 1.0


def _running(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[..., :1])
    for column in torch.split(x, 1, -1):
        total = total + column
    return total


def _backward(total: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def gradient(grad: Tensor, x: Tensor, rstd: Tensor) -> Tensor:
        normed = x.float() * rstd
        along = total(grad.float() * normed) / x.shape[-1]
        return ((grad.float() - normed * along) * rstd).to(x.dtype)

    return gradient


_reference = _backward(lambda t: t.sum(-1, keepdim=True))
_FILLS = {
    "ones": torch.ones(_ROWS, _COLUMNS),
    "constant": torch.full((_ROWS, _COLUMNS), 0.3),
    "equal rows": normal(1, _COLUMNS).expand(_ROWS, _COLUMNS).contiguous(),
    "blocks": normal(_ROWS, _COLUMNS // 64).repeat_interleave(64, 1),
    "0 and 1": (normal(_ROWS, _COLUMNS) > 0).float(),
}


@pytest.fixture(scope="module", params=list(_FILLS))
def repeated(request: pytest.FixtureRequest) -> tuple[list[Tensor], OutputTruth]:
    x = _FILLS[request.param]
    inputs = [x.clone(), x.clone(), normal(_ROWS, 1).abs() + 0.5]
    return inputs, truth_of(_reference, inputs, "float32", "m", "n")


def test_every_float32_order_of_summation_passes_on_inputs_that_repeat(
    repeated: tuple[list[Tensor], OutputTruth],
) -> None:
    inputs, truth = repeated
    split = _backward(
        lambda t: torch.stack([p.sum(-1) for p in torch.split(t, 40, -1)], -1).sum(-1, True)
    )
    product = _backward(lambda t: t @ torch.ones(_COLUMNS, 1))
    for kernel in (_reference, split, product, _backward(_running)):
        found = compare(kernel(*inputs), truth)
        assert found.passed, found.worst
        assert found.share < 0.7


def test_a_lost_term_and_low_precision_still_show_on_inputs_that_repeat(
    repeated: tuple[list[Tensor], OutputTruth],
) -> None:
    inputs, truth = repeated
    lost = _backward(lambda t: t[..., 1:].sum(-1, keepdim=True))
    low = _backward(lambda t: t.bfloat16().sum(-1, keepdim=True).float())
    first = inputs[0][:, 0]
    if bool((first != 0).any()):
        assert not compare(lost(*inputs), truth).passed
    if bool((inputs[0] != inputs[0].bfloat16()).any()):
        assert not compare(low(*inputs), truth).passed


def test_the_number_of_independent_errors_decides_which_statistics_judge() -> None:
    x = torch.full((_ROWS, _COLUMNS), 0.3)
    x[0] = normal(1, _COLUMNS, seed=5)
    truth = truth_of(lambda v: v.float() * 1.1, [x], "float32", "m", "n")
    assert truth.yardsticks is not None
    assert [kind.axis for kind in truth.yardsticks.kinds[:2]] == [None, 0]
    _, judged, _ = torch.split(truth.yardsticks.judged, list(truth.yardsticks.sizes), 1)
    assert judged[1].tolist() == [True] + [False] * (_ROWS - 1)
    assert judged[3].tolist() == [True] + [False] * (_ROWS - 1)
    wrong = x * 1.1
    wrong[0] *= 1 + 2e-6
    assert not compare(wrong, truth).passed
    wrong = x * 1.1
    wrong[3] *= 1 + 2e-6  # the worst element has no minimum of independent errors
    assert not compare(wrong, truth).passed


def test_hot_rows_of_equal_gradients_pass_and_a_lost_hit_does_not() -> None:
    grad, ids = torch.full((900, 32), 0.3), torch.arange(900) % 3

    def scatter(g: Tensor, i: Tensor) -> Tensor:
        return torch.zeros(4, 32).index_add_(0, i, g)

    truth = truth_of(scatter, [grad, ids], "float32", "v", "h")
    one = _running(torch.full((1, 300), 0.3)).expand(3, 32)
    running = torch.cat([one, torch.zeros(1, 32)])
    assert compare(running, truth).passed
    assert not compare(scatter(grad[1:], ids[1:]), truth).passed


@pytest.mark.parametrize("fill", ["constant", "blocks"])
def test_a_running_product_of_repeated_terms_passes_and_tf32_does_not(fill: str) -> None:
    a, b = _FILLS[fill], _FILLS[fill].t().contiguous()
    truth = truth_of(torch.matmul, [a, b], "float32", "m", "n")
    total = torch.zeros(_ROWS, _ROWS)
    for k in range(_COLUMNS):
        total = (total.double() + a[:, k : k + 1].double() * b[k : k + 1].double()).float()
    assert compare(total, truth).passed
    low = (a.view(torch.int32) & ~0x1FFF).view(torch.float32)
    assert not compare(low @ low.t(), truth).passed


def test_softmax_and_layer_norm_of_few_values_accept_running_sums() -> None:
    x = torch.tensor([0.37, -0.81, 1.3])[torch.arange(24 * 640) % 3].view(24, 640)
    truth = truth_of(lambda v: torch.softmax(v, -1), [x], "float32", "m", "n")
    e = torch.exp(x - x.amax(-1, keepdim=True))
    assert compare(e / _running(e), truth).passed
    truth = truth_of(lambda v: torch.nn.functional.layer_norm(v, (640,)), [x], "float32", "m", "n")
    centred = x - _running(x) / 640
    variance = _running(centred.square()) / 640
    assert compare(centred * torch.rsqrt(variance + 1e-5), truth).passed
    assert not compare(centred * torch.rsqrt(variance * 640 / 639 + 1e-5), truth).passed


def test_a_scan_of_equal_terms_may_run_and_may_not_carry_bfloat16() -> None:
    x = torch.full((24, 640), 0.3)
    truth = truth_of(lambda v: v.cumsum(-1), [x], "float32", "m", "n")
    parts, total = [], torch.zeros(24, 1)
    for column in torch.split(x, 1, -1):
        total = total + column
        parts.append(total)
    assert compare(torch.cat(parts, -1), truth).passed
    low = torch.cat(parts, -1).bfloat16().float()
    assert not compare(low, truth).passed
