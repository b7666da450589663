"""Packages without bytecode are compiled by one of a candidate's processes, and its text is run."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cuassay.model.trace import Finished
from cuassay.sandbox.host.nursery import Nursery
from tests.support.workers import ROOT, pool, ramp, read, scenario

# A process that is about to load a candidate; prints the module's value and what it compiled.
_SCRIPT = """
import importlib, os, sys
from pathlib import Path
from cuassay.sandbox.guest.process.bytecode import keep_bytecode
for _ in range(2):  # as in a rank that a process forks
    keep_bytecode(Path(sys.argv[1]))
sys.path[:0] = sys.argv[2:4]
compiled = []
sys.addaudithook(lambda event, given: event == "compile" and compiled.append(str(given[1])))
value = importlib.import_module(sys.argv[4]).value
print(value, sum(os.path.basename(name).startswith(sys.argv[4]) for name in compiled))
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], str]:
    """Return what imports a module in a new process: packages first, then the candidate's own."""
    for name in ("packages", "kept/src"):
        (tmp_path / name).mkdir(parents=True)

    def loaded(module: str) -> str:
        folders = [tmp_path / "kept", tmp_path / "packages", tmp_path / "kept" / "src"]
        done = subprocess.run(
            [sys.executable, "-P", "-c", _SCRIPT, *map(str, folders), module],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return loaded


def test_a_package_without_bytecode_is_compiled_once(
    tmp_path: Path, load: Callable[[str], str]
) -> None:
    file = tmp_path / "packages" / "helper.py"
    file.write_text("value = 1\n")
    assert [load("helper"), load("helper")] == ["1 1", "1 0"]
    assert not (tmp_path / "packages" / "__pycache__").exists()
    file.write_text("value = 2 + 1\n")
    assert [load("helper"), load("helper")] == ["3 1", "3 0"]


def test_bytecode_that_a_package_has_is_used(tmp_path: Path, load: Callable[[str], str]) -> None:
    file = tmp_path / "packages" / "helper.py"
    file.write_text("value = 1\n")
    py_compile.compile(str(file))
    assert load("helper") == "1 0"
    assert not (tmp_path / "kept" / "bytecode").exists()


def test_the_candidates_text_runs_and_no_bytecode_of_it(
    tmp_path: Path, load: Callable[[str], str]
) -> None:
    """An earlier process of a candidate may leave other code under the name of its sources."""
    file = tmp_path / "kept" / "src" / "kernel.py"
    file.write_text("value = 'other'\n")
    py_compile.compile(str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    file.write_text("value = 'judged'\n")
    assert Path(importlib.util.cache_from_source(str(file))).exists()
    assert load("kernel") == "judged 1"
    (tmp_path / "packages" / "kernel.py").write_text("value = 'a package'\n")
    assert load("kernel") == "a package 1"


def test_a_worker_keeps_the_bytecode_of_what_its_candidate_imports(
    nursery: Nursery, tmp_path: Path
) -> None:
    source = """
    import pathlib
    place = pathlib.Path(os.environ["TRITON_HOME"]) / "packages"  # it may write there
    place.mkdir()
    (place / "helper_of_a_test.py").write_text("value = 3.0")
    sys.path.insert(0, str(place))
    import helper_of_a_test
    def run(x): return x * helper_of_a_test.value
    """
    with pool(source, tmp_path, nursery, spares=0) as workers:
        run = workers.run(scenario(), ramp)
    assert run.result.termination == Finished()
    assert read(run, 2)[-1].item() == 297.0
    assert [*tmp_path.glob("*/bytecode/**/helper_of_a_test*.pyc")]
