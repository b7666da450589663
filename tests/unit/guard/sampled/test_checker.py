"""Faults around a guard: whatever breaks, the caller gets its results and the counters add up."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuassay
from cuassay_guard import wrap
from cuassay_guard.sampled.checker import CHECKER, Checker
from cuassay_guard.wrap import Guarded
from tests.support.guards import QUIET, double, honest, inputs, rmsnorm

pytestmark = pytest.mark.usefixtures("quiet_guards")


@contextlib.contextmanager
def _deadly(checker: Checker) -> Iterator[None]:
    """Guards submit to `checker`, whose thread may be killed at any bytecode until the end.

    A kill may hit the hook that reports the last one, and whatever the collector runs in that
    thread, where nothing but the hook for what cannot be raised sees it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wrap, "CHECKER", checker)
        patch.setattr(threading, "excepthook", lambda found: None)
        patch.setattr(sys, "unraisablehook", lambda found: None)
        try:
            yield
        finally:
            checker.stop()


def _kill(thread: threading.Thread | None) -> None:
    if thread is not None and thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
        )


def _guard(trusted: Callable[..., Any], **options: Any) -> Guarded:
    guarded: Guarded = cuassay.guard(double, trusted=trusted, **{**QUIET, **options})
    return guarded


def _adds_up(guarded: Guarded) -> None:
    assert guarded.flush()
    found, tally = guarded.stats(), guarded.watch.tally
    assert found.pending == 0
    assert tally["submitted"] == tally["done"]
    assert guarded.watch.memory.used_bytes == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_checker_s_thread_is_killed() -> None:
    checker = Checker()
    entered, release = threading.Event(), threading.Event()

    def slow(x: Tensor) -> Tensor:
        entered.set()
        while not release.is_set():
            time.sleep(0.001)
        return x * 2

    guarded = _guard(slow)
    with _deadly(checker):
        x = torch.randn(64)
        assert torch.equal(guarded(x), x * 2)
        assert entered.wait(300)
        thread = checker._thread
        assert thread is not None
        _kill(thread)
        thread.join(300)
        assert not thread.is_alive()
        release.set()
        for _ in range(5):
            assert torch.equal(guarded(x), x * 2)
        assert checker.flush(300)
        found = guarded.stats()
        assert (found.calls, found.sampled, found.checked, found.pending) == (6, 6, 5, 0)
        assert guarded.watch.tally["lost"] == 1
        assert guarded.watch.memory.used_bytes == 0
        assert checker.restarts == 1


@pytest.mark.parametrize(
    "failure",
    [ValueError("broken"), torch.OutOfMemoryError("no memory"), RecursionError("deep")],
)
def test_the_trusted_operator_raises(failure: Exception) -> None:
    def trusted(x: Tensor) -> Tensor:
        raise failure

    guarded = _guard(trusted)
    for _ in range(10):
        assert torch.equal(guarded(torch.ones(3)), torch.full((3,), 2.0))
    _adds_up(guarded)
    found = guarded.stats()
    assert (found.errors, found.violations, found.checked, found.state) == (10, 0, 0, "closed")


def test_the_trusted_operator_raises_where_it_serves() -> None:
    broken = False

    def trusted(x: Tensor) -> Tensor:
        if broken:
            raise ValueError("broken")
        return x * 3  # so that the kernel is found wrong

    guarded = _guard(trusted)
    with guarded:
        guarded(torch.randn(64))
    assert guarded.stats().state == "open"
    broken = True
    x = torch.randn(64)
    assert torch.equal(guarded(x), x * 2)  # as good as without a guard
    assert guarded.stats().errors == 1


def test_no_memory_for_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = _guard(double, memory_budget_bytes=100)
    assert torch.equal(tight(torch.ones(64)), torch.full((64,), 2.0))
    assert (tight.stats().sampled, tight.stats().dropped) == (1, 1)

    def full(*arguments: Any) -> None:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr("cuassay_guard.calls.snapshot.detached_copies", full)
    guarded = _guard(double)
    assert torch.equal(guarded(torch.ones(64)), torch.full((64,), 2.0))
    _adds_up(guarded)
    assert (guarded.stats().dropped, guarded.stats().errors) == (1, 1)


