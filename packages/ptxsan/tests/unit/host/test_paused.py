"""A launch beside its host: it waits, gets on when the host helps, and ends or never does."""

from __future__ import annotations

import pytest

from ptxsan.host.paused import Paused, Progress


class _Flag:
    """Memory that a launch waits for."""

    def __init__(self) -> None:
        self.value = 0

    def launch(self, paused: Paused[str]) -> str:
        """Wait for 1, then for 2; return what came of it."""
        seen = 0
        while seen < 2:
            moved = self.value > seen
            seen = max(seen, self.value)
            if seen < 2 and not paused.wait(moved=moved):
                return f"deadlock at {seen}"
        return "done"


def test_a_launch_that_waits_for_nobody_ends_at_once() -> None:
    paused: Paused[int] = Paused(lambda _: 7)
    assert paused.start() is Progress.ENDED
    assert (paused.result, paused.waited) == (7, False)


def test_the_host_goes_on_and_helps() -> None:
    flag = _Flag()
    paused = Paused(flag.launch)
    assert paused.start() is Progress.WAITS
    assert paused.go_on() is Progress.WAITS
    flag.value = 1
    assert paused.go_on() is Progress.MOVED
    assert paused.go_on() is Progress.WAITS
    flag.value = 2
    assert paused.go_on() is Progress.ENDED
    assert (paused.result, paused.waited, paused.beside) == ("done", True, False)


def test_who_waits_for_nobody_is_deadlocked_at_the_end() -> None:
    flag = _Flag()
    paused = Paused(flag.launch)
    paused.start()
    flag.value = 1
    paused.end()
    assert paused.result == "deadlock at 1"


def test_what_the_work_raises_is_raised_where_its_result_is_asked_for() -> None:
    def broken(_: Paused[int]) -> int:
        raise RuntimeError("of the work")

    paused = Paused(broken)
    assert paused.start() is Progress.ENDED
    with pytest.raises(RuntimeError, match="of the work"):
        _ = paused.result


def test_the_host_goes_on_beside_a_launch_that_works() -> None:
    flag = _Flag()

    def work(_: Paused[str]) -> str:
        while not flag.value:
            pass
        return "seen"

    paused = Paused(work, patience_s=0.01)
    assert paused.start() is Progress.WAITS
    assert paused.beside
    flag.value = 1
    paused.end()
    assert paused.result == "seen"
