"""Folders that a candidate filled are removed, whatever is in them, and nothing beside them."""

from __future__ import annotations

import os
from pathlib import Path

from cuassay.sandbox import trees

_MIB = 1 << 20


def test_depth_names_links_and_permissions_do_not_matter(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    (kept / "file").write_text("kept")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(kept)
    (root / "gone").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    (root / "b\udcffad\nname").mkdir()
    closed = root / "closed" / "inner"
    closed.mkdir(parents=True)
    (closed / "file").touch()
    closed.chmod(0)
    closed.parent.chmod(0)
    here = os.open(root, os.O_RDONLY)
    for number in range(1200):  # far beyond PATH_MAX and the stack
        name = f"{number:0200}" if number < 120 else "d"
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    trees.remove(root)
    assert not root.exists()
    assert sorted(path.name for path in kept.iterdir()) == ["file", "inner"]


def test_what_is_not_a_folder_is_left(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    link = tmp_path / "link"
    link.symlink_to(target)
    trees.remove(link)
    trees.remove(tmp_path / "absent")
    assert link.is_symlink()
    assert target.is_dir()


def test_more_files_and_deeper_folders_than_allowed_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").touch()
    assert trees.excess(tmp_path, files=3, depth=2, size=_MIB) == ""
    assert trees.excess(tmp_path, files=2, depth=2, size=_MIB) == "more than 2 files in its folder"
    assert (
        trees.excess(tmp_path, files=3, depth=1, size=_MIB)
        == "folders nested more than 1 levels deep"
    )
    (tmp_path / "a" / "b").chmod(0)
    (tmp_path / "a" / "link").symlink_to("/")
    assert trees.excess(tmp_path, files=4, depth=2, size=_MIB) == ""
    (tmp_path / "a" / "b").chmod(0o700)


def test_a_folder_holds_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(bytes(1 << 20))
    (tmp_path / "holes").touch()
    os.truncate(tmp_path / "holes", 1 << 40)  # holes take nothing
    bounds = {"files": 9, "depth": 9}
    assert trees.excess(tmp_path, **bounds, size=2 << 20) == ""
    found = trees.excess(tmp_path, **bounds, size=1 << 19)
    assert found == f"more than {1 << 19} bytes in its folder"
