"""Launches of problems whose weights make every case large are executed all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.formats import load_problem
from cuassay.sandbox.host.nursery import Nursery
from tests.support import trees
from tests.zoo.judging import Gate

_PROBLEM = """from typing import Annotated

import torch

from cuassay import problem, tensor


@problem(axes={"rows": (1, 4096)}, workloads=({"rows": 512},))
def rotated(
    x: Annotated[torch.Tensor, tensor("bfloat16", "rows", 1024)],
    weight: Annotated[torch.Tensor, tensor("bfloat16", 1024, 1024)],
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", 1024, name="y")]:
    heads = (x @ weight.T).view(-1, 8, 2, 64)
    first, second = heads.float().unbind(2)
    return torch.stack((first - second, first + second), 2).to(x.dtype).view(-1, 1024)
"""
_KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def _rotate(x, y, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x += tl.program_id(0) * BLOCK
    y += tl.program_id(0) * BLOCK
    own = tl.load(x + offsets).to(tl.float32)
    other = tl.load(x + tl.where(offsets < 64, offsets + 64, offsets - 64)).to(tl.float32)
    tl.store(y + offsets, tl.where(offsets < 64, own - other, own + other))


def run(x, weight):
    made = x @ weight.T
    y = {target}
    _rotate[(made.numel() // 128,)](made, y, BLOCK=128, num_warps=4)
    return y
"""


@pytest.mark.parametrize("in_place", [False, True])
def test_a_race_beside_large_weights_is_found(
    tmp_path: Path, nursery: Nursery, in_place: bool
) -> None:
    problem = load_problem(str(trees.write(tmp_path / "rotated_problem.py", _PROBLEM)))
    text = _KERNEL.format(target="made" if in_place else "torch.empty_like(made)")
    file = trees.write(tmp_path / "rotated.py", text)
    with Gate("cpu", nursery=nursery) as gate:
        judged = gate.judge(problem, file, seed=3, only=("RACE101",))
    assert judged.codes == (("RACE101",) if in_place else ()), [
        str(one.outcome) for one in judged.verdict.checks
    ]
