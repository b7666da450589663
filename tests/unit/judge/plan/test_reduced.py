"""Reduction axes of problems in other people's formats, found by running the reference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.formats import load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.verdict import Profile
from tests.support import trees

_RMSNORM = """import torch

def run(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
"""
_ATTENTION = """import torch

def run(x):
    return torch.softmax(x @ x.transpose(-1, -2), -1) @ x
"""
_LOOP = """import torch

def run(x):
    total, out = torch.zeros_like(x[:, 0]), []
    for column in range(x.shape[1]):
        for _ in range(200):
            total = total + x[:, column]
        out.append(total)
    return torch.stack(out, 1) + x.sum(1, keepdim=True)
"""


def _trial(folder: Path, reference: str, *, sizes: tuple[tuple[int, int], ...]) -> JudgeTrial:
    place = trees.sol(
        folder,
        "p",
        axes={"rows": {"type": "var"}, "columns": {"type": "var"}},
        inputs={"x": {"shape": ["rows", "columns"], "dtype": "float32"}},
        outputs={"y": {"shape": ["rows", "columns"], "dtype": "float32"}},
        reference=reference,
    )
    lines = [
        {"uuid": f"w{i}", "axes": {"rows": r, "columns": c}, "inputs": {"x": {"type": "random"}}}
        for i, (r, c) in enumerate(sizes)
    ]
    place.write_text("\n".join(map(json.dumps, lines)) + "\n")
    problem = load_problem(str(folder))
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=3
    )


_SIZES = ((16, 24), (8, 700))


def test_the_normalised_axis_is_lengthened_up_to_the_largest_listed_size(tmp_path: Path) -> None:
    trial = _trial(tmp_path, _RMSNORM, sizes=_SIZES)
    assert trial.planned.reduced == ("columns",)
    lengths = [case.axes["columns"] for case in trial.cases("growth")]
    assert len(set(lengths)) >= 3
    assert max(lengths) <= 700
    assert {case.axes["columns"] for case in trial.cases("hot")} == {700}


def test_an_elementwise_reference_has_none(tmp_path: Path) -> None:
    trial = _trial(tmp_path, "def run(x):\n    return x * 2\n", sizes=_SIZES)
    assert trial.planned.reduced == ()
    assert not trial.cases("hot")


@pytest.mark.parametrize("reference", [_ATTENTION, _LOOP])
def test_what_would_take_the_square_of_time_or_memory_is_left_alone(
    tmp_path: Path, reference: str
) -> None:
    trial = _trial(tmp_path, reference, sizes=_SIZES)
    assert "rows" not in trial.planned.reduced
    if reference is _LOOP:
        assert trial.planned.reduced == ()


def test_a_reference_that_raises_gives_none_and_is_reported_elsewhere(tmp_path: Path) -> None:
    trial = _trial(tmp_path, "def run(x):\n    raise ValueError('no')\n", sizes=_SIZES)
    assert trial.planned.reduced == ()
