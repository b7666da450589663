"""What streams, events and waits put in order, by CUDA's rules."""

from __future__ import annotations

import pytest

from ptxsan.host.order import LEGACY, Operation, Order

A, B, BLOCKING, EVENT = 10, 11, 12, 90


@pytest.fixture
def order() -> Order:
    made = Order()
    made.create(A, blocking=False)
    made.create(B, blocking=False)
    made.create(BLOCKING, blocking=True)
    return made


def _is_after(later: Operation, earlier: Operation) -> bool:
    return later.is_after(earlier.timeline, earlier.time)


def test_one_stream_is_in_order_and_two_are_not(order: Order) -> None:
    first, second, other = order.operation(A), order.operation(A), order.operation(B)
    assert _is_after(second, first)
    assert not _is_after(other, first)


def test_the_default_stream_waits_for_blocking_streams_and_they_for_it(order: Order) -> None:
    before, default = order.operation(BLOCKING), order.operation(LEGACY)
    after, apart = order.operation(BLOCKING), order.operation(A)
    assert _is_after(default, before)
    assert _is_after(after, default)
    assert not _is_after(apart, default)
    assert not _is_after(order.operation(LEGACY), apart)


def test_an_event_stands_for_what_came_before_it(order: Order) -> None:
    before = order.operation(A)
    order.record(EVENT, A)
    behind = order.operation(A)
    order.wait_event(B, EVENT)
    waited = order.operation(B)
    assert _is_after(waited, before)
    assert not _is_after(waited, behind)


def test_an_event_that_was_recorded_again_stands_for_more(order: Order) -> None:
    order.record(EVENT, A)
    work = order.operation(A)
    order.record(EVENT, A)
    order.wait_event(B, EVENT)
    assert _is_after(order.operation(B), work)


def test_an_event_that_nobody_recorded_orders_nothing(order: Order) -> None:
    work = order.operation(A)
    order.wait_event(B, EVENT)
    assert not _is_after(order.operation(B), work)


@pytest.mark.parametrize("how", ["stream", "event", "all"])
def test_what_the_host_waited_for_is_before_all_that_it_issues(order: Order, how: str) -> None:
    work = order.operation(A)
    order.record(EVENT, A)
    late = order.operation(A)
    match how:
        case "stream":
            order.host_waits_stream(A)
        case "event":
            order.host_waits_event(EVENT)
        case _:
            order.host_waits_all()
    found = order.operation(B)
    assert _is_after(found, work)
    assert _is_after(found, late) == (how != "event")
    assert order.host_knows(work.timeline, work.time)


def test_order_goes_on_through_a_third_stream(order: Order) -> None:
    work = order.operation(A)
    order.record(EVENT, A)
    order.wait_event(BLOCKING, EVENT)
    assert _is_after(order.operation(LEGACY), work)


def test_a_programmatic_launch_knows_what_the_launch_before_it_knew(order: Order) -> None:
    earlier, first = order.operation(A), order.operation(A, launch=True)
    early = order.overlapping(A)
    assert early is not None
    late = order.operation(A, launch=True)
    assert _is_after(early, earlier)
    assert not _is_after(early, first)
    assert _is_after(late, first)
    assert _is_after(late, early)


def test_nothing_overlaps_with_what_is_no_launch(order: Order) -> None:
    order.operation(A, launch=True)
    order.operation(A)
    assert order.overlapping(A) is None


def test_a_stream_may_count_as_another() -> None:
    order = Order(same={A: LEGACY})
    order.create(A, blocking=False)
    order.create(BLOCKING, blocking=True)
    work = order.operation(A)
    assert _is_after(order.operation(BLOCKING), work)
    assert _is_after(order.after(A), work)


def test_each_device_has_a_legacy_default_stream_of_its_own() -> None:
    order = Order()
    order.create(LEGACY + 1, blocking=True, device=1)
    order.create(20, blocking=True, device=0)
    order.create(21, blocking=True, device=1)
    first, second = order.operation(20), order.operation(21)
    on_first, on_second = order.operation(LEGACY), order.operation(LEGACY + 1)
    assert on_first.is_after(20, first.time)
    assert not on_first.is_after(21, second.time)
    assert on_second.is_after(21, second.time)
    assert not on_second.is_after(20, first.time)
    assert [order.device_of(one) for one in (LEGACY, LEGACY + 1, 20, 21)] == [0, 1, 0, 1]


def test_an_event_orders_streams_of_two_devices() -> None:
    order = Order()
    order.create(20, blocking=False, device=0)
    order.create(21, blocking=False, device=1)
    first = order.operation(20)
    order.record(7, 20)
    assert not order.after(21).is_after(20, first.time)
    order.wait_event(21, 7)
    assert order.operation(21).is_after(20, first.time)
    assert order.event(7)[20] >= first.time
