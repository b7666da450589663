"""A file that says itself what is right is known before it runs, and accepted on request alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.errors import UsageError
from cuassay.formats.own_problem import own_condition, own_file
from cuassay.model.jobs import TrialJob

TEXT = "def run(x):\n    return x * 2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text(TEXT)
    (tmp_path / "problem.py").write_text(TEXT)
    (tmp_path / "link.py").symlink_to(tmp_path / "kernel.py")
    return tmp_path / "kernel.py"


@pytest.mark.parametrize(
    ("problem", "candidate", "own"),
    [
        ("kernel.py", "kernel.py", True),
        ("kernel.py:scale", "kernel.py", True),
        ("kernel.py:scale", "kernel.py::run", True),
        ("kernel.py:scale", "link.py::run", True),
        ("problem.py:scale", "kernel.py", False),
        ("problem.py", "kernel.py::run", False),
    ],
)
def test_one_file_for_both_is_known(file: Path, problem: str, candidate: str, own: bool) -> None:
    job = TrialJob(problem=f"{file.parent}/{problem}", candidate=f"{file.parent}/{candidate}")
    assert (own_file(job) is not None) is own
    assert own_condition(job).startswith("own-problem: ") is own


def test_a_name_of_the_catalogue_is_nobodys_own(file: Path) -> None:
    assert own_condition(TrialJob(problem="rmsnorm@float16", candidate=str(file))) == ""
    assert own_condition(TrialJob(problem="package.module:scale", candidate=str(file))) == ""


def test_what_was_written_from_one_file_is_its_own(file: Path) -> None:
    job = TrialJob(problem="/elsewhere/p", candidate="/elsewhere/k.py", written_from=str(file))
    assert (
        own_condition(job)
        == "own-problem: kernel.py itself says what is right; nobody else has said so"
    )


def test_who_does_not_agree_is_told_before_it_runs(file: Path) -> None:
    place = str(file)
    for job in (
        TrialJob(problem=f"{place}:scale", candidate=place, own_problem=False),
        TrialJob(problem=f"{place}:scale", candidate=place, require=("own-problem",)),
    ):
        with pytest.raises(UsageError, match=r"kernel\.py declares the problem"):
            own_condition(job)
    other = TrialJob(problem="rmsnorm", candidate=place, own_problem=False)
    assert own_condition(other) == ""
