"""What a device shows of a refutation, here that without a GPU: guard zones around the machine's
memory.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from cuassay.checks.state.answers import placed
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.proofs.on_gpu import NOTHING, shown
from cuassay.judge.run.machine import HostNursery
from cuassay.judge.trial import open_trial
from cuassay.model.axes import resolve
from cuassay.model.device import CPU
from cuassay.model.proofs import Claim, Datum, ProofAnswer, Property
from cuassay.model.verdict import Profile

PROBLEM = """import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

n = 64

def get_inputs():
    return [torch.randn(n)]

def get_init_inputs():
    return []
"""
KERNEL = """import ctypes
import torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        torch.mul(x, 2, out=y)
        ctypes.memset(y.data_ptr() + y.numel() * 4 - 4 * (x.numel() %% %d), 0, 4)
        return y
"""
CLAIM = Claim(what=Property.MEMORY, answer=ProofAnswer.REFUTED, sizes={"n": 40})


def _shown(folder: Path, divisor: int, claim: Claim) -> str:
    """Return what is shown where the write lies behind the end at multiples of a number."""
    (folder / "p.py").write_text(PROBLEM, encoding="utf-8")
    (folder / "c.py").write_text(KERNEL % divisor, encoding="utf-8")
    problem = load_problem(str(folder / "p.py"), strict=False, notes=[])
    candidate = load_candidate(str(folder / "c.py"), problem, strict=False, notes=[])
    trial = open_trial(
        problem, load_reference(problem), profile=Profile.STANDARD, device=CPU, root_seed=0
    )
    again = placed(trial.cases("small")[0], resolve(problem.axes, claim.sizes))
    host = HostNursery(None)
    try:
        return shown(trial, candidate, again, claim, host, notify=lambda text: None)
    finally:
        host.close()


def test_a_write_behind_a_tensor_is_seen_in_the_guard_zone(tmp_path: Path) -> None:
    said = _shown(tmp_path, 40, CLAIM)
    assert said.startswith("seen on the GPU: writes 4 bytes beyond the end of")


def test_what_no_guard_zone_shows_is_said_to_be_unseen(tmp_path: Path) -> None:
    assert _shown(tmp_path, 39, CLAIM) == NOTHING


def test_what_needs_an_integer_in_an_input_is_not_run(tmp_path: Path) -> None:
    datum = Datum(input="x", offset=0, nbytes=4, value=1)
    said = _shown(tmp_path, 40, dataclasses.replace(CLAIM, data=(datum,)))
    assert said.startswith("not run on the GPU")
