"""The environment of workers: what is let through, what is told, and where files go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cuassay
from cuassay import settings
from cuassay.model.device import CPU, CUDA
from cuassay.sandbox import environment

_SOURCE = {
    "PATH": "/usr/bin",
    "HOME": "/home/me",
    "AWS_SECRET_ACCESS_KEY": "s",
    "GITHUB_TOKEN": "t",
    "CUDA_VISIBLE_DEVICES": "1",
    "LD_PRELOAD": "/tmp/x.so",
    "PYTHONPATH": f"relative{os.pathsep}/somewhere{os.pathsep}",
    "PYTHONSTARTUP": "/home/me/.pythonrc",
}


def test_no_secret_and_nothing_that_changes_a_process_passes(tmp_path: Path) -> None:
    kept = environment.scrubbed(_SOURCE, device=CUDA, folder=tmp_path)
    assert kept["PATH"] == "/usr/bin"
    assert kept["CUDA_VISIBLE_DEVICES"] == "1"
    unwanted = {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LD_PRELOAD", "PYTHONSTARTUP"}
    assert not unwanted & kept.keys()
    assert kept["HOME"] == str(tmp_path / "home")
    assert kept["TMPDIR"] == str(tmp_path / "tmp")


def test_modules_are_found_where_cuassay_is_and_at_absolute_paths(tmp_path: Path) -> None:
    kept = environment.scrubbed(_SOURCE, device=CUDA, folder=tmp_path)
    own = str(Path(cuassay.__file__).resolve().parents[1])
    assert kept["PYTHONPATH"].split(os.pathsep) == [own, "/somewhere"]
    assert kept["PYTHONSAFEPATH"] == "1"


def test_bytecode_is_written_unless_the_user_wants_none(tmp_path: Path) -> None:
    name = "PYTHONDONTWRITEBYTECODE"
    assert name not in environment.scrubbed(_SOURCE, device=CPU, folder=tmp_path)
    kept = environment.scrubbed(_SOURCE | {name: "1"}, device=CPU, folder=tmp_path)
    assert kept[name] == "1"


def test_without_a_gpu_none_is_shown(tmp_path: Path) -> None:
    kept = environment.scrubbed(_SOURCE, device=CPU, folder=tmp_path)
    assert kept["CUDA_VISIBLE_DEVICES"] == ""
    assert environment.scrubbed({}, device=CPU, folder=tmp_path)["PATH"] == os.defpath


def test_a_worker_keeps_its_files_with_its_candidate(tmp_path: Path) -> None:
    folder, cache = tmp_path / "own", tmp_path / "cache"
    kept = environment.private(folder, cache)
    assert (kept["HOME"], kept["TMPDIR"]) == (str(folder), str(folder / "tmp"))
    others = {name: Path(value) for name, value in kept.items() if name not in ("HOME", "TMPDIR")}
    assert all(path.is_relative_to(cache) for path in others.values())


def test_settings_are_told_to_a_worker_and_the_guard_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_TRITON", "interpreter")
    monkeypatch.setenv("CUASSAY_GUARD", "on")
    monkeypatch.delenv(settings.MACHINE_ARCH, raising=False)
    told = environment.worker_settings(tmp_path)
    assert told["CUASSAY_TRITON"] == "interpreter"
    assert told["CUASSAY_GUARD"] == "off"
    assert settings.MACHINE_ARCH not in told
    assert told["CUASSAY_HOME"] == str(tmp_path)
    assert told["PTXSAN_CACHE"] == str(tmp_path / "ptxsan")
    zygote = environment.worker_settings()
    assert "CUASSAY_HOME" not in zygote
    assert zygote["PTXSAN_RUNTIME"] == environment.machine_runtime()["PTXSAN_RUNTIME"]
