"""Trials side by side share a GPU's memory by count."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cuassay.judge.run.bookings import Booking, Gpu, Queue, gpu_of
from cuassay.model.device import CPU

GIB = 1 << 30


def gpu(folder: Path, *, free: Callable[[], int] = lambda: 140 * GIB) -> Gpu:
    return Gpu(folder=folder, total_bytes=140 * GIB, free_bytes=free)


def begun(booking: Booking, needed: int) -> tuple[threading.Thread, threading.Event]:
    """Take in a thread; return it, and what is set once the booking has to wait."""
    waits = threading.Event()
    booking._waits = lambda _: waits.set()
    thread = threading.Thread(target=booking.take, args=(needed,), daemon=True)
    thread.start()
    return thread, waits


def test_those_that_fit_are_granted_at_once(tmp_path: Path) -> None:
    told: list[Queue | None] = []
    bookings = [Booking(gpu(tmp_path), told.append) for _ in range(17)]
    for booking in bookings:
        booking.take(8 * GIB)
    assert not told
    assert [booking.bytes for booking in bookings] == [8 * GIB] * 17
    for booking in bookings:
        booking.close()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_one_that_needs_the_whole_gpu_waits_for_the_others_and_goes_before_later_ones(
    tmp_path: Path,
) -> None:
    first, large, later = (Booking(gpu(tmp_path)) for _ in range(3))
    first.take(8 * GIB)
    waiting_large, seen = begun(large, 500 * GIB)
    assert seen.wait(300)
    waiting_later, seen = begun(later, 8 * GIB)
    assert seen.wait(300)
    assert large.bytes == later.bytes == 0
    first.close()
    waiting_large.join(300)
    assert large.bytes == 140 * GIB  # all there is: it is alone
    assert later.bytes == 0
    large.close()
    waiting_later.join(300)
    assert later.bytes == 8 * GIB
    later.close()


def test_one_that_waited_says_when_it_has_its_memory(tmp_path: Path) -> None:
    told: list[Queue | None] = []
    waits = threading.Event()
    first = Booking(gpu(tmp_path))
    first.take(140 * GIB)

    def tell(queue: Queue | None) -> None:
        told.append(queue)
        waits.set()

    second = Booking(gpu(tmp_path), tell)
    thread = threading.Thread(target=second.take, args=(8 * GIB,), daemon=True)
    thread.start()
    assert waits.wait(300)
    first.close()
    thread.join(300)
    assert told == [Queue(needed_bytes=8 * GIB, held_bytes=140 * GIB, holders=1), None]
    second.close()


def test_two_that_both_want_more_do_not_wait_for_each_other(tmp_path: Path) -> None:
    one, two = Booking(gpu(tmp_path)), Booking(gpu(tmp_path))
    one.take(60 * GIB)
    two.take(60 * GIB)
    first, seen = begun(one, 100 * GIB)
    assert seen.wait(300)
    second, seen = begun(two, 100 * GIB)  # gives up its own, which the first then gets
    first.join(300)
    assert one.bytes == 100 * GIB
    one.close()
    second.join(300)
    assert two.bytes == 100 * GIB
    two.close()


def test_memory_that_others_took_unasked_is_waited_for_while_trials_may_free_it(
    tmp_path: Path,
) -> None:
    free = 4 * GIB
    one, two = (Booking(gpu(tmp_path, free=lambda: free)) for _ in range(2))
    one.take(8 * GIB)  # nobody else books: waiting would not help
    thread, seen = begun(two, 8 * GIB)
    assert seen.wait(300)
    free = 50 * GIB
    thread.join(300)
    assert two.bytes == 8 * GIB
    one.close()
    two.close()


def test_less_than_is_booked_is_booked_already(tmp_path: Path) -> None:
    booking = Booking(gpu(tmp_path))
    booking.take(20 * GIB)
    booking.take(8 * GIB)
    assert booking.bytes == 20 * GIB
    booking.close()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)"])
def test_the_booking_of_a_judge_that_died_ends_with_it(tmp_path: Path, end: str) -> None:
    code = (
        "import os\nfrom pathlib import Path\nfrom cuassay.judge.run.bookings import Booking, Gpu\n"
        f"gpu = Gpu(folder=Path({str(tmp_path)!r}), total_bytes={140 * GIB}, "
        f"free_bytes=lambda: {140 * GIB})\nBooking(gpu).take({140 * GIB})\n{end}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    assert len(list(tmp_path.iterdir())) == 2  # the lock and what the dead one left
    with Booking(gpu(tmp_path)) as booking:
        booking.take(100 * GIB)
        assert booking.bytes == 100 * GIB


def test_a_cpu_is_not_booked() -> None:
    assert gpu_of(CPU) is None
    with Booking(None) as booking:
        booking.take(8 * GIB)
        assert booking.bytes == 0


def test_a_trial_knows_whether_others_book_its_gpu(tmp_path: Path) -> None:
    with Booking(gpu(tmp_path)) as one, Booking(gpu(tmp_path)) as other:
        one.take(8 * GIB)
        assert one.is_alone
        other.take(8 * GIB)
        assert not one.is_alone
        other.close()
        assert one.is_alone
    assert Booking(None).is_alone
