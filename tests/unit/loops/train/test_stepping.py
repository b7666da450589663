"""Optimizers as sites: trusted steps are torch's, faults leave the band, twins do not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.errors import UsageError
from cuassay.formats import load_problem
from cuassay.model.case import DECODING, TRAINING
from cuassay.model.device import CPU
from cuassay.model.loop import LoopSettings, Start
from cuassay.model.verdict import Decision, Profile
from cuassay_loops import presets, sites, states
from cuassay_loops.blame import config as blame_config
from cuassay_loops.infer.inference import infer
from cuassay_loops.kernels import local_kernel
from cuassay_loops.model.operators import SiteMode
from cuassay_loops.results import Cell
from cuassay_loops.train import matrix
from cuassay_loops.train.cell import run_cell
from cuassay_loops.train.lane import Learner
from cuassay_loops.train.story import decide_matrix
from tests.support import loop_faults as faults
from tests.support import loops


def _cell(site: str, *, seed: int = 0, precision: str = "bf16") -> Cell:
    optimizer = sites.SITES[site].optimizer
    return Cell(data="real", optimizer=optimizer, precision=precision, seed=seed)


def _lane(site: str, seed: int) -> Learner:
    made = loops.settings(site, loops.never)
    cell = _cell(site, seed=seed, precision="fp32")
    return Learner(cell, made, mode=SiteMode.TRUSTED, root=3, rate=0.02)


def _torch_optimizer(site: str, lane: Learner, *, nesterov: bool) -> torch.optim.Optimizer:
    made: Any = list(lane.model.parameters())
    if site == "adamw_step":
        return torch.optim.AdamW(made, lr=0.02, betas=(0.9, 0.95), weight_decay=0.1)
    return torch.optim.SGD(made, lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=nesterov)


@pytest.mark.parametrize("site", ["adamw_step", "sgd_momentum_step"])
@pytest.mark.parametrize("seed", [0, 1])
def test_trusted_steps_are_those_of_torch_optim(site: str, seed: int) -> None:
    ours, theirs = _lane(site, seed), _lane(site, seed)
    optimizer = _torch_optimizer(site, theirs, nesterov=bool(seed))
    generator = torch.Generator().manual_seed(1)
    for step in range(3):
        for group in optimizer.param_groups:
            group["lr"] = 0.02 * (step + 1) / 10  # the learning rate is warmed up
        gradients = {
            name: torch.randn(parameter.shape, generator=generator)
            for name, parameter in theirs.model.named_parameters()
        }
        ours.descend(gradients)
        for name, parameter in theirs.model.named_parameters():
            parameter.grad = gradients[name]
        optimizer.step()
    for mine, wanted in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-6)


def test_muon_takes_matrices_and_leaves_tables_and_gains_to_adamw() -> None:
    lane = _lane("muon_step", 0)
    met: list[str] = []
    lane.ops.watch = lambda site, values: met.append(site)
    lane.descend({name: torch.ones_like(p) for name, p in lane.model.named_parameters()})
    matrices = [n for n, p in lane.model.named_parameters() if p.ndim == 2 and "." in n]
    assert met.count("muon_step") == len(matrices) == 7
    assert met.count("adamw_step") == len(list(lane.model.parameters())) - 7


@pytest.mark.parametrize(
    ("site", "fault", "twin"),
    [faults.OPTIMIZERS[i] for i in (0, 2, 3, 5, 7)],
    ids=lambda part: getattr(part, "__name__", part),
)
def test_faults_leave_the_band_and_twins_do_not(
    site: str, fault: faults.Run, twin: faults.Run
) -> None:
    for call, left in ((fault, True), (twin, False)):
        kernel = local_kernel(call, loops.problem(site))
        found = run_cell(_cell(site), loops.settings(site, kernel, steps=7))
        assert found.gradient_left_band is left, found
        assert not found.failure
        if left:
            assert not found.rows or found.parameter == "embed"
            assert decide_matrix([found], what="updates")[1].startswith(
                "updates leave the noise band"
            )


def test_states_of_an_optimizer_are_compared_as_well() -> None:
    call = faults.OPTIMIZERS[1][1]  # the second moment in bfloat16
    kernel = local_kernel(call, loops.problem("adamw_step"))
    found = run_cell(_cell("adamw_step"), loops.settings("adamw_step", kernel, steps=7))
    assert found.parameter.endswith(": exp_avg_sq")


@pytest.mark.parametrize("name", ["adamw_step", "muon_step@float32"])
def test_steps_have_states_of_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(presets.PRESETS, "tiny", loops.MICRO)
    problem = load_problem(name)
    cases = states.plan(problem, TRAINING, profile=Profile.STANDARD, seed=6, device=CPU)
    assert [case.state.optimizer for case in cases if case.state] == [
        sites.SITES[problem.name.partition("@")[0]].optimizer
    ] * 3
    assert states.plan(
        problem, DECODING, profile=Profile.STANDARD, seed=6, device=CPU
    ) == []  # fmt: skip


def test_the_site_names_the_optimizer(tmp_path: Path) -> None:
    site = sites.SITES["adamw_step"]
    with pytest.raises(UsageError, match="is the step of optimizer 'adamw': leave --optimizer out"):
        matrix._check(LoopSettings(site=site.name, optimizers=("sgd",)), site, loops.MICRO)
    wanted = LoopSettings(site=site.name, seeds=1, starts=(Start.SCRATCH,))
    cells = list(matrix._cells(wanted, "cpu", optimizer=site.optimizer))
    assert {cell.optimizer for cell in cells} == {"adamw"}
    with pytest.raises(UsageError, match="use `cuassay loop train --site adamw_step`"):
        infer(
            LoopSettings(site=site.name),
            site=site,
            kernel=local_kernel(faults.OPTIMIZERS[0][2], loops.problem(site.name)),
            preset=loops.MICRO,
            device=CPU,
            digest="",
            seed=4,
            say=lambda text: None,
        )


def test_blame_refuses_an_optimizer_s_step(tmp_path: Path) -> None:
    config = tmp_path / "blame.toml"
    config.write_text('preset = "tiny"\n[sites]\nadamw_step = "k.py"\n')
    with ExitStack() as stack, pytest.raises(UsageError, match="takes no part in blame"):
        blame_config.read_config(config, device=CPU, seed=1, nursery=None, stack=stack)


def test_an_update_that_stays_is_told_as_one() -> None:
    kernel = local_kernel(faults.OPTIMIZERS[0][2], loops.problem("adamw_step"))
    found = run_cell(_cell("adamw_step"), loops.settings("adamw_step", kernel, steps=3))
    decision, reason = decide_matrix([found], what="updates")
    assert decision is Decision.ACCEPTED
    assert reason.startswith("no update left the noise band")
