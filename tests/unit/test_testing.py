"""The oracle as a library: bounds of one call, and an assertion in place of a tolerance."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cuassay
from cuassay.errors import CannotJudgeError, UnknownNameError, UsageError
from cuassay.testing import InaccurateError, assert_accurate, bounds


def _rmsnorm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (wide * weight.float()).to(x.dtype)


def _as_models_write_it(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)


def _sum_in_16_bits(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    total = torch.zeros(x.shape[0], 1, dtype=x.dtype)
    for column in x.square().split(1, dim=1):  # type: ignore[no-untyped-call]
        total += column
    wide = x.float() * torch.rsqrt(total.float() / x.shape[1] + eps)
    return (wide * weight.float()).to(x.dtype)


def _inputs(dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, Tensor, float]:
    drawn = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(48, 384, generator=drawn), torch.randn(384, generator=drawn)
    return x.to(dtype), weight.to(dtype), 1e-6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("kernel", [_rmsnorm, _as_models_write_it])
def test_an_honest_result_is_accurate(
    dtype: torch.dtype, kernel: Callable[[Tensor, Tensor, float], Tensor]
) -> None:
    for seed in range(4):
        inputs = _inputs(dtype, seed)
        assert_accurate(kernel(*inputs), _rmsnorm, inputs, seed=seed)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_sum_in_16_bits_is_not(dtype: torch.dtype) -> None:
    inputs = _inputs(dtype)
    with pytest.raises(InaccurateError, match=r"expected .* times what is allowed") as raised:
        assert_accurate(_sum_in_16_bits(*inputs), _rmsnorm, inputs)
    assert not raised.value.comparisons[0].passed


def test_a_policy_is_binding() -> None:
    inputs = _inputs(torch.bfloat16)
    with pytest.raises(InaccurateError, match="policy strict"):
        assert_accurate(_as_models_write_it(*inputs), _rmsnorm, inputs, policy="strict")


def test_bounds_hold_truth_and_what_a_single_element_may_err_by() -> None:
    x, weight, eps = _inputs(torch.bfloat16)
    known = cuassay.bounds(_rmsnorm, {"x": x, "weight": weight, "eps": eps})
    (output,) = known.outputs
    assert known.policy.value == "mixed"
    assert output.truth.dtype == torch.float64
    assert output.error is not None
    assert output.allowed is not None
    error = (_rmsnorm(x, weight, eps).double() - output.truth).abs()
    assert bool((error <= output.allowed).all())
    assert bool((output.allowed >= output.error).all())
    wide = cuassay.bounds(_rmsnorm, (x.float(), weight.float(), eps)).outputs[0]
    assert wide.error is not None
    assert float(wide.error.mean()) < float(output.error.mean()) / 100


def test_inputs_and_results_may_be_nested() -> None:
    def both(pair: list[Tensor], options: dict[str, object]) -> dict[str, Tensor]:
        scale = options["scale"]
        assert isinstance(scale, float)
        return {"sum": pair[0] + pair[1], "order": torch.argsort(pair[0] * scale, stable=True)}

    inputs = ([torch.randn(64, 64), torch.randn(64, 64)], {"scale": 2.0, "mode": "plain"})
    right = both(*inputs)
    assert_accurate(right, both, inputs)
    with pytest.raises(InaccurateError, match="output0"):
        assert_accurate({**right, "sum": right["sum"] + 0.1}, both, inputs)
    with pytest.raises(UsageError, match="actual holds 1 tensors, expected 2"):
        assert_accurate(right["sum"], both, inputs)


def test_a_wrong_shape_or_type_is_told_as_such() -> None:
    inputs = _inputs(torch.bfloat16)
    right = _rmsnorm(*inputs)
    with pytest.raises(InaccurateError, match=r"has shape \(47, 384\), expected \(48, 384\)"):
        assert_accurate(right[1:], _rmsnorm, inputs)
    with pytest.raises(InaccurateError, match="is float32, expected bfloat16"):
        assert_accurate(right.float(), _rmsnorm, inputs)


def test_what_decides_nothing_is_no_pass() -> None:
    def cancelled(x: Tensor) -> Tensor:
        return (x + 1e8) - 1e8 - x

    x = torch.randn(64, 64)
    with pytest.raises(CannotJudgeError, match="decides nothing on these inputs"):
        assert_accurate(cancelled(x), cancelled, (x,))


def test_invalid_arguments_name_what_is_legal() -> None:
    x = torch.randn(4)
    with pytest.raises(UnknownNameError):
        bounds(torch.exp, (x,), policy="loose")
    with pytest.raises(UsageError, match="accumulation is 'half', expected one of"):
        bounds(torch.exp, (x,), accumulation="half")
    with pytest.raises(UsageError, match="returned no tensor"):
        bounds(lambda x: None, (x,))
