"""The start at which many targets have p near 1: there the fused head shows a rounded p as well."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from cuassay.model.device import CPU
from cuassay.model.loop import LoopSettings, Start
from cuassay_loops.kernels import local_kernel
from cuassay_loops.results import Cell
from cuassay_loops.train import matrix, trained
from cuassay_loops.train.cell import run_cell
from tests.support import loops
from tests.support.loop_faults import HEAD, Run

_SITE, _FAULT, _TWIN = HEAD[0]
_Weights = Mapping[str, torch.Tensor]


@pytest.fixture(scope="module")
def sure(tmp_path_factory: pytest.TempPathFactory) -> _Weights:
    """Return the weights of the micro model at this start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUASSAY_HOME", str(tmp_path_factory.mktemp("home")))
        plain = trained.weights(loops.MICRO, device=CPU, say=lambda text: None)
        return trained.sharpened(plain, loops.MICRO, device=CPU)


@pytest.mark.parametrize(("call", "left"), [(_FAULT, True), (_TWIN, False)])
def test_the_fused_head_shows_a_rounded_probability(call: Run, left: bool, sure: _Weights) -> None:
    kernel = local_kernel(call, loops.problem(_SITE))
    cell = Cell(data="real", optimizer="sgd", precision="bf16", seed=0, start=Start.SURE)
    settings = loops.settings(_SITE, kernel, steps=12, learning_rate=0.05, weights=sure)
    found = run_cell(cell, settings)
    assert found.gradient_left_band is left, found
    assert not left or found.parameter.startswith("tokens of p 0.99"), found


@pytest.mark.parametrize("rate", [0.1, 0.2])
def test_tokens_that_are_alike_err_alike_in_a_correct_head(rate: float) -> None:
    kernel = local_kernel(_TWIN, loops.problem(_SITE))
    cell = Cell(data="single", optimizer="sgd", precision="bf16", seed=0)
    found = run_cell(cell, loops.settings(_SITE, kernel, steps=20, learning_rate=rate))
    assert not found.gradient_left_band, found


def _sharpened(
    monkeypatch: pytest.MonkeyPatch, *, state: float, head: float, tied: bool = False
) -> dict[str, torch.Tensor]:
    """Return weights of ones, sharpened over states whose logits lead by 64 * state * head."""
    from dataclasses import replace

    states = torch.zeros(16, 64)
    states[:, :] = state * torch.linspace(0.5, 1.0, 16).unsqueeze(1)
    matrix_ = torch.zeros(100, 64)
    matrix_[7] = head
    found = states, matrix_, torch.full((16,), 7)
    monkeypatch.setattr(trained, "_last_states", lambda *given, **more: found)
    weights = {name: torch.ones(2) for name in ("norm", "head", "embed", "other")}
    return trained.sharpened(weights, replace(loops.MICRO, tied=tied), device=CPU)


def test_the_gain_of_the_last_norm_makes_the_model_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _sharpened(monkeypatch, state=1.0, head=0.1)
    assert 1.5 < float(found["norm"][0]) < 4.0
    assert torch.equal(found["head"], torch.ones(2))
    assert torch.equal(found["other"], torch.ones(2))


@pytest.mark.parametrize("tied", [False, True])
def test_the_head_takes_what_states_may_not(monkeypatch: pytest.MonkeyPatch, tied: bool) -> None:
    found = _sharpened(monkeypatch, state=6.4, head=0.016, tied=tied)
    table, other = ("embed", "head") if tied else ("head", "embed")
    assert float(found["norm"][0]) == pytest.approx(8.0 / 6.4)
    assert float(found[table][0]) > 1.1
    assert torch.equal(found[other], torch.ones(2))


def test_neither_leaves_its_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _sharpened(monkeypatch, state=8.0, head=1.0)
    assert all(torch.equal(value, torch.ones(2)) for value in found.values())
    beyond = _sharpened(monkeypatch, state=1.0, head=1.1)  # the checkpoint's own head
    assert torch.equal(beyond["head"], torch.ones(2))


def test_every_start_has_its_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain, sharp = {"norm": torch.zeros(1)}, {"norm": torch.ones(1)}
    monkeypatch.setattr(trained, "weights", lambda *given, **more: plain)
    monkeypatch.setattr(trained, "sharpened", lambda *given, **more: sharp)

    def asked(*starts: Start) -> Mapping[Start, _Weights]:
        wanted = LoopSettings(site=_SITE, starts=starts)
        return matrix._weights(wanted.starts, loops.MICRO, device=CPU, say=lambda text: None)

    assert asked(Start.SCRATCH) == {}
    assert asked(Start.SCRATCH, Start.TRAINED) == {Start.TRAINED: plain}
    assert asked(Start.SURE)[Start.SURE] is sharp
