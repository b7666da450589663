"""Families hold programs: real roundings, and casts where types meet."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import measure
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.programs import programs
from cuassay.oracle.truth.random_errors import (
    BFLOAT16,
    FACTORS,
    FLOAT16,
    Grid,
    Noise,
    nearest,
    nearest_multiple,
)
from cuassay.oracle.truth.types import OutputTruth
from tests.support.oracle_cases import normal, spec

_MIXED = family_of(Precision.MIXED, DType.BFLOAT16)
_TYPES = {torch.bfloat16: BFLOAT16, torch.float16: FLOAT16}


@pytest.mark.parametrize("dtype", _TYPES)
def test_nearest_is_the_cast_but_for_what_leaves_the_range(dtype: torch.dtype) -> None:
    values = torch.cat([normal(4000) * 10.0**power for power in (-8.0, -5.0, -2.0, 0.0, 3.0)])
    values = torch.cat([values, torch.tensor([0.0, 1.0, float("inf"), -float("inf")])]).double()
    assert torch.equal(nearest(values, _TYPES[dtype]), values.float().to(dtype).double())
    beyond = torch.tensor([1e31, 3e38, float("nan")], dtype=torch.float64)
    assert torch.equal(nearest(beyond, _TYPES[dtype])[:2], beyond[:2])
    assert bool(nearest(beyond, _TYPES[dtype])[2].isnan())
    large = torch.tensor([70_000.0], dtype=torch.float64)
    assert nearest(large, FLOAT16).isfinite().all()


@pytest.mark.parametrize("grid", [BFLOAT16, FLOAT16])
def test_a_draw_stores_really_or_errs_by_as_much(grid: Grid) -> None:
    values = normal(20_000).double()
    rounds, errs = (
        Noise(1, 2.0**-24, torch.device("cpu"), rounds=rounds).stored(values, grid)
        for rounds in (True, False)
    )
    assert torch.equal(rounds, nearest(values, grid))
    ratio = (errs - values).square().mean() / (rounds - values).square().mean()
    assert 0.8 < float(ratio) < 1.2
    assert not torch.equal(errs, rounds)


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * rstd * weight.float()).to(x.dtype)


def _norm_of_a_model(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return weight * wide.to(x.dtype)


def _truth(fn: object, inputs: list[Tensor], output: Tensor, seed: int = 1) -> OutputTruth:
    named = spec(str(output.dtype).removeprefix("torch."), *"abc"[: output.dim()])
    return make_truth(fn, inputs, [named], seed=seed, family=_MIXED).outputs[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_nearly_equal_values_round_alike_and_pass(offset: float, seed: int) -> None:
    """Of rows around one value a cast moves all elements one way: their mean shows it."""
    x = (normal(48, 256, seed=seed) + offset).bfloat16()
    weight = (1.0 + 0.1 * normal(256, seed=seed + 10)).bfloat16()
    found = measure(_norm_of_a_model(x, weight), _truth(_norm, [x, weight], x, seed))
    assert found.passed, found.worst
    gain = (_norm(x, weight).float() * 1.006).bfloat16()
    assert offset or not measure(gain, _truth(_norm, [x, weight], x, seed)).passed


def _turn(x: Tensor, table: Tensor, places: Tensor) -> Tensor:
    return (x.float() * table[places]).to(x.dtype)


def test_a_float32_table_may_be_cast_where_it_meets_16_bits() -> None:
    x, table = normal(256, 64).bfloat16(), normal(8, 64, seed=2).cos()
    places = torch.arange(256) % 8
    cast = x * table.bfloat16()[places]
    truth = _truth(_turn, [x, table, places], cast)
    assert measure(cast, truth).passed
    assert not measure(x * (table + 0.01).bfloat16()[places], truth).passed
    strict = make_truth(_turn, [x, table, places], [spec("bfloat16", "a", "b")], seed=1).outputs[0]
    assert not measure(cast, strict).passed


def test_norms_are_taken_in_the_steps_of_a_models_code() -> None:
    x, weight, bias = (
        normal(*shape, seed=n).bfloat16() for n, shape in enumerate([(64, 256), (256,), (256,)])
    )

    def reference(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.nn.functional.layer_norm(x, (256,), weight, bias)

    wide = x.float()
    normed = (wide - wide.mean(-1, keepdim=True)) * (
        wide.var(-1, unbiased=False, keepdim=True) + 1e-5
    ).rsqrt()
    steps = normed.bfloat16() * weight + bias
    assert measure(steps, _truth(reference, [x, weight, bias], steps)).passed


def _gated(x: Tensor, gate: Tensor) -> Tensor:
    wide = x.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * rstd * torch.nn.functional.silu(gate.float())).to(x.dtype)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_of_two_roundings_that_cancel_where_both_are_made_is_a_programs_too(seed: int) -> None:
    x, gate = normal(64, 16384, seed=seed), normal(64, 16384, seed=seed + 50).abs()
    x, gate = x.bfloat16(), gate.bfloat16()
    # Every norm is stored, the gate is not: all norms of a row err alike, and gates in 16 bits do.
    wide = x.float()
    norm = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype)
    stored = (norm * torch.nn.functional.silu(gate.float())).to(x.dtype)
    truth = _truth(_gated, [x, gate], x, seed)
    assert measure(stored, truth).share < 0.7
    assert not measure(stored * 1.004, truth).passed


def _cut(values: Tensor) -> Tensor:
    """Return float32 numbers as tensor cores read them for TF32."""
    return (values.contiguous().view(torch.int32) & -(1 << 13)).view(torch.float32)


def _two_products(x: Tensor, decay: Tensor, weight: Tensor, gate: Tensor) -> Tensor:
    first = (x.float() * decay) @ weight.float()
    return (first * gate.float() @ weight.float().T).to(x.dtype)


@pytest.mark.parametrize("seed", range(3))
def test_operands_of_one_product_may_be_cut_and_the_result_of_another_stored(seed: int) -> None:
    x = normal(400, 96, seed=seed).abs().bfloat16()
    decay, weight = normal(400, 96, seed=seed + 10).abs(), normal(96, 64, seed=seed + 20).bfloat16()
    gate = normal(400, 64, seed=seed + 30).bfloat16()
    truth = _truth(_two_products, [x, decay, weight, gate], x, seed)
    first = (_cut(x.float() * decay) @ weight.float()).bfloat16()
    mixed = (_cut(first.float() * gate.float()) @ weight.float().T).to(x.dtype)
    assert measure(mixed, truth).share < 0.9
    assert not measure((mixed.float() * 0.99).to(x.dtype), truth).passed
    summed = torch.zeros_like(mixed)
    for term in range(64):  # sums in 16 bits
        summed += (first * gate)[:, term, None] * weight[:, term]
    assert not measure(summed, truth).passed


@pytest.mark.parametrize("seed", range(3))
def test_where_operands_are_cut_a_number_of_tf32_may_lose_a_step(seed: int) -> None:
    """The reference multiplies by exactly 1, a kernel by a number one rounding below it."""
    x, weight = normal(300, 64, seed=seed).bfloat16(), normal(64, 96, seed=seed + 1).bfloat16()
    last = normal(300, seed=seed + 2)

    def reference(x: Tensor, weight: Tensor, last: Tensor) -> Tensor:
        kept = (last - last).exp().unsqueeze(-1) * x.float()
        return kept @ weight.float()

    kernel = _cut((1.0 - 2.0**-24) * x.float()) @ weight.float()
    truth = _truth(reference, [x, weight, last], kernel, seed)
    assert measure(kernel, truth).share < 0.9
    assert not measure(kernel * 0.99, truth).passed


def test_fewer_programs_are_run_where_few_draws_are_made() -> None:
    family = family_of(Precision.MIXED, DType.BFLOAT16)
    assert [len(list(programs(family, 1, few=few))) for few in (True, False)] == [5, 7]


def test_families_that_store_nothing_have_no_members() -> None:
    x, weight = normal(32, 64).bfloat16(), normal(64, seed=1).bfloat16()
    for precision in (Precision.STRICT, Precision.TF32):
        family = family_of(precision, DType.BFLOAT16)
        outputs = [spec("bfloat16", "r", "h")]
        truth = make_truth(_norm, [x, weight], outputs, seed=1, family=family).outputs[0]
        assert truth.yardsticks is not None
        assert truth.yardsticks.gain.members == ()
    mixed = _truth(_norm, [x, weight], x).yardsticks
    assert mixed is not None
    assert len(mixed.gain.members) == 7


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, dim=-1)
    return (first * cos - second * sin).to(x.dtype)


def test_a_single_element_is_a_tensor_too() -> None:
    """At the least size of every axis nothing was stored or cast: models' code was rejected."""
    wrong = 0
    for seed in range(8):
        x = (1.0 + normal(1, 2, seed=seed).abs()).bfloat16()
        angle = torch.atan2(x[:, :1].float(), x[:, 1:].float()) - 0.02  # products nearly cancel
        cos, sin = angle.cos(), angle.sin()
        first, second = x.chunk(2, dim=-1)
        cast = first * cos.bfloat16() - second * sin.bfloat16()
        truth = _truth(_rotated, [x, cos, sin], cast, seed)
        assert measure(cast, truth).passed, seed
        wrong += not measure(cast + 1.0, truth).passed
    assert wrong == 8


