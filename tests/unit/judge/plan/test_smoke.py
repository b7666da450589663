"""What a reference's first run tells: values with which nothing is decided are varied."""

from __future__ import annotations

from pathlib import Path

from cuassay.checks.interface.initial_state import Api005
from cuassay.formats import load_problem
from cuassay.judge.domain import StateFrom
from cuassay.judge.plan.smoke import smoke
from cuassay.judge.trial import JudgeTrial
from cuassay.model.problem import StateSource
from tests.support import trees
from tests.unit.contract.problems import trial_of

_NORM = """import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols)

    def forward(self, x):
        return self.norm(x).KIND(-1)

rows = 64
cols = 48

def get_inputs():
    return [torch.randn(rows, cols)]

def get_init_inputs():
    return [cols]
"""


def _trial(folder: Path, kind: str) -> JudgeTrial:
    text = _NORM.replace("KIND", kind)
    return trial_of(load_problem(str(trees.write(folder / "7_Norm.py", text))))


def test_constants_with_which_truth_decides_nothing_are_varied(tmp_path: Path) -> None:
    trial = _trial(tmp_path, "mean")
    assert smoke(trial).ill_conditioned
    for purpose in ("small", "numeric", "shapes"):
        assert trial.cases(purpose)
        for case in trial.cases(purpose):
            assert {"state_norm_weight", "state_norm_bias"} <= case.fills.keys()
            assert not trial.rough(case).ill_conditioned, (purpose, case.label)

    (initial,) = Api005().propose(trial)
    loaded = initial.cases[2]  # the state that the constructor makes
    assert not loaded.fills.keys() & {"state_norm_weight", "state_norm_bias"}


def test_a_module_that_keeps_its_own_state_keeps_it(tmp_path: Path) -> None:
    trial = _trial(tmp_path, "mean")
    smoke(trial)
    trial.planned.learning.replan(StateFrom(source=StateSource.INITIAL))
    assert all(not case.fills.keys() & {"state_norm_weight"} for case in trial.cases("numeric"))


def test_constants_with_which_truth_decides_stay(tmp_path: Path) -> None:
    trial = _trial(tmp_path, "norm")
    assert not smoke(trial).ill_conditioned
    assert all(not case.fills.keys() & {"state_norm_weight"} for case in trial.cases("numeric"))
