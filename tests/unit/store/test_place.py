"""What a user's argument names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.store.place import absolute, locate, working_folder


def test_paths_become_absolute_and_names_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text("one")
    monkeypatch.chdir(tmp_path)
    assert str(locate("kernel.py")) == str(tmp_path / "kernel.py")
    assert absolute("kernel.py:run") == f"{tmp_path / 'kernel.py'}:run"
    assert absolute("kernel.py::run") == f"{tmp_path / 'kernel.py'}::run"
    tactic = "kernel.py::run@_norm: BLOCK: 64"  # what follows two colons may hold more
    assert absolute(tactic) == f"{tmp_path}/{tactic}"
    for name in ("", "rmsnorm", "package.module:function", "absent.py:run"):
        assert locate(name) is None
        assert absolute(name) == name


def test_no_relative_path_names_anything_in_a_deleted_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel.py").write_text("one")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for name in (".", "kernel.py", "rmsnorm", "kernel.py:run"):
        assert locate(name) is None
        assert absolute(name) == name
    assert absolute(f"{tmp_path}/kernel.py:run") == f"{tmp_path}/kernel.py:run"
    assert working_folder() is None
