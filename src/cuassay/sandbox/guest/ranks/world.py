"""Where the processes of the ranks meet: starts them, brings their collectives about, waits.

The ranks have the process group of `cuassay.ranks.group`, whose tensors come here: without a GPU,
and where they share one. What torch.distributed leaves open is chosen here, and a deadlock is known
at once: every rank is seen to wait. Without a GPU no rank needs a socket, so that the walls around
a candidate stand. Where each has a GPU of its own they have NCCL, and only their calls begin and
end here.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
from torch._prims_common import make_contiguous_strides_for

from cuassay.errors import MissingToolError
from cuassay.model.device import Device
from cuassay.model.problem import Problem
from cuassay.model.steps import Issued, Moments
from cuassay.model.trace import StepRaised
from cuassay.ranks.collectives import MismatchError, Operation, results
from cuassay.ranks.meetings import Meeting, Meetings, waiting_words
from cuassay.sandbox.guest.interface import RankRaisedError, RanksStuckError
from cuassay.sandbox.guest.ranks.member import Place
from cuassay.sandbox.guest.ranks.messages import (
    Arrives,
    Begin,
    Ends,
    Give,
    Gives,
    Go,
    Holds,
    Packed,
    Posts,
    Read,
    Sent,
    Take,
    Waits,
    pack,
    unpack,
)
from cuassay.sandbox.guest.ranks.start import Recipe, start

_JOINS_S = 50.0  # until a rank has built its function and has met the others
# Ranks that say nothing for so long do not return, unless one computes: on a CPU that many share,
# kernels are compiled and executed there. They are waited for so often.
_SILENT_S, _PATIENCE = 30.0, 4
# Of the processor, in that time. One that waits for memory of another rank needs a third of it at
# most; one that compiles beside ten others gets ten times as much.
_COMPUTED_S = 0.4


class _Is(Enum):
    RUNNING = auto()
    ARRIVED = auto()  # it waits until it may make its next call
    POSTED = auto()  # it waits until it may go on after a collective has begun
    WAITING = auto()  # for a collective
    OVER = auto()  # with its calls


@dataclass(slots=True, eq=False)
class _Posted:
    """A rank's part of a collective."""

    rank: int
    number: int
    given: Sequence[Packed] | None
    result: Sequence[Packed] | None = None


