"""Where CUDA's headers come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda import pathfinder

from ptxsan import nvrtc


def test_headers_of_the_compiler_come_from_a_toolkit_where_their_wheel_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial, toolkit = tmp_path / "wheel", tmp_path / "toolkit"
    (partial / "include").mkdir(parents=True)
    (toolkit / "include" / "crt").mkdir(parents=True)
    (toolkit / "include" / "crt" / "host_defines.h").write_text("")
    wheel = str(partial / "include")
    monkeypatch.setattr(pathfinder, "find_nvidia_header_directory", lambda name: wheel)
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    read = getattr(nvrtc.include_folders, "__wrapped__", nvrtc.include_folders)
    assert read() == (wheel, str(toolkit / "include"))
    (partial / "include" / "crt").mkdir()
    (partial / "include" / "crt" / "host_defines.h").write_text("")
    assert read() == (wheel,)
