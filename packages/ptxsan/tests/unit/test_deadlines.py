"""One thread ends all launches of a process that take too long."""

import os
import threading

from ptxsan.deadlines import within

LONG_S = 3600.0


def test_what_takes_too_long_is_stopped() -> None:
    """The block goes on until its code looks at what `stop` changed."""
    stopped = threading.Event()
    with within(0.0, stopped.set):
        assert stopped.wait(LONG_S)


def test_an_earlier_deadline_wakes_the_thread_that_waits_for_a_later_one() -> None:
    """A launch inside of another, or beside it, may have less time."""
    late, early = threading.Event(), threading.Event()
    with within(LONG_S, late.set):
        with within(0.0, early.set):
            assert early.wait(LONG_S)
        assert not late.is_set()


def test_nothing_is_stopped_after_its_end() -> None:
    """The deadline of a block that has ended is nobody's."""
    stopped, other = threading.Event(), threading.Event()
    with within(0.05, stopped.set):
        ended_in_time = not stopped.is_set()
    with within(0.1, other.set):
        assert other.wait(LONG_S)
    assert stopped.is_set() is not ended_in_time


def test_many_blocks_have_one_thread() -> None:
    """Also blocks of several threads at once."""

    def work() -> None:
        for _ in range(50):
            with within(LONG_S, lambda: None):
                found.append([one.name for one in threading.enumerate()].count("deadlines"))

    found: list[int] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {1}


def test_a_forked_process_has_deadlines_of_its_own() -> None:
    """The thread of its parent is not there, and nobody gives back a lock that it held."""
    with within(LONG_S, lambda: None):
        child = os.fork()
        if not child:
            stopped = threading.Event()
            with within(0.0, stopped.set):
                os._exit(0 if stopped.wait(LONG_S) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
