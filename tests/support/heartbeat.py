"""A line where a run of many processes has said nothing for some seconds: it is not stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

_SILENT_S = 9.0
_TICK_S = 0.5


class Heartbeat:
    """Says every nine silent seconds how many tests are done; a plugin of the waiting process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._began = self._said = time.monotonic()
        self._done, self._collected = 0, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test; the reporter has written its dot."""
        if report.when == "teardown":
            self._done += 1
        self._said = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Keep how many tests there are."""
        self._collected = len(ids)

    def pytest_unconfigure(self) -> None:
        """Say no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_TICK_S):
            now = time.monotonic()
            reporter = self._config.pluginmanager.get_plugin("terminalreporter")
            if now - self._said < _SILENT_S or reporter is None:
                continue
            far = (
                f"{self._done} of {self._collected} tests done"
                if self._collected
                else "collects the tests"
            )
            if reporter._tw.width_of_current_line:  # a row of dots
                reporter.write("\n")
            reporter.write_line(f"{now - self._began:.0f} s: {far}")
            self._said = now
