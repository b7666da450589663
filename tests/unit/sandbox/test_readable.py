"""What a candidate's process may read: the toolchain wherever it is installed, never a home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cuassay.model.device import CPU
from cuassay.sandbox.readable import readable


def _compiler(prefix: Path) -> Path:
    place = prefix / "bin" / "gcc"
    place.parent.mkdir(parents=True)
    place.write_text("#!/bin/sh\n")
    place.chmod(0o755)
    return place


def _allows(paths: list[str], wanted: Path) -> bool:
    return any(f"{os.path.realpath(wanted)}/".startswith(f"{path}/") for path in paths)


@pytest.mark.parametrize("named", [True, False], ids=["by CC", "on PATH"])
def test_a_compiler_at_any_prefix_is_readable_with_its_passes(tmp_path: Path, named: bool) -> None:
    compiler = _compiler(tmp_path / "opt" / "gcc-13")
    passes = tmp_path / "opt" / "gcc-13" / "libexec" / "cc1"
    passes.parent.mkdir()
    passes.touch()
    home = tmp_path / "home"
    home.mkdir()
    place = {"CC": str(compiler)} if named else {"PATH": str(compiler.parent)}
    found = readable({"HOME": str(home), **place}, device=CPU)
    assert _allows(found, passes)
    assert not _allows(found, home)


def test_a_link_to_a_compiler_stands_for_its_target(tmp_path: Path) -> None:
    compiler = _compiler(tmp_path / "store" / "toolchain")
    links = tmp_path / "links"
    links.mkdir()
    (links / "gcc").symlink_to(compiler)
    found = readable({"HOME": str(tmp_path / "home"), "PATH": str(links)}, device=CPU)
    assert _allows(found, tmp_path / "store" / "toolchain" / "lib")


def test_a_home_is_no_prefix(tmp_path: Path) -> None:
    _compiler(tmp_path / "home")  # ~/bin/gcc
    (tmp_path / "home" / "key").touch()
    found = readable(
        {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "home" / "bin")}, device=CPU
    )
    assert _allows(found, tmp_path / "home" / "bin" / "gcc")
    assert not _allows(found, tmp_path / "home" / "key")
