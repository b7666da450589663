"""Blame: the bad kernel among many is found in few runs, and innocent ones are cleared."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from torch import nn

from cuassay.errors import UsageError
from cuassay.model.device import CPU
from cuassay.model.verdict import Decision
from cuassay_loops import Swap, Training
from cuassay_loops.blame import config as blame_config
from cuassay_loops.blame.bisection import Blame
from cuassay_loops.blame.subjects import ModelSubject, UserSubject
from cuassay_loops.results import BlameReport, Cell
from tests.support import loops

_LAYERS = 7


class Norm(nn.Module):
    """LayerNorm without bias, with a fault that only its backward pass or its value has."""

    def __init__(self, width: int, fault: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fault = fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.layer_norm(x, x.shape[-1:]) * self.weight
        if self.fault == "value":
            return y * 1.01
        if self.fault == "large":
            return y * 1.5
        if self.fault == "shift":
            return y + 0.05
        if self.fault == "gradient":
            y.register_hook(lambda grad: grad * 1.02)  # type: ignore[no-untyped-call]
        return y


def _setup(bad: int, fault: str, *, rate: float = 0.05) -> Callable[[int], Training]:
    def setup(seed: int) -> Training:
        layers: list[nn.Module] = []
        for index in range(_LAYERS):
            layers += [nn.Linear(8, 8), Norm(8, fault if index == bad else ""), nn.Tanh()]
        model = nn.Sequential(*layers)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        x = torch.randn(64, 8)

        def loss(step: int) -> torch.Tensor:
            y: torch.Tensor = model(x)
            return (y - x.roll(1, 1)).square().mean()

        def trusted(inner: nn.Module) -> nn.Module:
            twin = Norm(8)
            twin.weight = inner.weight  # type: ignore[assignment]
            return twin

        sites = [
            Swap(name=f"norm{index}", where=str(3 * index + 1), trusted=trusted)
            for index in range(_LAYERS)
        ]
        return Training(model=model, sites=sites, loss=loss, optimizer=optimizer)

    return setup


def _blamed(setup: Callable[[int], Training], steps: int = 25) -> BlameReport:
    subject = UserSubject(setup, 11)
    return Blame(subject, steps=steps, config="test", say=lambda text: None).run()


@pytest.mark.parametrize("bad", [0, 3, _LAYERS - 1])
def test_one_bad_module_among_seven_is_found_in_log2_plus_two_runs(bad: int) -> None:
    found = _blamed(_setup(bad, "value"))
    assert (found.decision, found.culprit) == (Decision.REJECTED, f"norm{bad}")
    assert found.search <= math.ceil(math.log2(_LAYERS)) + 2
    assert not found.isolated


@pytest.mark.parametrize(
    ("fault", "part"),
    [("value", ""), ("gradient", "backward pass"), ("shift", "forward pass")],
)
def test_the_pass_at_fault_is_named(fault: str, part: str) -> None:
    """A factor is wrong in both passes, so neither is named."""
    assert _blamed(_setup(2, fault)).part == part


def test_innocent_kernels_are_cleared_with_the_power_to_have_seen_a_fault() -> None:
    found = _blamed(_setup(-1, ""))
    assert found.decision is Decision.ACCEPTED
    assert "data or idea, not the kernels" in found.reason
    assert set(found.power) == {f"norm{index}" for index in range(_LAYERS)}
    assert max(found.power.values()) < 0.01


def test_a_learning_rate_that_is_too_high_is_not_the_kernels_fault() -> None:
    found = _blamed(_setup(-1, "", rate=400.0))
    assert found.decision is Decision.ACCEPTED
    assert found.diverged is not None
    assert "diverges with trusted kernels as well" in found.reason


def scaled(x: torch.Tensor) -> torch.Tensor:
    """A function of this module that a site names; its kernel is off by 2 %."""
    return x * 2.04


@torch.library.custom_op("cuassay_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    """A custom operator that is right."""
    return x * 2.0


@torch.library.custom_op("cuassay_test::halve", mutates_args=())
def halve(x: torch.Tensor) -> torch.Tensor:
    """A custom operator that is off by 3 %."""
    return x * 0.515


for _op, _factor in ((double, 2.0), (halve, 0.5)):
    _op.register_autograd(lambda ctx, grad, factor=_factor: grad * factor)


def _mixed(*, right: bool) -> Callable[[int], Training]:
    def setup(seed: int) -> Training:
        model = nn.Linear(6, 6)
        x = torch.randn(32, 6)
        here = __import__(__name__, fromlist=["scaled"])

        def loss(step: int) -> torch.Tensor:
            y = double(model(x))
            y = here.scaled(y) if right else halve(y)
            found: torch.Tensor = y.square().mean() * 0.01
            return found

        return Training(
            model=model,
            sites=[
                Swap(name="scaled", where=f"{__name__}:scaled", trusted=lambda x: x * 2.0),
                Swap(name="double", where="cuassay_test::double", trusted=lambda x: x * 2.0),
                Swap(name="halve", where="cuassay_test::halve", trusted=lambda x: x * 0.5),
            ],
            loss=loss,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        )

    return setup


@pytest.mark.parametrize(("right", "culprit"), [(True, "scaled"), (False, "halve")])
def test_functions_and_operators_of_torch_library_are_places_too(right: bool, culprit: str) -> None:
    found = _blamed(_mixed(right=right))
    assert found.culprit == culprit
    assert scaled(torch.ones(1)).item() == pytest.approx(2.04)  # put back


def test_a_run_that_shows_nothing_but_its_loss_is_searched_by_losses() -> None:
    def setup(seed: int) -> Training:
        made = _setup(4, "large")(seed)
        assert made.loss is not None
        assert made.optimizer is not None
        loss, optimizer = made.loss, made.optimizer

        def step(number: int) -> float:
            optimizer.zero_grad()
            value = loss(number)
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return float(value.detach())

        return Training(model=made.model, sites=made.sites, step=step)

    found = _blamed(setup, steps=60)
    assert (found.witness, found.culprit) == ("losses", "norm4")
    assert found.search <= math.ceil(math.log2(_LAYERS)) + 2


def test_our_model_with_six_kernels_names_the_bad_one_and_its_output() -> None:
    good = {
        "rmsnorm": "eps_outside_root",
        "swiglu": "polynomial_sigmoid",
        "cross_entropy_backward": "rounded_probability",
        "embedding_grad": "bf16_embedding_grad",
        "rope_neox": "position_offset_ignored",
    }
    kernels = {site: loops.zoo_kernel(site, name, folder="twins") for site, name in good.items()}
    kernels["rmsnorm_backward"] = loops.zoo_kernel("rmsnorm_backward", "bf16_norm_weight_grad")
    cell = Cell(data="real", optimizer="sgd", precision="bf16", seed=0)
    made = loops.settings("rmsnorm", loops.never)
    subject = ModelSubject(kernels, cell, made, seed=3, rate=0.3)
    found = Blame(subject, steps=20, config="test", say=lambda text: None).run()
    assert found.culprit == "rmsnorm_backward"
    assert found.search <= math.ceil(math.log2(6)) + 2
    assert found.part == "output 1"  # the weight's gradient; the input's is right
    assert found.isolated


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.py", "x = 1", "defines no 'def setup"),
        ("a.py", "def setup(seed):\n    return 3", "returned a int, expected"),
        ("a.py", "raise ValueError('no data')", "no data"),
        ("a.toml", "presett = 'tiny'", "unknown key of a.toml 'presett'"),
        ("a.toml", "preset = 'tiny'", "no \\[sites\\] table"),
        ("a.toml", "[sites]\nrmsnrm = 'k.py'", "unknown site 'rmsnrm'"),
        ("a.yaml", "", "neither a .py nor a .toml"),
        ("", "", "no config at"),
    ],
)
def test_mistakes_in_a_config_are_said(name: str, text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / (name or "missing.py")
    if name:
        path.write_text(text)
    with pytest.raises(UsageError, match=message):
        _use(path)


def _use(path: Path) -> None:
    with ExitStack() as stack:
        subject, steps = blame_config.read_config(
            path, device=CPU, seed=1, nursery=None, stack=stack
        )
        Blame(subject, steps=steps, config="test", say=lambda text: None).run()


def test_a_place_that_is_not_there_is_said() -> None:
    def setup(seed: int) -> Training:
        made = _setup(0, "")(seed)
        return Training(
            model=made.model,
            sites=[Swap(name="a", where="99", trusted=lambda inner: inner)],
            loss=made.loss,
            optimizer=made.optimizer,
        )

    with pytest.raises(UsageError, match="the model has no module '99'"):
        _blamed(setup)
