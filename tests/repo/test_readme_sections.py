"""The README's sections, run as they stand there: real judges, small kernels."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from cuassay.cli.main import cli

_ROOT = Path(__file__).resolve().parents[2]
_README = (_ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INSTALLED = importlib.metadata.entry_points(group="pytest11", name="cuassay")
_PLUGIN = [] if _INSTALLED else ["-p", "cuassay.pytest_plugin"]


def _blocks(section: str, language: str = "", *, document: str = _README) -> list[str]:
    """Return the fenced blocks of a section that are in a language."""
    text = document.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    assert text, f"the document has no section '{section}'"
    return [body for kind, body in _BLOCK.findall(text) if kind == language]


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    paths = [str(_ROOT / "src"), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    environment |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "CUASSAY_HOME": str(folder / "home"),
        "CUDA_VISIBLE_DEVICES": "",
        "NO_COLOR": "1",
    }
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    (text, *_) = _blocks("Check one kernel", "python")
    (tmp_path / "kernel.py").write_text(text)
    return tmp_path


@pytest.mark.slow
def test_check_one_kernel(kernel: Path) -> None:
    lines = [line for block in _blocks("Check one kernel") for line in block.splitlines()]
    (line, *_) = [line for line in lines if line.startswith("cuassay check")]
    words = [*shlex.split(line)[1:], "--profile", "quick", "--device", "cpu"]
    done = _run(kernel, sys.executable, "-m", "cuassay", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nACCEPTED  kernel" in done.stdout


@pytest.mark.slow
def test_in_pytest(kernel: Path) -> None:
    (test,) = _blocks("In pytest", "python")
    (kernel / "test_kernel.py").write_text(test)
    (line,) = "".join(_blocks("In pytest")).splitlines()
    program, *words = shlex.split(line)
    assert program == "pytest"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *_PLUGIN, *words]
    done = _run(kernel, *command, "--cuassay-device", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ACCEPTED     test_kernel.py::test_rmsnorm" in done.stdout


def test_in_github_actions() -> None:
    (listed,) = _blocks("In GitHub Actions", "toml")
    table = tomllib.loads(listed)["tool"]["cuassay"]["kernels"]
    assert all(isinstance(problem, str) for problem in table.values())
    (text,) = _blocks("In GitHub Actions", "yaml")
    workflow: dict[Any, Any] = yaml.safe_load(text)
    (job,) = workflow["jobs"].values()
    checkout, ours = job["steps"]
    assert checkout["with"]["fetch-depth"] == 0
    assert job["permissions"]["pull-requests"] == "write"
    action = yaml.safe_load((_ROOT / "action.yml").read_text())
    assert set(ours["with"]) <= set(action["inputs"])
    (hook,) = yaml.safe_load((_ROOT / ".pre-commit-hooks.yaml").read_text())
    assert f"`id: {hook['id']}`" in _README


def test_from_an_agent(kernel: Path) -> None:
    """Over a judge that judges nothing: the other sections have real ones."""
    (program,) = _blocks("From an agent", "python")
    install = (
        f"import sys; sys.path.insert(0, {str(_ROOT)!r})\n"
        "from cuassay.engine import judge_process\nfrom tests.support import fake_judge\n"
        "judge_process.COMMAND = fake_judge.COMMAND\n"
    )
    done = _run(kernel, sys.executable, "-c", install + program)
    assert done.stdout == "ACCEPTED []\n", done.stdout + done.stderr
    (kernel / "kernel.py").write_text("# reject\n")
    done = _run(kernel, sys.executable, "-c", install + program)
    assert done.stdout.startswith("REJECTED ['Hot rows of grad_embed_weight"), done.stdout
    (text,) = _blocks("From an agent", "json")
    (server,) = json.loads(text)["mcpServers"].values()
    assert (server["command"], server["args"][0]) == ("cuassay", "serve")
    # click keeps the help option of a command's first context: it must be the one that users see
    serve, whole = cli.commands["serve"], click.Context(cli, **cli.context_settings)
    assert (
        serve.make_context("serve", server["args"][1:], parent=whole).params["profile"] == "quick"
    )
