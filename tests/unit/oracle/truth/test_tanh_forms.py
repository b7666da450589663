"""Forms of tanh and sigmoid in production kernels are honest; shortcuts are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.oracle.compare.outputs import compare
from tests.support.oracle_cases import normal, truth_of

_CAP = 30.0


def _by_e(x: Tensor) -> Tensor:
    e = torch.exp(-2 * x.abs())
    return torch.copysign((1 - e) / (1 + e), x)


def _by_expm1(x: Tensor) -> Tensor:
    m = torch.expm1(-2 * x.abs())
    return torch.copysign(-m / (m + 2), x)


HONEST: dict[str, Callable[[Tensor], Tensor]] = {
    "sigmoid": lambda x: 2 * torch.sigmoid(2 * x) - 1,
    "exp of -2|x|": _by_e,
    "expm1": _by_expm1,
    "1 - 2/(e + 1)": lambda x: 1 - 2 / (torch.exp(2 * x) + 1),
}


def _rational(x: Tensor) -> Tensor:
    x = x.clamp(-4.97, 4.97)
    return x * (27 + x * x) / (27 + 9 * x * x)


def _approximate(x: Tensor) -> Tensor:
    """As tanh.approx: relative errors up to 2^-11."""
    return torch.tanh(x) * (1 + 2**-11 * torch.sin(1e4 * x))


def _capped(tanh: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: (_CAP * tanh(x.float() / _CAP)).to(x.dtype)


def _attended(tanh: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.softmax(_capped(tanh)(x), -1)


@pytest.mark.parametrize("wrap", [_capped, _attended], ids=["soft cap", "softmax of it"])
@pytest.mark.parametrize("sigma", [1e-3, 1.0, 30.0])
def test_honest_forms_of_tanh_pass_at_every_size(
    wrap: Callable[[Callable[[Tensor], Tensor]], Callable[[Tensor], Tensor]], sigma: float
) -> None:
    x = normal(48, 300, seed=3) * sigma
    truth = truth_of(wrap(torch.tanh), [x], "float32", "m", "n")
    for name, tanh in HONEST.items():
        found = compare(wrap(tanh)(x), truth)
        assert found.passed, (name, found.worst)
        assert found.share < 0.8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_approximations_of_tanh_are_caught(dtype: torch.dtype) -> None:
    x = (normal(48, 300, seed=3) * 30).to(dtype)
    name = str(dtype).removeprefix("torch.")
    truth = truth_of(_capped(torch.tanh), [x], name, "m", "n")
    assert not compare(_capped(_rational)(x), truth).passed
    if dtype is torch.float32:
        assert compare(_capped(_approximate)(x), truth).share > 10


def test_a_missing_cap_is_caught() -> None:
    x = normal(48, 300) * 30
    truth = truth_of(_capped(torch.tanh), [x], "float32", "m", "n")
    assert not compare(x, truth).passed


SIGMOIDS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda x: 0.5 * (1 + torch.tanh(0.5 * x)),
    "1 / (1 + e)": lambda x: 1 / (1 + torch.exp(-x)),
    "e / (1 + e)": lambda x: torch.exp(x.clamp(max=80)) / (1 + torch.exp(x.clamp(max=80))),
}


def _gated(sigmoid: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, up: up * sigmoid(x)


def _with_outliers() -> tuple[Tensor, Tensor]:
    """Return gates far below 0 and factors of which one column is much larger."""
    up = normal(48, 4000, seed=5)
    up[:, 7] *= 1e5
    return normal(48, 4000, seed=4) * 4.0 - 4.0, up


@pytest.mark.parametrize("name", SIGMOIDS)
def test_honest_forms_of_sigmoid_pass_in_the_tail_beside_outliers(name: str) -> None:
    x, up = _with_outliers()
    truth = truth_of(_gated(torch.sigmoid), [x, up], "float32", "m", "n")
    found = compare(_gated(SIGMOIDS[name])(x, up), truth)
    assert found.passed, f"{name}: {found.share:.2f} {found.worst}"


def test_an_approximate_sigmoid_fails() -> None:
    x, up = _with_outliers()
    truth = truth_of(_gated(torch.sigmoid), [x, up], "float32", "m", "n")
    wrong = _gated(lambda v: 0.5 * (1 + _approximate(0.5 * v)))(x, up)
    assert not compare(wrong, truth).passed


def _levels(rows: int, columns: int, *, seed: int) -> Tensor:
    """Return rows of nearly equal gates, from nearly open ones to those that are closed."""
    level = torch.linspace(-2.0, -20.0, rows).unsqueeze(1)
    return level * (1.0 + 0.004 * normal(rows, columns, seed=seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gate", ["silu", "sigmoid"])
def test_honest_forms_pass_in_rows_of_nearly_closed_gates_and_a_flush_fails(
    gate: str, dtype: torch.dtype
) -> None:
    x, up = (normal(2 * 64, 352, seed=5).chunk(2)[n].to(dtype) for n in range(2))
    x[:48] = _levels(48, 352, seed=4).to(dtype)
    forms: dict[str, Callable[[Tensor], Tensor]] = {
        "silu": torch.nn.functional.silu,
        "sigmoid": torch.sigmoid,
    }
    reference = forms[gate]

    def made(sigmoid: Callable[[Tensor], Tensor]) -> Tensor:
        wide = x.float()
        return ((wide if gate == "silu" else 1.0) * sigmoid(wide) * up.float()).to(dtype)

    truth = truth_of(
        lambda x, up: (reference(x.float()) * up.float()).to(x.dtype),
        [x, up],
        str(dtype).removeprefix("torch."),
        "m",
        "n",
    )
    for name, sigmoid in SIGMOIDS.items():
        found = compare(made(sigmoid), truth)
        assert found.share < 0.8, (name, found.worst)
    flushed = made(torch.sigmoid)
    flushed[(x < -14.0).all(-1)] = 0.0
    assert compare(flushed, truth).share > 2.0
