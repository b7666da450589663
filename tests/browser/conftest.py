"""A headless Chromium that may open files and loopback, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = [
    "--no-sandbox",  # the pages under test are our own, and containers rarely allow the sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]


_PATIENCE_MS = 120_000  # a busy machine may take long; nothing waits that long otherwise


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Yield a browser; skip with a reason where there is none."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium: install one, or name it in CHROMIUM")
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=_FLAGS, timeout=_PATIENCE_MS)
        yield browser
        browser.close()


class Watched:
    """A page with everything that it asked for and said."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.said: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Any) -> None:
        self.said.append("dialog")
        dialog.dismiss()


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Return a function that opens a page's text as a file, perhaps at a fragment."""
    contexts: list[Any] = []

    def open_text(text: str, fragment: str = "", **options: Any) -> Watched:
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_text(text, encoding="utf-8")
        context = chromium.new_context(**options)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        context.set_default_timeout(_PATIENCE_MS)
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.goto(f"{file.as_uri()}{fragment}")
        return watched

    yield open_text
    for context in contexts:
        context.close()