def _grad_weight(grad: Tensor, x: Tensor, rstd: Tensor) -> Tensor:
    return (grad.float() * (x.float() * rstd[:, None])).sum(0).to(x.dtype)


def _stored_products(grad: Tensor, x: Tensor, rstd: Tensor) -> Tensor:
    """Return the terms as a kernel has them that keeps normalized rows and products in 16 bits."""
    return grad * (x.float() * rstd[:, None]).to(x.dtype)


@pytest.mark.parametrize("seed", range(16))
def test_sums_that_hang_on_a_few_stored_terms_pass_by_any_association(seed: int) -> None:
    """One real rounding in half of all draws was small by luck in one of a thousand columns."""
    grad, x = (normal(16, 1024, seed=3 * seed + n).bfloat16() for n in (0, 1))
    rstd = (3.0 * normal(16, seed=3 * seed + 2)).exp()
    kernel = _stored_products(grad, x, rstd).float().sum(0).to(x.dtype)
    truth = _truth(_grad_weight, [grad, x, rstd], kernel, seed)
    assert measure(kernel, truth).share < 0.9
    assert not measure((kernel.float() * 1.03).to(x.dtype), truth).passed


@pytest.mark.parametrize("seed", range(4))
def test_sums_kept_in_16_bits_fail_where_their_terms_may_be_stored(seed: int) -> None:
    grad, x = (normal(256, 512, seed=3 * seed + n).bfloat16() for n in (0, 1))
    rstd = normal(256, seed=3 * seed + 2).abs() + 0.5
    terms = _stored_products(grad, x, rstd)
    truth = _truth(_grad_weight, [grad, x, rstd], terms[0], seed)
    assert measure(terms.float().sum(0).to(x.dtype), truth).passed
    total = torch.zeros_like(terms[0])
    for row in terms:
        total += row
    assert not measure(total, truth).passed


@pytest.mark.parametrize("grid", [BFLOAT16, FLOAT16])
def test_a_multiple_rounds_as_much_as_the_value_and_otherwise(grid: Grid) -> None:
    values = normal(20_000).double()
    plain, other = (nearest_multiple(values, factor, grid) - values for factor in (1.0, FACTORS[5]))
    torch.testing.assert_close(plain + values, nearest(values, grid), rtol=2e-6, atol=0.0)
    assert 0.7 < float(other.square().mean() / plain.square().mean()) < 1.4
    assert abs(float((plain * other).mean() / plain.square().mean())) < 0.1
    stored = nearest(values, grid)
    assert torch.equal(nearest_multiple(stored, FACTORS[5], grid), stored)
    assert torch.equal(nearest_multiple(-values, FACTORS[5], grid), -other - values)
