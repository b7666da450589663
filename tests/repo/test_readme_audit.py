"""The audit section of docs/audit.md, command by command as it stands there.

The judge judges nothing and the Ray cluster is made up: what they do has tests of its own. The
tree, the driver, the store, the index and the recording are real.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.repo.test_readme_sections import _ROOT, _blocks
from tests.support import fake_judge, trees
from tests.support.fake_ray import Cluster
from tests.support.paths import python_path

from cuassay.cli.main import main

_AUDIT = (_ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
_LINES = "".join(_blocks("Audit a folder", document=_AUDIT)).splitlines()
_COMMANDS = [shlex.split(line, comments=True)[1:] for line in _LINES]
_ALIVE = {"words": "no eps", "kind": "mutant", "class": "O1", "classes": ["O1"], "shown_by": "x"}
_POWER: dict[str, Any] = {
    "mutants": 22, "equivalent": 2, "killed_ours": 20, "killed_theirs": 19,
    "survivors_theirs": [_ALIVE],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the names that the section uses; cuassay's home is in it."""
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    fake_judge.install(monkeypatch)
    trees.native(tmp_path / "submissions" / "norm", "rmsnorm")
    for name, line in (("right", "# accept"), ("wrong", "# reject theirs")):
        trees.write(tmp_path / "submissions" / "norm" / "candidates" / f"{name}.py", f"{line}\n")
    trees.sol(tmp_path / "benchmark" / "p", "p")
    trees.write(tmp_path / "mymodel" / "__init__.py", "")
    trees.write(tmp_path / "mymodel" / "ops.py", "def rmsnorm(x):\n    return x * 2\n")
    program = "import torch\nfrom mymodel.ops import rmsnorm\nrmsnorm(torch.ones(2, 4))\n"
    trees.write(tmp_path / "train.py", program)
    return tmp_path


def _command(*words: str) -> list[str]:
    """Return the section's one command that begins with these words."""
    (found,) = [c for c in _COMMANDS if c[: len(words)] == list(words)]
    return found


def _document(run: str, capsys: pytest.CaptureFixture[str]) -> Mapping[str, Any]:
    capsys.readouterr()
    assert main(["audit", "--run", run, "--json"]) == 1
    found: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_audit_is_planned_judged_asked_and_compared(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_command("audit", "submissions/", "--dry-run")) == 0
    assert "2 candidates" in capsys.readouterr().out
    judge = _command("audit", "submissions/", "--run")
    assert main(judge) == 1  # one of the two is rejected
    first = _document("audit-1", capsys)
    assert [c["verdict"] for c in first["candidates"]] == ["ACCEPTED", "REJECTED"]
    assert main(judge) == 1
    assert _document("audit-1", capsys)["candidates"] == first["candidates"]  # resumed
    (folder / "submissions" / "norm" / "candidates" / "right.py").write_text("# reject\n")
    assert main(["audit", "submissions/", "--run", "audit-2"]) == 1
    assert main(_command("report")) == 1  # one got worse
    assert "right" in capsys.readouterr().out


def test_the_problems_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cuassay.engine.run.document", lambda job, progress, **given: _POWER)
    assert main(_command("audit", "benchmark/")) == 0
    assert "let through 1 of 20 broken versions" in capsys.readouterr().out


def test_on_a_ray_cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster()
    cluster.install(monkeypatch)
    command = _command("audit", "submissions/", "--executor")
    assert main([*command, "--run", "far"]) == 1
    assert cluster.started["address"] == command[command.index("--address") + 1]
    assert main(["audit", "submissions/", "--run", "near", "--seed", "1"]) == 1
    far, near = (_document(run, capsys)["candidates"] for run in ("far", "near"))
    assert [c["verdict"] for c in far] == [c["verdict"] for c in near]


def test_real_tensors_are_recorded(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cuassay", *_command("loop")],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=python_path(_ROOT / "src", folder)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "1 call of mymodel.ops:rmsnorm is kept in recorded" in done.stderr


def test_every_command_of_the_section_is_run_here() -> None:
    begun = {
        ("audit", "submissions/"),
        ("audit", "benchmark/"),
        ("report", "audit-2"),
        ("loop", "capture"),
    }
    assert {tuple(command[:2]) for command in _COMMANDS} == begun
