"""Tokens of which the model is sure: p - 1 formed from a rounded p is seen there."""

from __future__ import annotations

import math

import pytest
import torch

from cuassay.model.device import CPU
from cuassay.model.loop import LoopSettings, Start
from cuassay_loops.results import Cell
from cuassay_loops.sites import SITES
from cuassay_loops.train import confident, matrix
from cuassay_loops.train.cell import run_cell
from cuassay_loops.train.confident import SureTokens
from tests.support import loops

_SITE = "cross_entropy_backward"


def _heard(p: float, *, tokens: int = 40) -> SureTokens:
    """What the loss's gradient of sure tokens is: trusted, rounded, and formed from a rounded p."""
    columns = 32
    logits = torch.zeros(tokens, columns)
    logits[:, 0] = math.log(p / (1.0 - p) * (columns - 1))
    logits[:, 0] += torch.linspace(-0.2, 0.2, tokens)
    targets = torch.zeros(tokens, dtype=torch.int64)
    one = torch.nn.functional.one_hot(targets, columns)
    soft = torch.softmax(logits, dim=-1)
    found = SureTokens(_SITE)
    for answer in (soft - one, (soft - one).bfloat16(), soft.bfloat16().float() - one):
        found.hear("rmsnorm", [logits], [logits])  # another site: no matter
        found.hear(_SITE, [logits, targets, torch.ones(tokens), 0.0], [answer])
    return found


@pytest.mark.parametrize(("p", "times"), [(0.93, 4.0), (0.995, 30.0)])
def test_sure_tokens_show_a_rounded_probability(p: float, times: float) -> None:
    (pair,) = _heard(p).compared().values()
    assert pair.deviation > times * pair.noise_deviation > 0.0


@pytest.mark.parametrize("p", [0.5, 1.0 - 2.0**-13])
def test_tokens_that_tell_nothing_are_left_out(p: float) -> None:
    assert _heard(p).compared() == {}
    assert _heard(0.95, tokens=7).compared() == {}


def test_states_and_head_stand_for_logits() -> None:
    weight = torch.eye(4)
    logits = torch.tensor([[4.0, 0.0, 0.0, 0.0], [0.0, 1.0, 2.0, 3.0]])
    targets = torch.tensor([0, -100])
    found = confident.probability([logits, weight, targets, torch.ones(2)])
    assert found[0] == pytest.approx(math.exp(4.0) / (math.exp(4.0) + 3.0))
    assert found[1] == 0.0


def test_the_band_is_no_narrower_than_a_float32_soft_max() -> None:
    groups = SureTokens(_SITE).groups()
    floors = sorted(group.floor for group in groups.values())
    assert floors == pytest.approx([8 * 2**-24 / 0.01, 8 * 2**-24 * 2**11])
    assert all(group.lean >= group.floor for group in groups.values())


@pytest.mark.parametrize(("folder", "left"), [("bugs", True), ("twins", False)])
def test_a_run_that_becomes_sure_shows_the_fault(folder: str, left: bool) -> None:
    kernel = loops.zoo_kernel(_SITE, "rounded_probability", folder=folder)
    cell = Cell(data="single", optimizer="sgd", precision="bf16", seed=0)
    found = run_cell(cell, loops.settings(_SITE, kernel, steps=12, learning_rate=0.1))
    assert found.gradient_left_band is left, found


def test_gradients_of_the_loss_start_from_a_trained_model_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met: list[tuple[Start, ...]] = []
    monkeypatch.setattr(matrix, "_check", lambda *given: None)

    def folder(wanted: LoopSettings, *given: object, **more: object) -> None:
        met.append(wanted.starts)
        raise InterruptedError

    monkeypatch.setattr(matrix, "_folder", folder)
    fused = "linear_cross_entropy_backward"
    asked = ((_SITE, ()), (fused, ()), ("rmsnorm", ()), (_SITE, (Start.SCRATCH,)))
    for name, starts in asked:
        with pytest.raises(InterruptedError):
            matrix.train(
                LoopSettings(site=name, starts=starts),
                site=SITES[name],
                kernels={},
                preset=loops.MICRO,
                device=CPU,
                digest="",
                seed=1,
                say=lambda text: None,
            )
    one = (Start.SCRATCH,)
    assert met == [(Start.SCRATCH, Start.TRAINED), (Start.SCRATCH, Start.SURE), one, one]
