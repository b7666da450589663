"""Recorded calls: kept from a running program, read as inputs, and what they show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cuassay.audit.discover import discover
from cuassay.capture import recording
from cuassay.cli.main import main
from cuassay.errors import ProblemError, UnknownNameError, UsageError
from cuassay.formats import load_problem
from cuassay.model.problem import SafetensorsSource, ScalarSource
from tests.support import trees
from tests.support.paths import python_path
from tests.zoo.local_gate import LocalGate

_ROOT = Path(__file__).resolve().parents[2]
_OPS = """import torch

def scale(x, factor=2.0):
    return x * factor

class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))
        self.eps = 1e-6
    def forward(self, x):
        return x * self.weight
"""
_PROBLEM = """from typing import Annotated
import torch
from cuassay import problem, scalar, tensor

@problem(axes={"rows": (1, 64), "hidden": (1, 32)}, workloads=[{"rows": 4, "hidden": 8}])
def scale(
    x: Annotated[torch.Tensor, tensor("float32", "rows", "hidden")],
    factor: Annotated[float, scalar("float32", low=-4.0, high=4.0, default=1.0)],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "hidden", name="y")]:
    return x * factor
"""


@pytest.fixture
def ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"captured_{tmp_path.name.replace('-', '_')}"
    trees.write(tmp_path / f"{name}.py", _OPS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def _calls(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "calls.jsonl").read_text().splitlines()]


def test_calls_are_kept_as_they_were_before_the_call(tmp_path: Path, ops: str) -> None:
    module = __import__(ops)
    x = torch.arange(8.0).reshape(1, 8)
    with recording(f"{ops}:scale", tmp_path / "kept") as recorder:
        assert torch.equal(module.scale(x), x * 2)
        x.zero_()
    module.scale(x)
    assert recorder.kept == 1
    (call,) = _calls(tmp_path / "kept")
    assert call["arguments"] == [
        {"name": "x", "kind": "argument", "key": "x"},
        {"name": "factor", "kind": "argument", "value": 2.0},
    ]
    from safetensors.torch import load_file

    assert load_file(tmp_path / "kept" / str(call["file"]))["x"][0, 3] == 3.0


def test_new_shapes_are_kept_before_repeated_ones(tmp_path: Path, ops: str) -> None:
    module = __import__(ops)
    with recording(f"{ops}:scale", tmp_path / "kept", calls=4) as recorder:
        for _ in range(10):
            module.scale(torch.ones(2, 8))
        for rows in (3, 4, 5):
            module.scale(torch.ones(rows, 8))
    assert recorder.kept == 4


def test_a_module_is_kept_with_its_state(tmp_path: Path, ops: str) -> None:
    module = __import__(ops)
    with recording(f"{ops}:Norm", tmp_path / "kept"):
        module.Norm()(torch.ones(2, 8))
    (call,) = _calls(tmp_path / "kept")
    names = {str(entry["name"]): entry["kind"] for entry in call["arguments"]}  # type: ignore[attr-defined]
    assert names == {"x": "argument", "weight": "state", "eps": "state", "training": "state"}


def test_mistakes_in_the_target_are_one_message(tmp_path: Path, ops: str) -> None:
    for target, kind, message in (
        ("scale", UsageError, "names no function"),
        ("no_such_module_here:f", UsageError, "cannot be imported"),
        (f"{ops}:scael", UnknownNameError, "did you mean 'scale'"),
        (f"{ops}:torch", UsageError, "is a module, expected a function"),
    ):
        with pytest.raises(kind, match=message), recording(target, tmp_path / "kept"):
            pass


def test_recorded_calls_become_inputs_of_a_problem(tmp_path: Path, ops: str) -> None:
    file = trees.write(tmp_path / "p" / "problem.py", _PROBLEM)
    module = __import__(ops)
    with recording(f"{ops}:scale", tmp_path / "p" / "recorded"):
        module.scale(torch.ones(6, 8))
        module.scale(torch.ones(6, 8, dtype=torch.float64))
    notes: list[str] = []
    problem = load_problem(str(file), notes=notes)
    first, call = problem.workloads
    assert (first.recorded, call.recorded, call.id) == (False, True, "recorded/1")
    assert call.axes == {"rows": 6, "hidden": 8}
    assert isinstance(call.sources["x"], SafetensorsSource)
    assert call.sources["factor"] == ScalarSource(value=2.0)
    assert "1 recorded calls" in notes[0]
    assert "recorded as F64, the problem has float32" in notes[1]


def test_a_bug_that_only_real_inputs_show_is_found(tmp_path: Path, ops: str) -> None:
    """The kernel is wrong where a row is marked by a value that no regime draws."""
    file = trees.write(tmp_path / "p" / "problem.py", _PROBLEM)
    bug = "def run(x, factor):\n    return x * factor + 1.0 * (x == 123.25)\n"
    kernel = trees.write(tmp_path / "kernel.py", bug)
    right = trees.write(tmp_path / "right.py", "def run(x, factor):\n    return x * factor\n")
    module = __import__(ops)
    x = torch.randn(6, 8)
    x[2, 3] = 123.25
    with LocalGate("cpu") as gate:
        without = gate.judge(load_problem(str(file)), kernel, seed=5, only=("NUM001",))
        assert without.accepted
        with recording(f"{ops}:scale", tmp_path / "elsewhere"):
            module.scale(x)
        problem = load_problem(str(file), recorded=str(tmp_path / "elsewhere"))
        found = gate.judge(problem, kernel, seed=5, only=("NUM001",))
        assert found.codes == ("NUM001",)
        assert gate.judge(problem, right, seed=5, only=("NUM001",)).accepted


def test_calls_that_do_not_fit_are_one_message(tmp_path: Path, ops: str) -> None:
    file = trees.write(tmp_path / "p" / "problem.py", _PROBLEM)
    module = __import__(ops)
    with recording(f"{ops}:scale", tmp_path / "kept"):
        module.scale(torch.ones(8))
    with pytest.raises(ProblemError, match="'x' has 1 dimensions, expected 2"):
        load_problem(str(file), recorded=str(tmp_path / "kept"))
    trees.write(tmp_path / "kept" / "calls.jsonl", '{"half": ')
    with pytest.raises(ProblemError, match="not valid JSON"):
        load_problem(str(file), recorded=str(tmp_path / "kept"))


def test_the_recordings_are_part_of_what_an_audit_reads(tmp_path: Path, ops: str) -> None:
    trees.write(tmp_path / "p" / "problem.py", _PROBLEM)
    trees.write(tmp_path / "p" / "kernel.py", "def run(x, factor): ...\n")
    module = __import__(ops)
    with recording(f"{ops}:scale", tmp_path / "p" / "recorded"):
        module.scale(torch.ones(6, 8))
    (pair,) = discover(str(tmp_path / "p")).pairs
    assert "calls.jsonl" in {path.name for path in pair.problem.files}


def test_a_whole_program_is_recorded(tmp_path: Path) -> None:
    trees.write(tmp_path / "work" / "ops.py", _OPS)
    program = (
        "import sys, torch\nfrom ops import scale\n"
        "for rows in (2, 3):\n    scale(torch.ones(rows, 8), 0.5)\nsys.exit(int(sys.argv[1]))\n"
    )
    trees.write(tmp_path / "work" / "train.py", program)
    call = ["loop", "capture", "ops:scale", "--out", "kept", "--", "work/train.py", "7"]
    done = subprocess.run(
        [sys.executable, "-m", "cuassay", *call],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=python_path(_ROOT / "src", tmp_path / "work")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    assert "2 calls of ops:scale are kept in kept" in done.stderr
    assert len(_calls(tmp_path / "kept")) == 2


def test_the_verbs_say_what_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["loop", "capture", "os:getcwd", "--out", str(tmp_path), "absent.py"]) == 2
    assert "is no Python script" in capsys.readouterr().err
    kernel = trees.write(tmp_path / "k.py", "def run(x): ...\n")
    assert main(["check", str(kernel), "--problem", "rmsnorm", "--recorded", "absent"]) == 2
    assert "--recorded absent is not a folder" in capsys.readouterr().err
