"""The ranks of a reference as threads of one process, of which one runs at a time.

A rank runs until it waits for another one. Their order is always the same, and each thread is in
the dispatch modes of the caller: a lifted reference has its collectives in float64.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._C._distributed_c10d import HashStore, _register_process_group, _unregister_process_group
from torch.distributed import distributed_c10d as c10d
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _python_dispatch as dispatch

from cuassay.ranks.collectives import Operation, results
from cuassay.ranks.group import BACKEND, Group, Tensors, register
from cuassay.ranks.meetings import Meeting, Meetings, waiting_words


class RanksStuckError(Exception):
    """Ranks wait for one another, and none can go on; the message says who waits for whom."""


_GROUPS = 1_000_000  # that a rank may make, and more than it does
_WORLDS = itertools.count(1)  # a group of the process itself may be named 0


class _World(c10d._World):
    """What torch.distributed knows of the groups of one rank, apart from that of others.

    Functional collectives find a group by its name, among those of all threads: each has a name of
    its own. The ranks meet by what is left of it.
    """

    def __init__(self, port: _Port, size: int) -> None:
        super().__init__()
        first = next(_WORLDS) * _GROUPS
        group = Group(port, name=str(first), members=range(size), rank=port.rank)
        _register_process_group(group.group_name, group)  # type: ignore[arg-type]
        self._default_pg: Any = group
        self._own: dict[str, Any] = {
            "pg_map": {group: (BACKEND, HashStore())},
            "pg_names": {group: group.group_name},
            "pg_group_ranks": {group: {rank: rank for rank in range(group.size())}},
            "pg_backend_config": {group: f"cpu:{BACKEND}"},
            "tags_to_pg": {"": [group]},
            "pg_to_tag": {group: ""},
        }
        self.group_count = first + 1

    group_count = 1
    pg_map = property(lambda self: self._own["pg_map"])
    pg_names = property(lambda self: self._own["pg_names"])
    pg_group_ranks = property(lambda self: self._own["pg_group_ranks"])
    pg_backend_config = property(lambda self: self._own["pg_backend_config"])
    tags_to_pg = property(lambda self: self._own["tags_to_pg"])
    pg_to_tag = property(lambda self: self._own["pg_to_tag"])


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One rank's tensors of a collective, and the collective's number."""

    number: int
    given: Tensors
    into: Tensors


class _Meeting:
    """Where the threads meet: what was begun, and what is over."""

    def __init__(self) -> None:
        self._meetings: Meetings[_Part] = Meetings()
        self.begun: dict[int, tuple[Operation, Meeting[_Part]]] = {}
        self.over: set[int] = set()

    def post(self, operation: Operation, given: Tensors, into: Tensors) -> int:
        """Begin one rank's part; the last one brings the collective about."""
        number = len(self.begun)
        meeting = self._meetings.join(operation, _Part(number, given, into))
        self.begun[number] = operation, meeting
        if meeting.is_full:
            asked, parts = zip(*meeting.in_order, strict=True)
            found = results(asked, [part.given for part in parts], add=_sum)
            # All are made before any is written: what is handed in may be what is filled.
            copies = [[tensor.clone() for tensor in tensors] for tensors in found]
            for part, tensors in zip(parts, copies, strict=True):
                for target, tensor in zip(part.into, tensors, strict=True):
                    target.detach().copy_(tensor.reshape(target.shape))
                self.over.add(part.number)
        return number


