"""A call that stands still at each instruction while another thread makes one."""

from __future__ import annotations

import threading

import pytest

from cuassay.sandbox.guest.callers import interrupted
from cuassay.sandbox.guest.callers.interrupted import interrupt_everywhere


def test_the_other_call_comes_at_a_different_instruction_each_time() -> None:
    seen: list[int] = []
    done = [0]

    def call() -> None:
        done[0] = 0
        for _ in range(20):
            done[0] += 1

    interrupt_everywhere(call, lambda: seen.append(done[0]), rounds=10)
    assert len(seen) == 10
    assert len(set(seen)) > 5
    assert sorted(seen[1:]) == seen[1:]


def test_the_other_call_runs_in_another_thread_to_its_end() -> None:
    first, others = list[threading.Thread](), list[threading.Thread]()
    interrupt_everywhere(
        lambda: first.append(threading.current_thread()),
        lambda: others.append(threading.current_thread()),
        rounds=3,
    )
    assert len(others) == 3
    assert len({*first, *others}) == len(first) + len(others)


def test_who_holds_a_lock_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted, "_HELD_UP_S", 0.05)
    lock, made = threading.Lock(), list[str]()

    def call() -> None:
        with lock:
            made.append("first")

    def meanwhile() -> None:
        with lock:
            made.append("second")

    interrupt_everywhere(call, meanwhile, rounds=64)
    assert made.count("first") == 1 + made.count("second")
    assert made[-2:] == ["first", "second"]


def test_what_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupted, "_HELD_UP_S", 0.05)
    monkeypatch.setattr(interrupted, "_JOIN_S", 0.2)
    never = threading.Event()
    with pytest.raises(TimeoutError, match="did not end"):
        interrupt_everywhere(lambda: None, lambda: bool(never.wait(2.0)), rounds=4)  # type: ignore[arg-type]