@dataclass(slots=True, eq=False)
class _Rank:
    """A rank's process as it is seen from here."""

    number: int
    process: int
    channel: Connection
    asked: Connection
    state: _Is = _Is.OVER
    since: float = 0.0
    computed_s: float = 0.0  # of the processor, by then
    waits: int = 0
    meetings: dict[int, tuple[Operation, Meeting[_Posted], _Posted]] = field(default_factory=dict)

    def becomes(self, state: _Is) -> None:
        """Note what it does from now on."""
        self.state, self.since = state, time.monotonic()
        self.computed_s = self._clock()

    @property
    def computes(self) -> bool:
        """Whether its process has computed since."""
        return self._clock() - self.computed_s > _COMPUTED_S

    def line(self) -> str:
        """Return " at FILE:LINE" of its own thread; nothing where it does not answer."""
        line = ""
        with suppress(OSError, EOFError):
            self.asked.send(None)
            line = str(self.asked.recv()) if self.asked.poll(1.0) else ""
        return f" at {line[:200]}" if line else ""

    def _clock(self) -> float:
        """Return the processor's seconds of its process; 0 where it is gone."""
        with suppress(OSError):
            return time.clock_gettime((~self.process << 3) | 2)  # as clock_getcpuclockid has it
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When ranks go on: the `late` one of each group when the others cannot, or after `delay_s`.

    `busy_ms` of other work on the GPU come before calls of the late rank, on side streams of all.
    """

    late: int | None = None
    delay_s: float = 0.0
    moments: Moments = Moments.LATE
    refill: bool = False
    busy_ms: float = 0.0
    issued: Issued = Issued.PLAINLY


class World:
    """`size` ranks for each of `groups` groups, a process each, that have joined one world.

    Closing it ends them.
    """

    def __init__(
        self,
        size: int,
        groups: int,
        *,
        function: Callable[..., object],
        problem: Problem,
        recipe: Recipe,
        device: Device,
        starter: socket.socket | None = None,
    ) -> None:
        """Raises MissingToolError where the ranks do not come up or do not meet."""
        self._meetings: Meetings[_Posted] = Meetings()
        self._ranks: list[_Rank] = []
        self._timing = Timing()
        self._groups, self._on_gpu = groups, device.on_gpu
        self._silences = 0  # in a row, in which a rank computed
        self._folder = tempfile.mkdtemp(prefix="ranks-")
        gpus = torch.cuda.device_count() if device.on_gpu else 0
        if not device.on_gpu:
            # The first symmetric tensor of a process loads 500 modules of torch. Ranks are forks of
            # this process: where each loaded them, eight were silent for 30 s on a busy machine.
            make_contiguous_strides_for((1,))
        try:
            for number in range(size * groups):
                place = Place(
                    rank=number,
                    world=size * groups,
                    groups=groups,
                    store=os.path.join(self._folder, "store"),
                    device=Device(f"cuda:{number % gpus}") if gpus else device,
                    apart=size * groups <= gpus,
                )
                here, there = Pipe()
                asks, asked = Pipe()
                process = start(
                    there,
                    asked,
                    place,
                    function,
                    problem=problem,
                    starter=starter,
                    theirs=[
                        here,
                        asks,
                        *(one for r in self._ranks for one in (r.channel, r.asked)),
                    ],
                )
                there.close()
                asked.close()
                self._ranks.append(_Rank(number, process, here, asks))
                if device.on_gpu:
                    here.send((place, problem, recipe))
            until = time.monotonic() + _JOINS_S
            for rank in self._ranks:
                try:
                    if not rank.channel.poll(max(0.0, until - time.monotonic())):
                        late = (one for one in self._ranks[rank.number :] if not one.channel.poll())
                        told = "; ".join(f"rank {one.number}{one.line()}" for one in late)
                        raise MissingToolError(
                            f"the ranks cannot meet here: not ready after {_JOINS_S:g} s: {told}"
                        )
                    letter = self._receive(rank)
                except RankRaisedError as error:
                    letter = Ends(error.record)
                if isinstance(letter, Ends) and letter.raised is not None:
                    # No call was made: nothing of this is the kernel's.
                    said = f"{letter.raised.exception}: {letter.raised.message}"[:1000]
                    raise MissingToolError(
                        f"the ranks cannot meet here: rank {rank.number}: {said}"
                    )
        except BaseException:
            self.close()  # those that came up would wait for the others, on their GPUs
            raise

    def close(self) -> None:
        """End the processes, and remove what they shared."""
        for rank in self._ranks:
            rank.channel.close()
            rank.asked.close()
            if rank.process:
                with suppress(ProcessLookupError, ChildProcessError):  # another's child, on a GPU
                    os.kill(rank.process, signal.SIGKILL)
                    os.waitpid(rank.process, 0)
        self._ranks = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, calls: Sequence[Sequence[Sequence[Sent]]], timing: Timing) -> list[Holds]:
        """Make calls: of each rank, of each of its calls the inputs; return what the ranks hold.

        Raises RankRaisedError, and RanksStuckError where ranks wait for one another.
        """
        self._timing = timing
        self._meetings = Meetings()
        for rank, listed in zip(self._ranks, calls, strict=True):
            rank.meetings.clear()
            is_busy = timing.issued is Issued.ON_SIDE_STREAM or self._is_late(rank)
            busy_ms = timing.busy_ms if is_busy else 0.0
            begin = Begin(listed, timing.refill, timing.moments, busy_ms, timing.issued)
            self._send(rank, begin)
        while any(rank.state is not _Is.OVER for rank in self._ranks):
            # Those go on that may; where none can and none runs, they never will.
            for rank in sorted(self._ranks, key=self._is_late):
                if self._is_late(rank) and not self._is_late_enough(rank):
                    continue
                match rank.state:
                    case _Is.ARRIVED:
                        self._send(rank, Go())
                    case _Is.POSTED:
                        self._deliver(rank)
                        self._send(rank, Go())
                    case _Is.WAITING if self._brought_about(rank.meetings[rank.waits][1]):
                        self._deliver(rank)
            if not any(rank.state is _Is.RUNNING for rank in self._ranks) and not all(
                rank.state is _Is.OVER for rank in self._ranks
            ):
                raise self._stuck()
            self._hear()
        unmet = [meeting for meeting in self._meetings.waiting if meeting.absent]
        if unmet:
            operation, posted = unmet[0].parts[0]
            begun = f"{waiting_words(operation, unmet[0].absent)}, whose call is over"
            raise RanksStuckError("", ((posted.rank, begun),))
        for rank in self._ranks:
            self._send(rank, Read())
        return [self._expect(rank, Holds) for rank in self._ranks]

    def _is_late(self, rank: _Rank) -> bool:
        return rank.number // self._groups == self._timing.late

    def _is_late_enough(self, rank: _Rank) -> bool:
        waited = time.monotonic() - rank.since >= self._timing.delay_s
        others = (one for one in self._ranks if not self._is_late(one))
        return waited or not any(one.state is _Is.RUNNING for one in others)

    def _brought_about(self, meeting: Meeting[_Posted]) -> bool:
        """Make a collective's results, if all ranks have begun it and can give their tensors.

        Raises RanksStuckError where they do not fit together.
        """
        parts = meeting.in_order
        if parts[0][1].result is not None:
            return True
        if not meeting.is_full:
            return False
        for _, posted in parts:
            if posted.given is None and self._ranks[posted.rank].state is _Is.RUNNING:
                return False
        given = []
        for _, posted in parts:
            sent = posted.given
            if sent is None:
                rank = self._ranks[posted.rank]
                rank.channel.send(Give(posted.number))
                sent = self._expect(rank, Gives).given
            given.append([_tensor(one) for one in sent])
        try:
            found = results([operation for operation, _ in parts], given)
        except MismatchError as error:
            raise RanksStuckError(str(error)) from None
        for (_, posted), tensors in zip(parts, found, strict=True):
            posted.result = [pack(tensor) for tensor in tensors]  # type: ignore[misc]
        return True

    def _deliver(self, rank: _Rank) -> None:
        """Send what a rank waits for, and before it all that is there and need not be late."""
        awaited = rank.waits if rank.state is _Is.WAITING else None
        early = self._timing.moments is not Moments.LATE
        for number in sorted(rank.meetings, key=lambda one: one == awaited):
            _, meeting, posted = rank.meetings[number]
            if number == awaited or (early and self._brought_about(meeting)):
                assert posted.result is not None
                rank.channel.send(Take(number, posted.result))
                del rank.meetings[number]
        if awaited is not None:
            rank.becomes(_Is.RUNNING)

    def _send(self, rank: _Rank, letter: object) -> None:
        """Send what makes a rank run."""
        with suppress(OSError, EOFError):  # that it has ended is seen where it is listened to
            rank.channel.send(letter)
        rank.becomes(_Is.RUNNING)

    def _hear(self) -> None:
        """Take what ranks say, as soon as one says something or the late one may go on."""
        running = [rank for rank in self._ranks if rank.state is _Is.RUNNING]
        if not running:
            return
        now = time.monotonic()
        until = min(rank.since for rank in running) + _SILENT_S
        held = [
            rank
            for rank in self._ranks
            if self._is_late(rank) and rank.state not in (_Is.RUNNING, _Is.OVER)
        ]
        until = min([until, *(rank.since + self._timing.delay_s for rank in held)])
        ready = wait([rank.channel for rank in running], max(0.0, until - now))
        for rank in running:
            if rank.channel in ready:
                letter = self._receive(rank)
                match letter:
                    case Arrives():
                        rank.becomes(_Is.ARRIVED)
                    case Posts(number=number, operation=operation, given=given):
                        posted = _Posted(rank.number, number, given)
                        meeting = self._meetings.join(operation, posted)
                        rank.meetings[number] = operation, meeting, posted
                        if self._timing.moments is not Moments.LATE:
                            rank.becomes(_Is.POSTED)
                    case Waits(number=number):
                        rank.waits = number
                        rank.becomes(_Is.WAITING)
                    case Ends(raised=raised):
                        if raised is not None:
                            raise RankRaisedError(rank.number, raised)
                        rank.becomes(_Is.OVER)
                    case _:
                        raise RanksStuckError(f"rank {rank.number} sent {type(letter).__name__}")
        if not ready and not held:
            # Wait anew for ranks that said nothing, if one computes; else raise.
            self._silences += 1
            # On a GPU a process computes while it waits for a kernel.
            computes = any(rank.computes for rank in running) and not self._on_gpu
            if not computes or self._silences >= _PATIENCE:
                raise self._stuck()
            for rank in running:  # some wait for what the others compute
                rank.becomes(rank.state)

    def _receive(self, rank: _Rank) -> Any:
        """Return a rank's next letter. Raises RankRaisedError where its process has ended."""
        self._silences = 0
        try:
            return rank.channel.recv()
        except (EOFError, OSError):
            how = "ended"
            with suppress(ChildProcessError):  # another's child, on a GPU
                status = os.waitpid(rank.process, 0)[1]
                number = status & 0x7F
                how = f"died of signal {number}" if number else f"exited with code {status >> 8}"
            rank.process = 0
            record = StepRaised(index=0, exception="RankEnded", message=f"its process {how}")
            raise RankRaisedError(rank.number, record) from None

    def _expect(self, rank: _Rank, kind: type) -> Any:
        """Return a rank's answer, which is due."""
        letter = self._receive(rank)
        if not isinstance(letter, kind):
            raise RanksStuckError(f"rank {rank.number} sent {type(letter).__name__}")
        if kind is Holds:
            rank.becomes(_Is.OVER)
        return letter

    def _stuck(self) -> RanksStuckError:
        """Return what each rank does, and which ranks it waits for."""
        told = []
        for rank in self._ranks:
            match rank.state:
                case _Is.WAITING:
                    operation, meeting, _ = rank.meetings[rank.waits]
                    does = waiting_words(operation, meeting.absent)
                case _Is.OVER:
                    does = "has ended its call"
                case _:
                    does = f"does not return{rank.line()}"
            told.append((rank.number, does))
        return RanksStuckError("", tuple(told))


def _tensor(sent: Packed) -> torch.Tensor:
    value = unpack(sent)
    assert isinstance(value, torch.Tensor)
    return value
