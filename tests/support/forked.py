"""`pytest -p tests.support.forked --forks 3`: the tests are collected once, then run by forks.

Workers of pytest-xdist each import every test module and what it tests, nine seconds of processor
time a worker. A fork has both. Forks take one file at a time, those with the most tests first, so
that fixtures of a module are made once and no fork is left with a long file at the end.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import traceback
from collections import deque
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
from _pytest.capture import CaptureManager
from _pytest.tmpdir import TempPathFactory

Reports = list[dict[str, Any]]  # of one test, in pytest's own form


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of forks."""
    parser.addoption("--forks", type=int, default=1, help="processes that run the tests")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Let forks run the collected tests; pytest's own loop where there is one, or an error."""
    count: int = session.config.getoption("forks")
    if count < 2 or session.testsfailed or session.config.getoption("collectonly"):
        return None
    by_file = [
        list(items)
        for _, items in itertools.groupby(session.items, lambda item: item.nodeid.split("::")[0])
    ]
    files = dict(enumerate(sorted(by_file, key=len, reverse=True)))
    numbers = deque(files)
    # Forks' folders lie in one of this session, which pytest removes when it is old.
    factory: TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    base = factory.getbasetemp()
    context = multiprocessing.get_context("fork")
    forks: dict[Any, _Fork] = {}
    try:
        for number in range(min(count, len(files))):
            ours, theirs = context.Pipe()
            factory._basetemp = base / f"fork-{number}"
            process = context.Process(target=_serve, args=(session, files, theirs))
            process.start()
            theirs.close()
            forks[ours] = _Fork(process)
            ours.send(numbers.popleft())
        factory._basetemp = base
        while forks:
            for ready in wait(list(forks)):
                _hear(session, ready, forks, numbers)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
    finally:
        for fork in forks.values():
            fork.process.terminate()
    return True


def _hear(
    session: pytest.Session,
    ours: Any,
    forks: dict[Any, _Fork],
    numbers: deque[int],
) -> None:
    """Take what a fork says: a test's reports, None for the next file, or how it failed."""
    fork = forks[ours]
    try:
        said: Reports | str | None = ours.recv()
    except EOFError:
        fork.process.join()
        said = f"it ended with {fork.process.exitcode}"
    match said:
        case None if numbers:
            ours.send(numbers.popleft())
        case None:
            ours.send(None)
            forks.pop(ours).process.join()
        case str():
            raise session.Interrupted(f"a fork failed after {fork.last}: {said}")
        case list():
            hook = session.config.hook
            for data in said:
                report = hook.pytest_report_from_serializable(config=session.config, data=data)
                hook.pytest_runtest_logreport(report=report)
            fork.last = report.nodeid
            hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


@dataclass(slots=True)
class _Fork:
    process: BaseProcess
    last: str = "its start"  # the test that ended last


class _Teller:
    """Sends the reports of a test when it has ended."""

    def __init__(self, config: pytest.Config, theirs: Connection) -> None:
        self._config, self._theirs = config, theirs
        self._reports: Reports = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report."""
        hook = self._config.hook
        self._reports.append(hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self) -> None:
        """Send those of the test."""
        self._theirs.send(self._reports)
        self._reports = []


def _serve(
    session: pytest.Session, files: dict[int, list[pytest.Item]], theirs: Connection
) -> None:
    """Run files until there are none, in a fork."""
    config = session.config
    manager = config.pluginmanager
    for name in ("terminalreporter", "cacheprovider", "lfplugin", "nfplugin", "stepwiseplugin"):
        manager.unregister(name=name)
    manager.register(_Teller(config, theirs))
    capture: CaptureManager = manager.getplugin("capturemanager")
    capture.stop_global_capturing()  # into a file that all forks share
    capture.start_global_capturing()
    config._tmp_path_factory.getbasetemp().mkdir(mode=0o700)  # type: ignore[attr-defined]
    try:
        while (number := theirs.recv()) is not None:
            file = files[number]
            for item, following in itertools.zip_longest(file, file[1:]):
                # After the last test of a file all but the session's own fixtures are torn down.
                after = session if following is None else following
                config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            theirs.send(None)
        session._setupstate.teardown_exact(None)
    except BaseException:
        theirs.send(traceback.format_exc())
        os._exit(1)
