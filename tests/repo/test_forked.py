"""What `make test` runs the tests by: forks of a process that collected them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

_PLAIN = (
    "-p",
    "no:cuassay",
    "-p",
    "no:ptxsan",
    "-p",
    "tests.support.forked",
    "--forks",
    "2",
    "-ra",
)
_A = """
import os
import pytest

@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    yield
    (tmp_path_factory.getbasetemp().parent / f"torn-{os.getpid()}").touch()

def test_passes(whole, tmp_path, capfd):
    os.write(1, b"out")
    assert capfd.readouterr().out == "out"
    assert tmp_path.parent.name.startswith("fork-")

def test_fails(whole):
    print("said before")
    assert 1 == 2

def test_skips():
    pytest.skip("no reason")

@pytest.fixture
def unsound():
    yield
    assert not "torn down"

def test_is_torn_down_badly(unsound):
    pass
"""
_B = """
import os
from test_a import whole

def test_first(whole):
    pass

def test_dies():
    os._exit(int(os.environ.get("DIE", 7)))
"""


@pytest.fixture
def two_files(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyfile(test_a=_A, test_b=_B)
    return pytester


def test_forks_say_of_each_test_what_one_process_would(two_files: pytest.Pytester) -> None:
    base = two_files.path / "base"
    ran = two_files.runpytest_subprocess(*_PLAIN, "--basetemp", str(base), "-k", "not dies")
    ran.assert_outcomes(passed=3, failed=1, skipped=1, errors=1, deselected=1)
    ran.stdout.fnmatch_lines(["*said before*", "FAILED test_a.py::test_fails - assert 1 == 2"])
    assert len(list(base.glob("torn-*"))) == 2, "each fork tears down its own session"


def test_a_fork_that_dies_ends_the_run_with_the_test_before_it(two_files: pytest.Pytester) -> None:
    ran = two_files.runpytest_subprocess(*_PLAIN, "test_b.py", "test_a.py::test_skips")
    assert ran.ret == pytest.ExitCode.INTERRUPTED
    ran.stdout.fnmatch_lines(["*a fork failed after test_b.py::test_first: it ended with 7*"])
