"""Copies of what was judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cuassay.store import snapshot
from cuassay.store.snapshot import keep, locate, restore


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "sub").mkdir(parents=True)
    (folder / "__pycache__").mkdir()
    (folder / "kernel.py").write_text("one")
    (folder / "sub" / "helper.py").write_text("two")
    (folder / "__pycache__" / "kernel.pyc").write_text("no")
    (folder / ".secret").write_text("no")
    return folder


def test_locate(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sources)
    assert str(locate("kernel.py")) == str(sources / "kernel.py")
    assert str(locate("kernel.py:run")) == f"{sources / 'kernel.py'}:run"
    assert str(locate("kernel.py::run")) == f"{sources / 'kernel.py'}::run"
    for name in ("", "rmsnorm", "package.module:function", "absent.py:run"):
        assert locate(name) is None
        assert snapshot.absolute(name) == name


def test_an_unchanged_original_is_preferred(sources: Path, tmp_path: Path) -> None:
    keep(str(sources), tmp_path / "kept")
    assert restore(tmp_path / "kept") is None
    (sources / "unrelated.txt").write_text("new")
    assert restore(tmp_path / "kept") is None


def test_a_changed_original_gives_the_copy(sources: Path, tmp_path: Path) -> None:
    keep(str(sources), tmp_path / "kept")
    (sources / "sub" / "helper.py").write_text("changed")
    copy = restore(tmp_path / "kept")
    assert copy is not None
    assert (copy / "sub" / "helper.py").read_text() == "two"
    assert sorted(p.name for p in copy.rglob("*")) == ["helper.py", "kernel.py", "sub"]


def test_a_file_is_kept_alone_with_its_function(sources: Path, tmp_path: Path) -> None:
    keep(f"{sources / 'kernel.py'}:run", tmp_path / "kept")
    (sources / "kernel.py").unlink()
    copy = restore(tmp_path / "kept")
    assert str(copy) == f"{tmp_path / 'kept' / 'files' / 'kernel.py'}:run"
    assert [p.name for p in (tmp_path / "kept" / "files").iterdir()] == ["kernel.py"]


def test_a_definition_brings_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "problem"
    folder.mkdir()
    for name in ("definition.json", "workload.jsonl", "reference.py", "photo.png"):
        (folder / name).write_text(name)
    keep(str(folder / "definition.json"), tmp_path / "kept")
    kept = {p.name for p in (tmp_path / "kept" / "files").iterdir()}
    assert kept == {"definition.json", "workload.jsonl", "reference.py"}


def test_limits(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "_FILE_LIMIT_BYTES", 10)
    (sources / "weights.bin").write_text("x" * 11)
    keep(str(sources), tmp_path / "kept")
    table = json.loads((tmp_path / "kept" / "snapshot.json").read_text())
    assert table["left_out"] == ["weights.bin"]


def test_names_and_damage_give_nothing(tmp_path: Path) -> None:
    keep("rmsnorm", tmp_path / "kept")
    assert restore(tmp_path / "kept") is None
    (tmp_path / "kept").mkdir()
    for text in ("{", "[]", "{}", '{"original": 1}'):
        (tmp_path / "kept" / "snapshot.json").write_text(text)
        assert restore(tmp_path / "kept") is None
