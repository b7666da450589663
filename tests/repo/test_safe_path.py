"""Every Python that the sources start leaves the current folder off its path.

A folder with candidates is a usual place to start cuassay in, and a `queue.py` there would be
imported outside of every wall.
"""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
# A file without the word starts no Python: it is not parsed.
_SOURCES = [
    path
    for path in sorted(
        [
            *(_ROOT / "src").rglob("*.py"),
            *(_ROOT / "packages").glob("*/src/**/*.py"),
            _ROOT / "packages" / "ptxsan" / "hatch_build.py",
        ]
    )
    if "executable" in path.read_text(encoding="utf-8")
]
_SHADOW = "open({mark!r}, 'a').write('imported')\n"
_NAMES = ("queue", "json", "random", "torch", "numpy", "click", "ptxsan")


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _starts(tree: ast.AST) -> Iterator[tuple[int, bool]]:
    """Yield the line of each command that begins with `sys.executable`, and whether it has -P."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.List | ast.Tuple):
            continue
        for one, after in zip(node.elts, [*node.elts[1:], None], strict=False):
            if isinstance(one, ast.Attribute) and one.attr == "executable":
                yield one.lineno, isinstance(after, ast.Constant) and after.value in ("-P", "-I")


def _unsafe(tree: ast.AST) -> list[int]:
    return [line for line, safe in _starts(tree) if not safe]


def test_every_start_of_python_has_a_safe_path() -> None:
    found = {path: _unsafe(_tree(path)) for path in _SOURCES}
    unsafe = [f"{path.relative_to(_ROOT)}:{line}" for path in found for line in found[path]]
    assert not unsafe, "give Python -P, or the current folder is searched for modules"
    assert sum(len(list(_starts(_tree(path)))) for path in _SOURCES) >= 10


def test_an_executable_stands_in_commands_alone() -> None:
    # A name that was given to it would be out of the sight of the test above.
    for path in _SOURCES:
        text = path.read_text(encoding="utf-8")
        tree = _tree(path)
        in_commands = len(list(_starts(tree)))
        named = sum(
            isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
            for node in ast.walk(tree)
        )
        read = text.count("realpath(sys.executable)")
        assert named == in_commands + read, path


@pytest.mark.parametrize("command", ["[sys.executable, '-m', 'x']", "(sys.executable, '-c', 'x')"])
def test_a_start_without_it_is_found(command: str) -> None:
    assert _unsafe(ast.parse(f"command = {command}")) == [1]


@pytest.fixture
def shadowed(tmp_path: Path) -> Path:
    """Return a folder with modules that hide others, and a kernel beside its reference."""
    for name in _NAMES:
        text = _SHADOW.format(mark=str(tmp_path / f"imported-{name}"))
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "both.py").write_text(
        "import torch\n"
        "def reference(x): return x * 2\n"
        "def inputs(): return {'x': torch.randn(4, 8)}\n"
        "def run(x): return x * 2\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "cuassay", "check", "both.py", "--device", "nothing"),
        ("-P", "-m", "cuassay.formats.beside", "both.py", "run", "reference", "inputs"),
    ],
    ids=["check", "beside"],
)
def test_no_module_of_the_current_folder_is_imported(
    shadowed: Path, arguments: tuple[str, ...]
) -> None:
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    subprocess.run(
        [sys.executable, *arguments],
        cwd=shadowed,
        env=environment | {"CUASSAY_HOME": str(shadowed / "home")},
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert not list(shadowed.glob("imported-*"))
