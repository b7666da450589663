"""A patch makes the bug of its twin, and says where it does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zoo import planted
from tests.zoo.manifest import HERE, PAIRS, Pair

TWIN = '"""Adds."""\n\n\ndef run(x, y):\n    total = x + y\n    return total\n'


def _patch(tmp_path: Path, bug: str) -> str:
    twin = tmp_path / "twin.py"
    twin.write_text(TWIN)
    whole = tmp_path / "bug.py"
    whole.write_text(bug)
    return planted.patch_between(twin, whole)


@pytest.mark.parametrize(
    "bug",
    [
        TWIN.replace("x + y", "x - y"),
        TWIN.replace("    total = x + y\n", ""),
        TWIN.replace("    return", "    total += 1\n    return"),
        "import torch\n" + TWIN,
        TWIN + "\n\nrun(1, 2)\n",
        "",
    ],
)
def test_a_patch_gives_the_bug_back(bug: str, tmp_path: Path) -> None:
    assert planted.patched(TWIN, _patch(tmp_path, bug)) == bug


def test_a_patch_that_no_longer_fits_names_the_line(tmp_path: Path) -> None:
    patch = _patch(tmp_path, TWIN.replace("x + y", "x - y"))
    with pytest.raises(planted.PatchError, match=r"line 5 of the twin is not '    total = x \+ y'"):
        planted.patched(TWIN.replace("x + y", "y + x"), patch)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_patch_changes_code_and_not_only_words(pair: Pair) -> None:
    lines = planted.patch_of(pair.twin).read_text().splitlines()[2:]
    changed = [line[1:].strip() for line in lines if line[0] in "+-"]
    said = {path.read_text().splitlines()[0] for path in (pair.bug, pair.twin)}
    assert any(line not in said for line in changed)


def test_no_bug_is_a_whole_file() -> None:
    whole = [str(path) for suffix in planted.SUFFIXES for path in HERE.glob(f"**/bugs/*{suffix}")]
    assert not whole, "run `python -m tests.zoo.planted`, which turns them into patches"
