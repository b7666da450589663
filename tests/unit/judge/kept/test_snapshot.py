"""A run folder holds all that a replay needs, also after the files have moved on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.kept import snapshot

_PROBLEM = """
from typing import Annotated
import torch
from cuassay import problem, tensor

@problem(axes={"n": (1, 64)}, workloads=[{"n": 8}])
def double(
    x: Annotated[torch.Tensor, tensor("float32", "n")],
) -> Annotated[torch.Tensor, tensor("float32", "n", name="y")]:
    return x * 2
"""


def test_problem_and_candidate_outlive_their_files(tmp_path: Path) -> None:
    import torch

    problem_file, kernel = tmp_path / "double.py", tmp_path / "kernel.py"
    problem_file.write_text(_PROBLEM)
    kernel.write_text("def run(x):\n    return x + x\n")
    problem = load_problem(str(problem_file))
    candidate = load_candidate(str(kernel), problem)
    folder = tmp_path / "run"
    folder.mkdir()
    snapshot.write_snapshot(folder, problem, candidate)
    problem_file.unlink()
    kernel.unlink()
    again, kept = snapshot.read_snapshot(folder)
    assert kept == candidate
    assert again.reference.path.is_relative_to(folder)
    assert torch.equal(load_reference(again).call(torch.ones(2)), torch.full((2,), 2.0))  # type: ignore[arg-type]


def test_a_folder_without_a_snapshot_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="run `cuassay check` again"):
        snapshot.read_snapshot(tmp_path)


def test_a_full_disk_loses_the_snapshot_only(tmp_path: Path) -> None:
    problem_file, kernel = tmp_path / "double.py", tmp_path / "kernel.py"
    problem_file.write_text(_PROBLEM)
    kernel.write_text("def run(x):\n    return x + x\n")
    problem = load_problem(str(problem_file))
    snapshot.write_snapshot(tmp_path / "absent", problem, load_candidate(str(kernel), problem))
