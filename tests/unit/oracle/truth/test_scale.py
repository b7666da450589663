"""Where one column has most of the noise, its luck in few draws does not set a row's scale."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth import scale as trust_scale
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.scale import Runs, achievable
from cuassay.oracle.truth.types import OutputTruth
from tests.support.oracle_cases import normal, spec

_ROWS, _COLUMNS = 8192, 128


def _drawn(true: Tensor, *, draws: int) -> Tensor:
    """Return the mean square of a few draws of these variances."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(draws, *true.shape, generator=generator, dtype=torch.float64)
    return noise.square().mean(0) * true


def _variances() -> Tensor:
    """Rows of noise from 0.1 to 10, and one column with a hundred times the others'."""
    rows = torch.logspace(-1, 1, _ROWS, dtype=torch.float64).square().unsqueeze(1)
    columns = torch.ones(_COLUMNS, dtype=torch.float64)
    columns[17] = 100.0**2
    return rows * columns


@pytest.mark.parametrize("draws", [2, 3, 4])
def test_no_element_of_the_loud_column_is_thought_quiet(draws: int) -> None:
    true = _variances()
    found = trust_scale.pooled_variance(_drawn(true, draws=draws), draws)
    ratio = (found / true)[:, 17]
    assert float(ratio.min()) > 0.4
    assert float(ratio.max()) < 12.0


def test_what_has_one_rank_keeps_its_size() -> None:
    true = _variances()
    true[:, 17] = true[:, 16]
    found = trust_scale.pooled_variance(_drawn(true, draws=4), 4)
    assert 0.9 < float((found / true).mean()) < 1.15


def test_a_column_with_noise_in_one_row_raises_that_row_alone_and_little() -> None:
    true = torch.ones(_ROWS, _COLUMNS, dtype=torch.float64)
    true[:, 5] = 1e-12
    true[77, 5] = 1.0
    found = trust_scale.pooled_variance(true.clone(), 2)
    others = [column for column in range(_COLUMNS) if column != 5]
    assert 0.9 < float(found[:77, others].min()) <= float(found[:77, others].max()) < 1.1
    assert float(found[77, others].max()) < (1 + _ROWS**0.5 / _COLUMNS) ** 2 * 1.1


def test_columns_and_rows_without_noise_stay_without() -> None:
    true = _variances()
    true[:, 40] = 0.0
    true[9] = 0.0
    found = trust_scale.pooled_variance(true.clone(), 8)
    assert bool((found[:, 40] == 0).all())
    assert bool((found[9] == 0).all())
    assert bool(torch.isfinite(found).all())


_TOKENS, _WIDTH = 24, 16


def _attended(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and decay where a state that begins with 0 decays each token."""
    given = [one.detach().requires_grad_() for one in (q, k, decay)]
    with torch.enable_grad():
        state, outputs = q.new_zeros(*q.shape[1:], v.shape[-1]), []
        for token in range(_TOKENS):
            state = state * given[2][token].exp()[:, None, None]
            state = state + given[1][token].unsqueeze(-1) * v[token].unsqueeze(-2)
            outputs.append((given[0][token].unsqueeze(-1) * state).sum(-2))
        made = torch.autograd.grad(torch.stack(outputs), given, upstream)
    return made[0], made[1], made[2]


def _summed(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, upstream: Tensor) -> Tensor:
    """Return the gradient of the decay as kernels have it: summed from the last token on."""
    grad_q, grad_k, _ = _attended(q, k, v, decay, upstream)
    return ((q * grad_q).sum(-1) - (k * grad_k).sum(-1)).flip(0).cumsum(0).flip(0)


@pytest.mark.parametrize("seed", range(3))
def test_a_gradient_that_is_a_running_sum_may_end_in_its_roundings(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(_TOKENS, 20, _WIDTH)] * 3 + [(_TOKENS, 20), (_TOKENS, 20, _WIDTH)]
    inputs = [torch.randn(*shape, generator=generator) for shape in shapes]
    inputs[3] = -inputs[3].abs() / 4

    def truth(*, gradients: bool) -> OutputTruth:
        made = make_truth(
            lambda *given: _attended(*given)[2],
            inputs,
            [spec("float32", "tokens", "heads")],
            seed=seed,
            gradients=gradients,
        )
        return made.outputs[0]

    summed, found = _summed(*inputs), truth(gradients=True)
    assert bool((found.value[0] == 0).all())
    assert bool((summed[0] != 0).any())
    assert not compare(summed, truth(gradients=False)).passed
    assert compare(summed, found).share < 0.9
    exclusive = torch.cat([summed[1:], summed[:1]])
    garbage = summed.clone()
    garbage[0, 3] += 1e-4 * float(found.value.square().mean().sqrt())
    for wrong in (exclusive, garbage, summed * 1.001):
        assert not compare(wrong, found).passed


def test_zeros_between_numbers_and_gradients_of_zeros_stay_exact() -> None:
    value = torch.ones(4, 6, dtype=torch.float64)
    value[1:3, 2] = 0.0
    value[:, 0] = 0.0
    noise = torch.zeros_like(value)
    found = trust_scale.with_running_floor(noise, value, 2.0**-24)
    assert bool((found[1:3, 2] == 0).all())
    assert bool((found[:, 0] > 0).all())  # a row's sum ends there
    assert bool((found[:, 1:] == 0).all())
    zeros = torch.zeros(4, 6, dtype=torch.float64)
    assert bool((trust_scale.with_running_floor(noise, zeros, 2.0**-24) == 0).all())


def test_what_programs_do_to_an_element_counts_where_draws_were_lucky() -> None:
    value = normal(4096, seed=1).double() + 3.0
    draws = [0.01 * normal(4096, seed=2 + n) for n in range(8)]
    errs = 0.01 * normal(4096, seed=20)
    for draw in draws:
        draw[7] = 1e-6  # 0 by luck in every draw, but not in the programs
    errs[7] = 0.02
    runs = Runs(
        value=value,
        deviations=draws,
        errors=[],
        dtype=DType.FLOAT32,
        roundoff=2.0**-24,
        rounded=False,
        discontinuous=False,
    )
    plain = achievable(runs).full
    known = achievable(replace(runs, members=[errs, *(0.3 * errs for _ in range(6))])).full
    assert float(errs[7] / plain[7]) > 100.0
    assert float(errs[7] / known[7]) < 4.0
    raised = (known > plain * 1.05).float().mean()
    assert float(raised) < 0.05  # elsewhere draws say more
