"""A trial watched in a real browser while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cuassay.model.jobs import TrialJob
from cuassay.store.runs import RunFolder
from cuassay.view import View
from tests.support import samples
from tests.support.folders import kept_run


def test_the_page_follows_the_trial(
    chromium: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    monkeypatch.setattr("cuassay.view.REFRESH_S", 1)
    events = samples.events(samples.rejected())
    run = kept_run(events[:12], TrialJob(problem="p", candidate="k.py"))
    with View(run.path).running() as address:
        page = chromium.new_page()
        page.set_default_timeout(120_000)
        page.goto(address)
        assert page.text_content("h1") == "RUNNING"
        live = RunFolder.create(TrialJob(problem="p", candidate="k.py"), path=tmp_path / "next")
        for event in events:
            live.append(event)
        live.close()
        (live.path / "verdict.json").replace(run.path / "verdict.json")
        page.wait_for_selector("h1:has-text('REJECTED')", timeout=120_000)
        page.close()
