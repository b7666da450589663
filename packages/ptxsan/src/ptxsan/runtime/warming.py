"""The whole runtime compiled ahead, by several processes at once.

The processes take one thing after another, the slowest first. Where numba compiles function by
function they leave the machine code in its cache, from which each loads what the others made.
numba chooses the name of a new file before it writes it: two processes that save two signatures
of one function could give both the same name, and one would later load the other's code. So they
save in turn.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numba.core import caching

_AT_MOST = 4  # processes
_LOCK_S = 20.0  # what cannot be saved by then is compiled again another time
_LOOK_S = 0.01
_caching: Any = caching
_Index: Any = caching.IndexDataCacheFile


class InTurn(_Index):  # type: ignore[misc]
    """numba's index of a function's machine code, extended by one process at a time."""

    def save(self, key: Any, data: Any) -> None:
        """Save one more signature; not at all where the lock cannot be had."""
        with _locked(Path(self._cache_path)) as alone:
            if alone:
                super().save(key, data)


@contextlib.contextmanager
def saving_in_turn() -> Iterator[None]:
    """Give the functions that are declared inside a cache that several processes may fill."""
    _caching.IndexDataCacheFile = InTurn
    try:
        yield
    finally:
        _caching.IndexDataCacheFile = _Index


def processes() -> int:
    """Return how many processes compile at once: as many as may run, at most four."""
    return min(_AT_MOST, len(os.sched_getaffinity(0)))


def together(names: Sequence[str], compiled: Callable[[str], object], *, count: int) -> None:
    """Call `compiled` for every name, once, in this process and in `count` - 1 forked ones.

    A helper that fails leaves names undone; the caller finds them missing in the cache. One
    whose parent is gone ends with the name that it is at.
    """
    parent = os.getpid()
    read, write = os.pipe()
    os.write(write, bytes(range(len(names))))  # who reads a byte takes a name from all others
    os.close(write)

    def work() -> None:
        while parent in (os.getpid(), os.getppid()) and (taken := os.read(read, 1)):
            compiled(names[taken[0]])

    helpers = [_forked(work) for _ in range(count - 1)]
    try:
        work()
    finally:
        os.close(read)
        for helper in helpers:
            os.waitpid(helper, 0)


def apart(work: Callable[[], None]) -> None:
    """Call `work` in a forked process and wait for its end, however it ends."""
    os.waitpid(_forked(work), 0)


def _forked(work: Callable[[], None]) -> int:
    process = os.fork()
    if process:
        return process
    try:
        work()
    finally:
        os._exit(0)  # whatever happened: what was made is in the cache


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Hold the folder's lock and yield True; False where it cannot be had.

    The wait is bounded: a candidate may read the folder, and so could hold its lock.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:  # a worker, which may not write here
        yield False
        return
    try:
        yield _taken(descriptor)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_LOOK_S)
        else:
            return True
