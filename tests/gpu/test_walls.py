"""On a GPU: every wall stands after CUDA has started, and attacks are refused there too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.hostile.problem import scaled
from tests.hostile.table import HEAD, TABLE, Hostile
from tests.zoo.judging import Gate

from cuassay.model.problem import Problem
from cuassay.model.walls import STANDS, WALLS

pytestmark = pytest.mark.gpu
_PROBLEM: Problem = vars(scaled)["__cuassay_problem__"]
_SEED = 20261123
# Lines that a GPU changes: memory, arenas, ends of a context.
_LINES = ("B1", "B2", "B8", "B15", "B16", "process", "harness exploit")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    """Open a gate on the GPU."""
    with Gate("cuda", without=("machine",)) as opened:
        yield opened


def _path(folder: Path, name: str, body: str) -> Path:
    path = folder / f"{name}.py"
    places = f"HOME, JUDGE, PORT = {str(folder)!r}, {os.getpid()}, 9\n"
    path.write_text(places + HEAD + body, encoding="utf-8")
    return path


def test_every_wall_stands_around_a_kernel_on_a_gpu(
    gate: Gate, walls: Mapping[str, str], tmp_path: Path
) -> None:
    path = _path(tmp_path, "honest", "def run(x):\n    return right(x)\n")
    found = gate.judge(_PROBLEM, path, seed=_SEED)
    assert found.accepted, str(found)
    for wall in WALLS:
        if walls[wall.name] == STANDS:
            assert found.verdict.walls[wall.name] == STANDS, found.verdict.walls


def test_a_triton_kernel_compiles_within_the_walls(gate: Gate, tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(
        """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2 + 1, mask=at < n)

def run(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
""",
        encoding="utf-8",
    )
    found = gate.judge(_PROBLEM, path, seed=_SEED)
    assert found.accepted, str(found)


def test_compiled_torch_runs_within_the_walls(gate: Gate, tmp_path: Path) -> None:
    path = _path(
        tmp_path, "compiled", "made = torch.compile(right)\ndef run(x):\n    return made(x)\n"
    )
    found = gate.judge(_PROBLEM, path, seed=_SEED, only=("NUM001", "SHP001"))
    assert found.accepted, str(found)


@pytest.mark.parametrize(
    "one", [pytest.param(o, id=o.name) for o in TABLE if o.line in _LINES and not o.slow]
)
def test_an_attack_is_not_accepted_on_a_gpu(gate: Gate, tmp_path: Path, one: Hostile) -> None:
    found = gate.judge(_PROBLEM, _path(tmp_path, one.name, one.body), seed=_SEED, only=one.codes)
    if one.condition and found.accepted:
        assert one.condition in {c.partition(":")[0] for c in found.verdict.conditions}, str(found)
    else:
        assert not found.accepted, str(found)


def test_the_command_line_judges_within_the_walls(walls: Mapping[str, str], tmp_path: Path) -> None:
    """The judge is a process of its own here, which nobody may trace or read."""
    path = _path(tmp_path, "honest", "def run(x):\n    return right(x)\n")
    problem = Path(__file__).resolve().parents[1] / "hostile" / "problem.py"
    done = subprocess.run(
        [sys.executable, "-m", "cuassay", "check", str(path), "--problem", str(problem),
         "--profile", "quick", "--device", "cuda", "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    stood = json.loads(done.stdout)["walls"]
    standing = [wall.name for wall in WALLS if walls[wall.name] == STANDS]
    assert {name: stood[name] for name in standing if stood[name] != STANDS} == {}
