"""What comes before what: streams, events and the host of a CUDA program, by vector clocks.

Work runs where the program issues it, one after the other; CUDA promises less. Each stream is a
timeline, and so is the host. An operation knows of every timeline how far that had come when it
may begin at the earliest; two operations of which neither knows the other may run at once.
References: CUDA C++ Programming Guide, "Streams" and "Implicit Synchronization"; CUDA Runtime API,
"Stream synchronization behavior".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

HOST, LEGACY = 0, 1
Clock = dict[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Something that a stream does: its timeline, its place there, and all that is before it.

    Of a launch that waited for others while it ran, `since` are the times when it began: what came
    since then may be what it waited for, and nobody knows which part of it came after that.
    """

    timeline: int
    time: int
    known: Mapping[int, int]
    since: Mapping[int, int] | None = None

    def is_after(self, timeline: int, time: int) -> bool:
        """Whether the operation begins only when that of a timeline and time has ended."""
        if self.since is not None and time > self.since.get(timeline, 0):
            return True
        return self.known.get(timeline, 0) >= time


@dataclass(slots=True)
class _Stream:
    blocking: bool
    device: int = 0
    clock: Clock = field(default_factory=dict)
    launched: Clock | None = None  # what its last operation knew, if that was a launch


@dataclass(slots=True)
class Order:
    """The timelines of a program.

    Threads of the host count as one: what orders them is not seen, so nothing is said of them.
    With `same` streams count as others: {stream: the one that it is}.
    """

    same: Mapping[int, int] = field(default_factory=dict)

    _streams: dict[int, _Stream] = field(default_factory=lambda: {LEGACY: _Stream(blocking=True)})
    _events: dict[int, Clock] = field(default_factory=dict)
    _host: Clock = field(default_factory=dict)
    _times: dict[int, int] = field(default_factory=dict)

    @property
    def has_streams(self) -> bool:
        """Whether there is another stream than the legacy default stream."""
        return len(self._streams) > 1

    def create(self, stream: int, *, blocking: bool, device: int = 0) -> None:
        """Learn of a stream; a blocking one waits for the legacy default stream, and it for it.

        Each device has a legacy default stream: LEGACY plus its number.
        """
        if stream not in self.same:
            self._streams[stream] = _Stream(blocking=blocking, device=device)

    def device_of(self, stream: int) -> int:
        """Return the device of a stream."""
        return self._streams[self.same.get(stream, stream)].device

    def event(self, event: int) -> Mapping[int, int]:
        """Return what an event stands for."""
        return self._events.get(event, {})

    def operation(
        self, stream: int, *, launch: bool = False, since: Mapping[int, int] | None = None
    ) -> Operation:
        """Return the next operation of a stream; `since` as in Operation."""
        stream = self.same.get(stream, stream)
        return replace(self._next(stream, self._known(stream), launch=launch), since=since)

    def times(self) -> Mapping[int, int]:
        """Return how far every timeline has come."""
        return dict(self._times)

    def overlapping(self, stream: int) -> Operation | None:
        """Return the part of the next launch that may run while the launch before it still does.

        Programmatic dependent launch: it knows what that one knew. None where no launch is before.
        """
        stream = self.same.get(stream, stream)
        known = self._streams[stream].launched
        return None if known is None else self._next(stream, dict(known), launch=True)

    def _next(self, stream: int, known: Clock, *, launch: bool) -> Operation:
        one = self._streams[stream]
        _join(known, self._host)
        time = self._times[stream] = self._times.get(stream, 0) + 1
        one.launched = dict(known) if launch else None
        one.clock = self._known(stream)
        _join(one.clock, self._host)
        one.clock[stream] = time
        return Operation(timeline=stream, time=time, known=known)

    def after(self, stream: int) -> Operation:
        """Return an operation that would come now, of a time that none has."""
        stream = self.same.get(stream, stream)
        known = self._known(stream)
        _join(known, self._host)
        return Operation(timeline=stream, time=self._times.get(stream, 0) + 1, known=known)

    def record(self, event: int, stream: int) -> None:
        """Let an event stand for all that a stream has been given."""
        one = self.operation(stream)
        self._events[event] = {**one.known, one.timeline: one.time}

    def wait_event(self, stream: int, event: int) -> None:
        """Let what a stream is given from now on come after an event."""
        _join(self._streams[self.same.get(stream, stream)].clock, self._events.get(event, {}))

    def wait_stream(self, stream: int, other: int) -> None:
        """Let what a stream is given from now on come after what another has been given."""
        other = self.same.get(other, other)
        _join(self._streams[self.same.get(stream, stream)].clock, self._known(other))

    def host_waits_stream(self, stream: int) -> None:
        """Let the host go on when a stream has done everything."""
        _join(self._host, self._known(self.same.get(stream, stream)))

    def host_waits_event(self, event: int) -> None:
        """Let the host go on when an event has happened."""
        _join(self._host, self._events.get(event, {}))

    def host_waits_all(self) -> None:
        """Let the host go on when everything is done."""
        for one in self._streams.values():
            _join(self._host, one.clock)

    def host_knows(self, timeline: int, time: int) -> bool:
        """Whether the host has waited for an operation."""
        return self._host.get(timeline, 0) >= time

    def _known(self, stream: int) -> Clock:
        """Return what is before the next operation of a stream."""
        one = self._streams[stream]
        known = dict(one.clock)
        legacy = LEGACY + one.device
        if stream == legacy:
            for other in self._streams.values():
                if other.blocking and other.device == one.device:
                    _join(known, other.clock)
        elif one.blocking:
            _join(known, self._streams[legacy].clock)
        return known


def _join(clock: Clock, other: Mapping[int, int]) -> None:
    for timeline, time in other.items():
        if clock.get(timeline, 0) < time:
            clock[timeline] = time
