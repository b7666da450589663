"""Whether the launches of a call are in order with the work of its caller, on which stream ever.

torch runs every operation on the caller's current stream. A launch on another stream is in order
with them where events or waits say so: it begins when what came before the call is done, and what
comes after the call begins when it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cuassay.model.recording import CallerOrder
from ptxsan.host.order import LEGACY, Operation, Order
from ptxsan.host.runtime import Runtime


@dataclass(slots=True)
class CallStreams:
    """The streams of one process's calls, for a caller on the default stream and for another.

    `stream` is the number of the caller's stream as host code is given it.
    """

    stream: int
    _orders: Sequence[Order]  # the first for a caller on the default stream
    _begun: list[Operation] = field(default_factory=list)
    _launched: list[tuple[int | None, list[Operation]]] = field(default_factory=list)

    @staticmethod
    def of(runtime: Runtime) -> CallStreams:
        """Return the streams of a runtime that no host code has used yet."""
        stream = runtime.caller_stream()
        runtime.orders[:] = [Order(same={stream: LEGACY}), Order()]
        runtime.orders[1].create(stream, blocking=False)
        return CallStreams(stream, runtime.orders)

    def begin(self) -> None:
        """Begin a call: the caller has put work on its stream."""
        self._launched = []
        self._begun = [order.operation(self.stream) for order in self._orders]

    def launched(self, stream: int, number: int | None) -> None:
        """Note a launch on a stream, and its number where it is recorded."""
        operations = [order.operation(stream, launch=True) for order in self._orders]
        self._launched.append((number, operations))

    def wait(self) -> None:
        """Let the host wait for everything: what comes after it comes after all launches."""
        for order in self._orders:
            order.host_waits_all()

    def end(self) -> dict[int, CallerOrder]:
        """End a call; return for whom each of its recorded launches is in order."""
        after = [order.after(self.stream) for order in self._orders]
        found = {}
        for number, operations in self._launched:
            default, side = (
                one.is_after(first.timeline, first.time) and last.is_after(one.timeline, one.time)
                for first, one, last in zip(self._begun, operations, after, strict=True)
            )
            if number is not None:
                order = CallerOrder.ALWAYS if side else CallerOrder.DEFAULT
                found[number] = order if default else CallerOrder.NEVER
        self._launched = []
        return found
