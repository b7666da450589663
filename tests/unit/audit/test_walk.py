"""The folders of a tree: in order, without hidden ones, circles, or what cuassay wrote itself."""

from __future__ import annotations

from pathlib import Path

from cuassay.audit.walk import walk
from cuassay.model.audit import Oddity


def _made(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def _seen(root: Path) -> tuple[list[str], list[Oddity]]:
    oddities: list[Oddity] = []
    return ["/".join(folder.names) for folder in walk(root, oddities)], oddities


def test_folders_come_sorted_and_parents_first(tmp_path: Path) -> None:
    _made(tmp_path, "b/k.py", "a/deep/k.py", "a/k.py", "k.py")
    oddities: list[Oddity] = []
    folders = list(walk(tmp_path, oddities))
    assert [folder.names for folder in folders] == [(), ("a",), ("a", "deep"), ("b",)]
    assert folders[1].files == {"k.py": tmp_path / "a" / "k.py"}
    assert folders[1].folders == ("deep",)
    assert oddities == []


def test_hidden_folders_caches_and_own_runs_are_left_out(tmp_path: Path) -> None:
    _made(
        tmp_path, ".git/x", "__pycache__/x", "a/k.py", "run/events.ndjson", "run/inner/k.py",
        "audit/plan.ndjson", "audit/candidates/k.py",
    )  # fmt: skip
    assert _seen(tmp_path)[0] == ["", "a"]


def test_links_to_folders_are_not_entered_and_broken_ones_are_told(tmp_path: Path) -> None:
    _made(tmp_path, "a/k.py")
    (tmp_path / "a" / "circle").symlink_to(tmp_path)
    (tmp_path / "linked.py").symlink_to(tmp_path / "a" / "k.py")
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    seen, oddities = _seen(tmp_path)
    assert seen == ["", "a"]
    assert [(Path(odd.path).name, odd.message) for odd in oddities] == [
        ("nothing", "a link to nothing")
    ]


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    seen, oddities = _seen(tmp_path / "gone")
    assert seen == []
    assert oddities[0].message.startswith("cannot be read: No such file")
