"""Files of a job on a machine that does not have them: where they are, and what the job says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.engine import shipping
from cuassay.model.jobs import TrialJob


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "there" / "problems"
    place.mkdir(parents=True)
    (place / "problem.py").write_text("p")
    (place / "kernel.py").write_text("k")
    (place / "big.safetensors").write_bytes(b"t")
    return place


def test_small_files_travel_and_others_stay(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "_LARGEST_BYTES", 1)
    (tree / "long.py").write_text("too long")
    found = shipping.packed([tree / "problem.py", tree / "long.py", tree / "absent.py"])
    assert found == {str(tree / "problem.py"): b"p"}


@pytest.mark.parametrize("suffix", ["", "::run", ":rms"])
def test_a_job_names_the_files_where_they_are_now(tree: Path, tmp_path: Path, suffix: str) -> None:
    contents = shipping.packed([tree / "problem.py", tree / "kernel.py"])
    for file in (tree / "problem.py", tree / "kernel.py"):
        file.unlink()  # as on another machine
    job = TrialJob(problem="rmsnorm", candidate=f"{tree / 'kernel.py'}{suffix}")
    here = tmp_path / "here"
    moved = shipping.unpacked(job, contents, here)
    assert moved.problem == "rmsnorm"  # of the catalogue
    copy = here / str(tree).lstrip("/") / "kernel.py"
    assert moved.candidate == f"{copy}{suffix}"
    assert copy.read_text() == "k"


def test_a_folder_moves_with_its_files(tree: Path, tmp_path: Path) -> None:
    contents = shipping.packed([tree / "problem.py"])
    job = TrialJob(problem=str(tree), candidate="/elsewhere/kernel.py")
    moved = shipping.unpacked(job, contents, tmp_path / "here")
    assert moved.problem == str(tmp_path / "here" / str(tree).lstrip("/"))
    assert moved.candidate == "/elsewhere/kernel.py"  # did not travel


def test_tensors_beside_a_file_are_linked_where_this_machine_has_them(
    tree: Path, tmp_path: Path
) -> None:
    contents = shipping.packed([tree / "problem.py"])
    job = TrialJob(problem=str(tree), candidate="k")
    moved = shipping.unpacked(job, contents, tmp_path / "here")
    linked = Path(moved.problem) / "big.safetensors"
    assert linked.is_symlink()
    assert linked.resolve() == tree / "big.safetensors"
    shipping.unpacked(job, contents, tmp_path / "here")  # again: the link stays
    assert linked.is_symlink()
