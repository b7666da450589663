"""Waiting for processes: one thread thinks, and every wait of the judge is awaited.

A judge asks several processes at a time, and what it knows of a trial is not made for several
threads. So all that waits is a coroutine: while one waits for its worker, others go on. What is
asked where nothing else goes on calls `run_now`.
"""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
# Who waits for which descriptor, by event loop: a loop calls one function for a descriptor.
_WAITING: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, list[asyncio.Future[None]]]] = (
    WeakKeyDictionary()
)
_AGAIN_S = 0.5  # after which a waiter looks again: another loop may have read what it waits for


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns, after waiting for it.

    Within an event loop nothing else goes on meanwhile: the coroutine runs in a loop of another
    thread, and this one stands still, so that there is one that thinks at any time.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    ended: list[T | BaseException] = []

    def run() -> None:
        try:
            ended.append(asyncio.run(coroutine))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run, name="a wait within a wait")
    thread.start()
    thread.join()
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]


@contextmanager
def first_of_group() -> Iterator[None]:
    """Raise what a group of tasks met first by itself: who catches it knows nothing of groups."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


async def await_readable(sources: Sequence[Any], limit_s: float) -> list[Any]:
    """Return which of the sources can be read, after `limit_s` at the latest.

    It may return early with none, so that who waits looks again.
    """
    found = select.select(sources, [], [], 0.0)[0]
    if found or limit_s <= 0.0:
        return found
    loop = asyncio.get_running_loop()
    waiting = _WAITING.setdefault(loop, {})
    woken: asyncio.Future[None] = loop.create_future()
    fds = [source if isinstance(source, int) else source.fileno() for source in sources]
    for fd in fds:
        if fd not in waiting:
            waiting[fd] = []
            loop.add_reader(fd, _wake, waiting[fd])
        waiting[fd].append(woken)
    try:
        await asyncio.wait((woken,), timeout=min(limit_s, _AGAIN_S))
    finally:
        for fd in fds:
            waiting[fd].remove(woken)
            if not waiting[fd]:
                del waiting[fd]
                loop.remove_reader(fd)
    return select.select(sources, [], [], 0.0)[0]


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
