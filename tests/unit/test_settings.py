"""Settings by name: of the environment, until a process is told its own."""

from __future__ import annotations

import pytest

from cuassay import settings


@pytest.fixture(autouse=True)
def _not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_told", None)


def test_settings_are_the_environment_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", "/a")
    monkeypatch.setenv("OTHER", "b")
    assert settings.get("CUASSAY_HOME") == "/a"
    assert settings.get("CUASSAY_NOT_SET") == ""
    told = settings.told()
    assert told["CUASSAY_HOME"] == "/a"
    assert all(name.startswith("CUASSAY_") for name in told)


def test_a_process_that_was_told_looks_at_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", "/a")
    given = {"CUASSAY_TRITON": "machine"}
    settings.tell(given)
    given["CUASSAY_TRITON"] = "changed later"
    assert settings.get("CUASSAY_HOME") == ""
    assert settings.told() == {"CUASSAY_TRITON": "machine"}
    settings.told()["CUASSAY_TRITON"] = "a copy"
    assert settings.get("CUASSAY_TRITON") == "machine"
