"""Where runs and caches are kept, and what of it no candidate may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay import home, settings


@pytest.fixture(autouse=True)
def _not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_told", None)


def test_the_folder_is_what_a_variable_names_else_the_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", "~/kept")
    assert home.home() == Path.home() / "kept"
    monkeypatch.delenv("CUASSAY_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert home.home() == tmp_path / "cuassay"
    monkeypatch.delenv("XDG_STATE_HOME")
    assert home.home() == Path.home() / ".local" / "state" / "cuassay"


def test_keys_seeds_and_what_trials_left_are_private_and_builds_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    private = home.private_dirs()
    for folder in (home.keys_dir(), home.runs_dir(), home.audits_dir(), home.apart_dir()):
        assert folder in private
        assert folder.is_relative_to(tmp_path)
    assert not any(home.cache_dir().is_relative_to(folder) for folder in private)