def _sum(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum of a tensor of each rank as one sum: NCCL adds them in an order of its own."""
    return torch.stack(list(parts)).sum(0, dtype=parts[0].dtype)


class _Turns:
    """Lets one rank run at a time."""

    def __init__(self, meeting: _Meeting, size: int) -> None:
        self.meeting = meeting
        self._mine = [threading.Semaphore(0) for _ in range(size)]
        self._back = threading.Semaphore(0)
        self.waits: list[int | None] = [None] * size
        self.stops = False

    def give(self, rank: int) -> None:
        """Let a rank run until it waits or ends."""
        self._mine[rank].release()
        self._back.acquire()

    def hand_back(self) -> None:
        """End the turn."""
        self._back.release()

    def await_turn(self, rank: int) -> None:
        """Wait for the next turn of a rank. Raises _StoppedError once there is none."""
        self._mine[rank].acquire()
        if self.stops:
            raise _StoppedError


class _StoppedError(BaseException):
    """Another rank has raised, or all wait for one another."""


@dataclass(frozen=True, slots=True)
class _Port:
    """The way of one thread to the others."""

    turns: _Turns
    rank: int

    def post(self, operation: Operation, given: Tensors, into: Tensors) -> int:
        if self.turns.stops:
            raise RuntimeError(
                "this process group is of an earlier call, whose ranks are gone; make groups in "
                "the call that uses them"
            )
        name = operation.group
        if name.isdecimal():
            operation = replace(operation, group=str(int(name) % _GROUPS))
        return self.turns.meeting.post(operation, given, into)

    def wait(self, number: int) -> None:
        while number not in self.turns.meeting.over:
            self.turns.waits[self.rank] = number
            world = c10d._world
            self.turns.hand_back()
            self.turns.await_turn(self.rank)
            c10d._world = world
        self.turns.waits[self.rank] = None


def run_together(call: Callable[[int], object], size: int) -> list[object]:
    """Return what `call(rank)` returns for each rank, under a process group of `size` ranks.

    Raises what a rank raises, MismatchError and RanksStuckError.
    """
    turns = _Turns(_Meeting(), size)
    returned: list[object] = [None] * size
    raised: list[BaseException] = []
    running = set(range(size))
    worlds: list[_World] = []
    register()
    state = _state_of_thread()

    def run(rank: int) -> None:
        try:
            turns.await_turn(rank)
            world = _World(_Port(turns, rank), size)
            worlds.append(world)
            c10d._world = world
            with state():
                returned[rank] = call(rank)
        except _StoppedError:
            pass
        except BaseException as error:
            raised.append(error)
        finally:
            running.discard(rank)
            turns.hand_back()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    before = c10d._world
    for thread in threads:
        thread.start()
    try:
        while running and not raised:
            over = len(turns.meeting.over)
            able = [r for r in sorted(running) if turns.waits[r] in (None, *turns.meeting.over)]
            for rank in able:
                if not raised:
                    turns.give(rank)
            if not able and len(turns.meeting.over) == over:
                raise RanksStuckError(_stuck(turns, running))
    finally:
        turns.stops = True
        for rank in sorted(running):
            turns.give(rank)
        for thread in threads:
            thread.join()
        c10d._world = before
        for name in {n for world in worlds for n in world.pg_names.values()}:
            _unregister_process_group(name)
    if raised:
        raise raised[0]
    return returned


def _stuck(turns: _Turns, running: set[int]) -> str:
    """Return who waits for whom."""
    told = []
    for rank in sorted(running):
        number = turns.waits[rank]
        if number is not None:
            operation, meeting = turns.meeting.begun[number]
            told.append(f"rank {rank} {waiting_words(operation, meeting.absent)}")
    return "; ".join(told) or "no rank can go on"


def _state_of_thread() -> Callable[[], Any]:
    """Return a context manager that gives another thread this one's modes and gradients' state."""
    modes, functions = (
        list(dispatch._get_current_dispatch_mode_stack()),
        list(_get_current_function_mode_stack()),  # type: ignore[no-untyped-call]
    )
    gradients, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    @contextmanager
    def enter() -> Iterator[None]:
        with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
            for function in functions:
                _push_mode(function)  # type: ignore[no-untyped-call]
            for mode in modes:
                dispatch._push_mode(mode)
            try:
                yield
            finally:
                for _ in modes:
                    dispatch._pop_mode()
                for _ in functions:
                    _pop_mode()  # type: ignore[no-untyped-call]

    return enter
