"""docs/extending.md: its additions are applied to a copy and tested there, or are in the code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.paths import python_path

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = (_ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^`([^`\n]+)`:\n\n```(python|diff|patch)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COPIED = ("src", "packages/ptxsan/src", "tests/support", "tests/zoo")
_MACHINE = "packages/ptxsan/"


def _hunks(diff: str) -> list[tuple[str, str]]:
    """Return the old and the new text of each part of a diff."""
    found = []
    for hunk in diff.split("@@\n")[1:]:
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] or "\n" for line in lines if line[0] != sign) for sign in "+-")
        found.append((old, new))
    return found


def _apply(path: Path, kind: str, text: str) -> None:
    if kind != "diff":
        assert not path.exists(), path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    now = path.read_text(encoding="utf-8")
    for old, new in _hunks(text):
        assert now.count(old) == 1, f"{path.name} has {now.count(old)} times:\n{old}"
        now = now.replace(old, new)
    path.write_text(now, encoding="utf-8")


@pytest.mark.thorough
def test_check_step_and_format_run_as_they_stand(tmp_path: Path) -> None:
    for folder in _COPIED:
        shutil.copytree(_ROOT / folder, tmp_path / folder)
    shutil.copy(_ROOT / "pyproject.toml", tmp_path)
    tests = []
    for file, kind, text in _BLOCK.findall(_PAGE):
        if not file.startswith(_MACHINE):
            _apply(tmp_path / file, kind, text)
            tests += [file] if Path(file).name.startswith("test_") else []
    assert len(tests) == 3
    sources = (tmp_path / "src", tmp_path / "packages/ptxsan/src")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": python_path(*sources)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("file", "text"),
    [(file, text) for file, _, text in _BLOCK.findall(_PAGE) if file.startswith(_MACHINE)],
    ids=lambda value: value if value.startswith(_MACHINE) else "",
)
def test_the_instruction_is_the_code(file: str, text: str) -> None:
    now = (_ROOT / file).read_text(encoding="utf-8")
    for _, new in _hunks(text):
        assert new in now, new
