"""Waits of the judge: several at a time in one thread, and one by itself anywhere."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from cuassay.sandbox.host.waits import await_readable, first_of_group, run_now


def test_two_that_wait_for_one_source_are_both_woken() -> None:
    ours, theirs = socket.socketpair()

    async def wait() -> list[Any]:
        return await await_readable([ours], 60.0)

    async def both() -> list[list[Any]]:
        waiting = asyncio.gather(wait(), wait())
        await asyncio.sleep(0.01)
        theirs.send(b"x")
        return list(await waiting)

    with ours, theirs:
        assert asyncio.run(both()) == [[ours], [ours]]


def test_who_waits_for_what_another_has_taken_in_looks_again() -> None:
    ours, theirs = socket.socketpair()

    async def takes() -> bytes:
        while not await await_readable([ours], 60.0):
            pass
        return ours.recv(8)

    async def late() -> list[Any]:
        return await await_readable([ours], 60.0)

    async def both() -> tuple[bytes, list[Any]]:
        first, second = asyncio.create_task(takes()), asyncio.create_task(late())
        await asyncio.sleep(0.01)
        theirs.send(b"ended")
        return await first, await second

    with ours, theirs:
        taken, seen = asyncio.run(both())
    assert taken == b"ended"
    assert seen in ([], [ours])


def test_what_is_readable_needs_no_wait_and_nothing_ends_at_its_limit() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert asyncio.run(await_readable([ours], 0.01)) == []
        theirs.send(b"x")
        assert asyncio.run(await_readable([ours], 0.0)) == [ours]


def test_a_coroutine_is_waited_for_within_another_and_its_error_passes() -> None:
    async def name() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def fails() -> None:
        raise ValueError("no")

    async def within() -> str:
        with pytest.raises(ValueError, match="no"):
            run_now(fails())
        return run_now(name())

    assert run_now(name()) == threading.current_thread().name
    assert asyncio.run(within()) == "a wait within a wait"


def test_what_a_task_of_a_group_raises_is_raised_by_itself() -> None:
    async def fails() -> None:
        raise ValueError("no")

    async def goes_on() -> None:
        await asyncio.sleep(60.0)

    async def together() -> None:
        with first_of_group():
            async with asyncio.TaskGroup() as group:
                group.create_task(goes_on())
                group.create_task(fails())

    with pytest.raises(ValueError, match="no"):
        asyncio.run(together())
