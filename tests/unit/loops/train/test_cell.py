"""Cells of the matrix: the planted bugs leave the band, their twins do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from cuassay.model.verdict import Decision
from cuassay_loops.kernels import KernelFault, NoVerdict, Value
from cuassay_loops.results import Cell, CellResult
from cuassay_loops.train.cell import run_cell
from cuassay_loops.train.story import decide_matrix, story
from tests.support import loops


def _cell(data: str = "real", optimizer: str = "sgd", precision: str = "bf16") -> Cell:
    return Cell(data=data, optimizer=optimizer, precision=precision, seed=0)


def test_the_known_fault_shows_in_gradients_on_real_text_and_hides_under_uniform_ids() -> None:
    kernel = loops.zoo_kernel("embedding_grad", "bf16_embedding_grad")
    made = loops.settings("embedding_grad", kernel, steps=9)
    for optimizer in ("sgd", "adamw"):
        found = run_cell(_cell(optimizer=optimizer), made)
        assert found.gradient_left_band
        assert found.parameter == "embed"
        assert found.rows
        assert found.deviation > 2 * found.noise
    assert not run_cell(_cell("uniform"), made).gradient_left_band


@pytest.mark.parametrize(
    ("site", "name"),
    [
        ("embedding_grad", "bf16_embedding_grad"),
        ("rmsnorm_backward", "bf16_chunks_of_128"),
        ("cross_entropy_backward", "rounded_probability"),
        ("rmsnorm", "eps_outside_root"),
    ],
)
def test_twins_stay_within_the_band(site: str, name: str) -> None:
    kernel = loops.zoo_kernel(site, name, folder="twins")
    for optimizer in ("sgd", "adamw"):
        found = run_cell(_cell(optimizer=optimizer), loops.settings(site, kernel, steps=12))
        assert not found.left, found
        assert not found.undecided


def test_float32_has_a_band_of_its_own() -> None:
    cell = _cell(precision="fp32")
    for folder, left in (("bugs", True), ("twins", False)):
        kernel = loops.zoo_kernel("rmsnorm", "half_squares", folder=folder, precision="fp32")
        found = run_cell(cell, loops.settings("rmsnorm", kernel, steps=12))
        assert found.gradient_left_band is left, found


def test_a_nan_at_step_0_leaves_at_step_0() -> None:
    def kernel(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        x = values[0]
        assert isinstance(x, torch.Tensor)
        return (torch.full_like(x, float("nan")),)

    found = run_cell(_cell(), loops.settings("rmsnorm", kernel, steps=30))
    assert (found.gradient_left_band, found.step, found.how) == (True, 0, "not finite")
    assert (found.loss_left_band, found.loss_step) == (True, 0)
    assert found.steps < 30  # both have left: no need to go on


@pytest.mark.parametrize("error", [KernelFault("it raised"), NoVerdict("out of memory")])
def test_how_a_kernel_ends_a_run_is_told(error: Exception) -> None:
    def kernel(values: Sequence[Value]) -> tuple[torch.Tensor, ...]:
        raise error

    found = run_cell(_cell(), loops.settings("rmsnorm", kernel, steps=3))
    fault = isinstance(error, KernelFault)
    assert ("it raised" in found.failure) == fault
    assert ("out of memory" in found.undecided) != fault
    assert decide_matrix([found])[0] is (Decision.REJECTED if fault else Decision.INCONCLUSIVE)


def test_a_learning_rate_at_which_trusted_runs_diverge_is_halved() -> None:
    kernel = loops.zoo_kernel("rmsnorm", "eps_outside_root", folder="twins")
    made = loops.settings("rmsnorm", kernel, steps=12, learning_rate=40.0)
    found = run_cell(_cell(), made)
    assert found.learning_rate < 40.0
    hopeless = loops.settings("rmsnorm", kernel, steps=12, learning_rate=1e5)
    assert "diverges" in run_cell(_cell(), hopeless).undecided


def _result(data: str, *, gradient: bool, loss: bool) -> CellResult:
    return CellResult(
        cell=_cell(data),
        learning_rate=0.1,
        steps=5,
        gradient_left_band=gradient,
        loss_left_band=loss,
        step=3 if gradient else None,
    )


def test_the_story_names_where_the_fault_shows_and_where_it_hides() -> None:
    cells = [
        _result("real", gradient=True, loss=True),
        _result("zipf1.0", gradient=True, loss=False),
        _result("uniform", gradient=False, loss=False),
    ]
    text = story(cells)
    assert "the loss leaves with: real+sgd" in text
    assert "only gradients show it with: zipf1.0+sgd" in text
    assert "hidden with: uniform+sgd" in text
    assert decide_matrix(cells)[0] is Decision.REJECTED
    assert decide_matrix(cells[2:])[0] is Decision.ACCEPTED
    assert decide_matrix([])[0] is Decision.INCONCLUSIVE
