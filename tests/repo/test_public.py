"""The public names: few, sorted, lazy, and all there."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cuassay

_ROOT = Path(__file__).resolve().parents[2]
_HEAVY = ("torch", "numpy", "ray", "triton", "pydantic", "pandas")


def test_names_are_few_sorted_and_all_there() -> None:
    assert cuassay.__all__ == sorted(cuassay.__all__)
    assert len(cuassay.__all__) <= 25
    for name in cuassay.__all__:
        assert getattr(cuassay, name) is not None
    assert dir(cuassay) == cuassay.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'cuassay' has no attribute 'chek'"):
        _ = cuassay.chek


def test_every_lazy_name_is_typed() -> None:
    tree = ast.parse((_ROOT / "src" / "cuassay" / "__init__.py").read_text())
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name
        for node in guard.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed | {"__version__"} == set(cuassay.__all__)


def test_version_is_the_package_s() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert cuassay.__version__ == project["version"]


@pytest.mark.parametrize(
    "program",
    [
        "import cuassay",
        "import cuassay; cuassay.check; cuassay.Verdict; cuassay.problem; cuassay.domains",
        "from cuassay.cli.main import main; main(['--help'])",
        "import cuassay.pytest_plugin",
        "import cuassay; cuassay.verify; cuassay.Verifier",
        "from cuassay.cli.main import main; main(['verify', 'absent.json', 'kernel.py'])",
        "from cuassay.cli.main import main; main(['explain', 'NUM001'])",
        "from cuassay.cli.main import main; main(['check', 'absent.py', '--problem', 'p'])",
    ],
)
def test_light_calls_load_nothing_heavy(program: str) -> None:
    tail = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program + tail],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(_ROOT / "src"), "PATH": ""},
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert {name.split(".")[0] for name in loaded} & set(_HEAVY) == set()
