"""Tests stand where their source does: source files without one do not become more."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_TESTS = {  # of each package: where its tests begin
    "src/cuassay": "tests/unit",
    "packages/ptxsan/src/ptxsan": "packages/ptxsan/tests/unit",
    "packages/cuassay-guard/src/cuassay_guard": "tests/unit/guard",
    "packages/cuassay-loops/src/cuassay_loops": "tests/unit/loops",
    "packages/cuassay-adapters/src/cuassay_adapters": "tests/unit/adapters",
    "packages/cuassay-attest/src/cuassay_attest": "tests/unit/attest",
}
_LINES = 30  # a shorter file has too little logic to be wrong
_MOST = 277  # of 971; 609 when they were first counted: lower it as they go


def test_source_files_without_a_test_at_their_place_do_not_become_more() -> None:
    without = []
    for source, tests in _TESTS.items():
        for file in sorted((_ROOT / source).rglob("*.py")):
            place = file.relative_to(_ROOT / source)
            short = file.read_bytes().count(b"\n") <= _LINES
            if file.name == "__init__.py" or short:
                continue
            if not (_ROOT / tests / place.parent / f"test_{place.name}").is_file():
                without.append(f"{source}/{place}")
    assert len(without) <= _MOST, (
        f"{len(without)} source files have no test at their place, at most {_MOST} are allowed; "
        "write one beside the module that you added, such as "
        f"{_TESTS['src/cuassay']}/report/test_rules.py for src/cuassay/report/rules.py"
    )


def test_every_folder_of_tests_is_collected(pytestconfig: pytest.Config) -> None:
    """pytest passes over folders of some names, `build` and `dist` among them, without a word."""
    passed_over = pytestconfig.getini("norecursedirs")
    folders = {
        folder
        for tests in pytestconfig.getini("testpaths")
        for file in (_ROOT / tests).rglob("test_*.py")
        for folder in file.parent.relative_to(_ROOT / tests).parts
    }
    assert not [one for one in folders if any(fnmatch(one, name) for name in passed_over)]
