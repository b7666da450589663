"""Decays by sums of logarithms in float32 are trusted; by sums in 16 bits they are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth import decays
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.types import OutputTruth
from tests.support.oracle_cases import normal, spec

_TOKENS = 64


def _steps(inflow: Tensor, logs: Tensor) -> Tensor:
    state, states = torch.zeros_like(inflow[0]), []
    for one, log in zip(inflow, logs, strict=True):
        state = state * log.exp()[:, None] + one
        states.append(state)
    return torch.stack(states)


def _steps_in_place(inflow: Tensor, logs: Tensor) -> Tensor:
    state, states = torch.zeros_like(inflow[0]), torch.empty_like(inflow)
    for token, factor in enumerate(logs.exp()):
        state *= factor[:, None]
        state += inflow[token]
        states[token] = state
    return states


def _added_up(inflow: Tensor, logs: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    reach = logs.to(dtype).cumsum(0).float()
    later = torch.ones(_TOKENS, _TOKENS, dtype=torch.bool).triu(1)[..., None]
    between = (reach[:, None] - reach[None]).masked_fill(later, -torch.inf).exp()
    return torch.einsum("tjh,jhw->thw", between, inflow)


def _inputs(seed: int) -> tuple[Tensor, Tensor]:
    # A rate of decay for each head: sums reach from 1 to 60.
    rates = torch.linspace(0.02, 1.0, 8)
    return normal(_TOKENS, 8, 32, seed=seed), -rates * (
        1.0 + 0.1 * normal(_TOKENS, 8, seed=seed + 1)
    )


def _truth(call: Callable[..., Tensor], given: tuple[Tensor, ...], seed: int) -> OutputTruth:
    names = ("tokens", "heads", "width")[: call(*given).dim()]
    return make_truth(call, list(given), [spec("float32", *names)], seed=seed).outputs[0]


def _steps_kept(inflow: Tensor, logs: Tensor) -> Tensor:
    states = [torch.zeros_like(inflow[0])]
    for one, log in zip(inflow, logs, strict=True):
        decayed = states[-1] * log.exp()[:, None]
        states += [decayed, decayed + one]  # more than are remembered
    return torch.stack(states[2::2])


@pytest.mark.parametrize("call", [_steps, _steps_in_place, _steps_kept])
def test_a_chunk_that_adds_up_logarithms_is_trusted(call: Callable[..., Tensor]) -> None:
    for seed in (1, 4):
        given = _inputs(seed)
        truth = _truth(call, given, seed)
        assert compare(_added_up(*given), truth).share < 1.0
        assert compare(_added_up(*given, torch.bfloat16), truth).share > 4.0


def test_without_the_sums_of_draws_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decays.Decays, "changed", lambda self, asked, out: out)
    given = _inputs(1)
    assert compare(_added_up(*given), _truth(_steps, given, 1)).share > 1.0


def test_products_of_exponentials_along_an_axis_are_exponentials_of_sums() -> None:
    _, logs = _inputs(1)

    def products(logs: Tensor) -> Tensor:
        return logs.exp().cumprod(0)

    truth = _truth(products, (logs,), 1)
    assert compare(logs.cumsum(0).exp(), truth).share < 1.0
    assert compare(logs.bfloat16().cumsum(0).float().exp(), truth).share > 4.0


@pytest.mark.parametrize(
    "call",
    [
        lambda inflow, logs: inflow * logs.exp()[..., None],
        lambda inflow, logs: inflow * torch.sigmoid(logs)[..., None] * inflow,
    ],
)
def test_what_is_multiplied_once_errs_as_before(
    call: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = _inputs(1)
    scale = _truth(call, given, 1).scale
    monkeypatch.setattr(decays.Decays, "changed", lambda self, asked, out: out)
    before = _truth(call, given, 1).scale
    assert scale is not None
    assert before is not None
    assert torch.equal(scale, before)
