"""References that refuse, with data, sizes that they accepted on the device `meta`."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.formats import load_problem
from cuassay.model.outcome import Failed
from cuassay.sandbox.host.nursery import Nursery
from tests.support import trees
from tests.zoo.judging import Gate

_PROBLEM = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.rand(2, 40_000))

    def forward(self, x):
        if x.device.type != "meta" and x.shape[-1] < 50:
            raise RuntimeError("the window is larger than its input")
        return x * self.table[:, :4].sum() + self.table[1, 7]


batch_size = 16
features = 96


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return []
"""
_NEW = _PROBLEM.partition("batch_size")[0].replace("class Model", "class ModelNew")


@pytest.mark.parametrize(
    ("old", "new", "accepted"),
    [
        ("", "", True),
        ("* self.table[:, :4].sum()", "* self.table[0, :4].sum()", False),
        ("return x", "raise TypeError('incompatible arguments')\n        return x", False),
    ],
)
def test_the_kernel_is_judged_at_sizes_that_the_reference_takes(
    tmp_path: Path, nursery: Nursery, old: str, new: str, accepted: bool
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "1_Window.py", _PROBLEM)))
    file = trees.write(tmp_path / "kernel.py", _NEW.replace(old, new) if old else _NEW)
    with Gate("cpu", nursery=nursery) as gate:
        judged = gate.judge(problem, file, seed=3, only=("NUM001", "API002", "SHP001"))
    assert judged.accepted == accepted, str(judged)
    (numbers,) = (one for one in judged.verdict.checks if one.code == "NUM001")
    assert bool(numbers.clean) == accepted
    assert isinstance(numbers.outcome, Failed) == (not accepted)
    tried = {entry.axis: entry.values for entry in judged.verdict.coverage}
    assert len(tried["features"]) > 1  # sizes of ours, and none below the window
    assert min(tried["features"]) >= 50
