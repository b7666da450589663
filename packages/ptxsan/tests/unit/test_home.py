"""Where machine code is kept: what a process was told, its variables, else the XDG folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxsan import home


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home, "TOLD", {})
    for name in ("PTXSAN_CACHE", "PTXSAN_RUNTIME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_the_cache_is_below_the_user_s_unless_a_variable_names_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert home.cache_dir() == Path.home() / ".cache" / "ptxsan"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert home.cache_dir() == tmp_path / "xdg" / "ptxsan"
    monkeypatch.setenv("PTXSAN_CACHE", str(tmp_path / "own"))
    assert home.cache_dir() == tmp_path / "own"
    assert home.kernels_dir() == tmp_path / "own" / "kernels"
    monkeypatch.setenv("PTXSAN_CACHE", "~/codes")
    assert home.cache_dir() == Path.home() / "codes"


def test_several_caches_share_a_compiled_runtime(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PTXSAN_CACHE", str(tmp_path / "one"))
    assert home.runtime_dir() == tmp_path / "one" / "runtime"
    monkeypatch.setenv("PTXSAN_RUNTIME", str(tmp_path / "shared"))
    assert home.runtime_dir() == tmp_path / "shared"
    assert home.kernels_dir() == tmp_path / "one" / "kernels"


def test_what_a_process_was_told_counts_more_than_its_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PTXSAN_CACHE", str(tmp_path / "environment"))
    monkeypatch.setitem(home.TOLD, "PTXSAN_CACHE", tmp_path / "told")
    assert home.cache_dir() == tmp_path / "told"
