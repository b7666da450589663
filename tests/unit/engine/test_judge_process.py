"""Bytecode gets a folder of cuassay's where torch was installed without any."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cuassay.engine import judge_process
from cuassay.home import cache_dir


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return torch's `__init__.py` of an installation without bytecode."""
    source = tmp_path / "torch" / "__init__.py"
    source.parent.mkdir()
    source.touch()
    found = SimpleNamespace(origin=str(source))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return source


def test_without_bytecode_the_judge_keeps_it_in_the_cache(installed: Path) -> None:
    assert judge_process._bytecode_folder() == {
        "PYTHONPYCACHEPREFIX": str(cache_dir() / "bytecode"),
        "PYTHONDONTWRITEBYTECODE": "",
    }


def test_with_bytecode_nothing_changes(installed: Path) -> None:
    cached = Path(importlib.util.cache_from_source(str(installed)))
    cached.parent.mkdir()
    cached.touch()
    assert judge_process._bytecode_folder() == {}


def test_a_folder_of_the_users_own_stays(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", "/elsewhere")
    assert judge_process._bytecode_folder() == {}


def test_without_torch_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert judge_process._bytecode_folder() == {}