def test_a_full_queue_drops_and_never_waits() -> None:
    release = threading.Event()

    def slow(x: Tensor) -> Tensor:
        release.wait(300)
        return x * 2

    guarded = _guard(slow)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CHECKER, "_capacity", 4)
        for _ in range(50):
            guarded(torch.ones(8))
        dropped = guarded.stats().dropped
        assert dropped >= 45
        release.set()
        _adds_up(guarded)
    found = guarded.stats()
    assert found.checked + found.dropped == found.sampled == 50


def test_hooks_that_raise_and_exporters_that_fail() -> None:
    def pager(violation: Any) -> None:
        raise ConnectionError("no pager")

    def exporter() -> None:
        raise OSError("gone")

    guarded = _guard(lambda x: x * 3, hooks=[pager])
    checker = Checker(tick_s=0.01)
    checker.every_tick(exporter)
    checker.start()
    with guarded:
        guarded(torch.ones(64))
    assert (guarded.stats().violations, guarded.stats().errors) == (1, 1)
    time.sleep(0.05)
    assert checker._thread is not None
    assert checker._thread.is_alive()


def test_a_forked_child_has_a_checker_of_its_own() -> None:
    guarded = _guard(double)
    with guarded:
        guarded(torch.ones(8))
    torch.set_num_threads(1)
    child = os.fork()
    if child == 0:
        try:
            for _ in range(3):
                guarded(torch.ones(8))
            done = guarded.flush(300) and guarded.stats().checked == 4
            os._exit(0 if done else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    _adds_up(guarded)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_sixty_four_threads_eight_kernels_and_a_dying_checker() -> None:
    checker = Checker()
    guards = [
        cuassay.guard(honest, trusted=rmsnorm, **{**QUIET, "sample": 0.02, "name": f"k{i}"})
        for i in range(8)
    ]
    x, weight = inputs()
    want = honest(x, weight)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(25):
            for guarded in guards:
                if not torch.equal(guarded(x, weight), want):
                    wrong.append("differs")

    with _deadly(checker):
        threads = [threading.Thread(target=work) for _ in range(64)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            _kill(checker._thread)
            time.sleep(0.02)
        for thread in threads:
            thread.join()
        assert checker.flush(300)
    assert not wrong
    for guarded in guards:
        found, tally = guarded.stats(), guarded.watch.tally
        assert found.calls == 64 * 25
        assert found.pending == 0
        assert found.sampled == found.checked + found.dropped + tally["lost"]
        assert guarded.watch.memory.used_bytes == 0
        assert found.violations == 0


def test_a_pause_holds_checks_back() -> None:
    entered = threading.Event()

    def trusted(x: Tensor) -> Tensor:
        entered.set()
        return x * 2

    guarded = _guard(trusted)
    with CHECKER.paused():
        guarded(torch.ones(8))
        assert not entered.wait(0.1)
        assert guarded.stats().pending == 1
    _adds_up(guarded)
    assert guarded.stats().checked == 1


def test_a_process_ends_in_an_orderly_way_while_checks_run() -> None:
    """A thread inside torch while the interpreter goes down would abort the process."""
    program = (
        "import cuassay, torch\n"
        "from tests.support.guards import honest, inputs, rmsnorm\n"
        "g = cuassay.guard(honest, trusted=rmsnorm, problem='rmsnorm', sample=1.0,\n"
        "                  max_overhead=None, capsules=None, deep_every=1)\n"
        "for _ in range(200): g(*inputs(64, 256), 1e-6)\n"
        "print('end', g.stats().pending > 0)\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(cuassay.__file__).parents[1]), os.getcwd()]),
        "CUASSAY_GUARD_STATUS": "off",
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end True\n", "")
