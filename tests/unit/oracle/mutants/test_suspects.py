"""Faults that only a diagnosis asks for: each gives the numbers of a kernel that has it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.mutants.detect import CANNOT_RUN, Mutant, mutants_of

Function = Callable[..., torch.Tensor]
F = torch.nn.functional


def _spec() -> TensorSpec:
    return TensorSpec(name="y", dtype=DType.FLOAT64, shape=("rows", "cols"), domain=Real())


def _draw(seed: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(6, 40, generator=made, dtype=torch.float64)
    x[1] *= 1e-4  # where an epsilon matters
    return x


def _mutants(fn: Function, *more: Any, suspects: bool) -> list[Mutant]:
    return mutants_of(fn, [[_draw(1), *more]], [_spec()], names=["x", "eps"], suspects=suspects)


def _alike(mutants: list[Mutant], broken: Function, *more: Any) -> list[str]:
    """Return what mutants say that give a broken function's numbers on other values."""
    found = []
    for mutant in mutants:
        try:
            (given,) = mutant.run([_draw(2), *more])
        except CANNOT_RUN:
            continue
        if torch.allclose(given, broken(_draw(2), *more), rtol=1e-9, atol=1e-12):
            found.append(mutant.words)
    return found


def _rms(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _rms_outside(x: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True).sqrt() + eps)


def _step(x: torch.Tensor) -> torch.Tensor:
    return x / (x.square().sqrt() + 1e-8)


def _step_inside(x: torch.Tensor) -> torch.Tensor:
    return x / (x.square() + 1e-8).sqrt()


@pytest.mark.parametrize(
    ("right", "broken", "words"),
    [
        (_step, _step_inside, "inside of the root"),
        (lambda x: torch.round(x * 127.0), lambda x: torch.trunc(x * 127.0), "`trunc`"),
        (lambda x: torch.round(x * 127.0), lambda x: torch.round(x * 128.0), "`128` for `127`"),
        (
            lambda x: torch.tanh(x * x.shape[-1] ** -0.5),
            lambda x: torch.tanh(x / x.shape[-1]),
            "the square of",
        ),
        (lambda x: torch.tanh(x / 40), lambda x: torch.tanh(x / 40**0.5), "the root of"),
        (lambda x: x - x.exp(), lambda x: x + x.exp(), "right side added"),
        (lambda x: x * x.exp(), lambda x: x * x.exp() * x.exp(), "used twice"),
        (lambda x: x.cumsum(-1), lambda x: x.cumsum(-1) - x, "without its own term"),
        (
            lambda x: F.layer_norm(x, (40,), eps=1e-5),
            lambda x: (
                (x - x.mean(-1, keepdim=True))
                / (x.var(-1, keepdim=True, correction=0).sqrt() + 1e-5)
            ),
            "outside of the root",
        ),
        (
            lambda x: F.rms_norm(x, (40,), eps=1e-5),
            lambda x: x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5),
            "outside of the root",
        ),
        (
            lambda x: F.group_norm(x, 4, eps=1e-5),
            lambda x: (
                (y := x.reshape(6, 4, 10) - x.reshape(6, 4, 10).mean(-1, keepdim=True))
                / (y.square().mean(-1, keepdim=True).sqrt() + 1e-5)
            ).reshape(6, 40),
            "outside of the root",
        ),
        (
            lambda x: F.normalize(x, dim=-1, eps=1e-3),
            lambda x: x / (x.square().sum(-1, keepdim=True) + 1e-3).sqrt(),
            "inside of the root",
        ),
        (
            lambda x: F.normalize(x, dim=-1, eps=1e-3),
            lambda x: x / (x.square().sum(-1, keepdim=True).sqrt() + 1e-3),
            "0.001 added",
        ),
        (
            lambda x: (3e3 * x).masked_fill(x < 0, -math.inf).logsumexp(-1, keepdim=True),
            lambda x: (3e3 * x).masked_fill(x < 0, -1e4).logsumexp(-1, keepdim=True),
            "`-10000` for `-inf`",
        ),
        (
            lambda x: torch.where(x < 0.5, -math.inf, 3e4 * x - 4e4).softmax(-1),
            lambda x: torch.where(x < 0.5, -1e4, 3e4 * x - 4e4).softmax(-1),
            "`-10000` for `-inf`",
        ),
        (lambda x: x.softmax(-1), lambda x: (x * math.log(2.0)).softmax(-1), "base"),
        (
            lambda x: F.log_softmax(x, -1),
            lambda x: (y := x - x.amax(-1, keepdim=True)) - y.exp().sum(-1, keepdim=True).log2(),
            "`log2` for the `log` of the sum",
        ),
        (lambda x: F.gelu(x), lambda x: 0.5 * x * (1 + torch.erf(x)), "erf of x"),
        (
            lambda x: x / x.abs().amax(-1, keepdim=True),
            lambda x: x / x.abs().amax(-1, keepdim=True)[:1],
            "first row's amax",
        ),
        (
            lambda x: x - x.sum(-1, keepdim=True),
            lambda x: x - x[:, 1:].sum(-1, keepdim=True),
            "first term left out",
        ),
        (
            lambda x: x - x.mean(-1, keepdim=True),
            lambda x: x - x[:, :32].sum(-1, keepdim=True) / 40,
            "terms beyond the first 32 left out of the mean",
        ),
        (
            lambda x: x - x.mean(-1, keepdim=True),
            lambda x: x - x.sum(-1, keepdim=True) / 64,
            "divided by 64",
        ),
        (
            lambda x: x @ x.T,
            lambda x: x[:, :0] @ x.T[:0],  # of one partial tile nothing is left
            "last partial tile of 64 left out",
        ),
        (lambda x: x.cumsum(-1), lambda x: x.flip(-1).cumsum(-1), "backwards along axis 1"),
        (lambda x: x.exp(), lambda x: x.exp().roll(1, -1), "one place off along axis 1"),
        (
            lambda x: x[:, :20] - x[:, 20:],
            lambda x: x[:, ::2] - x[:, 1::2],
            "read in pairs instead of halves",
        ),
    ],
)
def test_a_suspect_gives_a_broken_kernels_numbers(
    right: Function, broken: Function, words: str
) -> None:
    said = _alike(_mutants(right, suspects=True), broken)
    assert any(words in one for one in said), said


def test_an_epsilon_beside_the_root_follows_the_argument() -> None:
    """It is 1e-6 where the fault is found, and 1e-3 where it is tried."""
    mutants = _mutants(_rms, 1e-6, suspects=True)
    assert any("outside of the root" in one for one in _alike(mutants, _rms_outside, 1e-3))


def test_a_power_test_does_not_ask_for_them() -> None:
    right: Function = lambda x: torch.round(x * 127.0)  # noqa: E731  # as the table above has it
    without = {mutant.words for mutant in _mutants(right, suspects=False)}
    every = {mutant.words for mutant in _mutants(right, suspects=True)}
    assert without < every


def test_the_right_kernel_is_no_suspect() -> None:
    assert not _alike(_mutants(_rms, 1e-6, suspects=True), _rms, 2e-2)


def _counted(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target)


def _divided(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target, ignore_index=0, reduction="sum") / target.numel()


@pytest.mark.parametrize(
    ("broken", "words"), [(_counted, "targets counted"), (_divided, "over all targets")]
)
def test_targets_that_are_to_be_ignored_have_suspects(broken: Function, words: str) -> None:
    target = torch.tensor([0, 3, 7, 0, 39, 1])

    def right(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, target, ignore_index=0)

    said = _alike(_mutants(right, suspects=True), lambda x: broken(x, target))
    assert any(words in one for one in said), said
