"""Launches of several devices: taken down as the host issues them, executed together.

Work of different devices runs at once, and may wait for each other. So launches run when somebody
needs what they leave: the host that waits for them, or a copy behind them. Then all that were
taken down run, in every order of `ranks.orders`, and the streams' and events' own order is kept.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineFinding
from ptxsan.host.order import Operation
from ptxsan.host.runtime import EVERYTHING, STILL, SUCCESS, HostLaunch, Kept, Settle
from ptxsan.host.sanitizer import Sanitizer, error_after
from ptxsan.launch import Buffer, Launch, Part
from ptxsan.names import plain_name
from ptxsan.options import Options
from ptxsan.ranks import run_parts, together
from ptxsan.schedules import once
from ptxsan.syntax import Module
from ptxsan.watching import snapshot

_GOES_ON = (
    "launches that the host has not waited for wait for launches that it has not issued yet, and "
    "it needs what others leave: what all of them do then is not executed"
)
_NOT_WATCHED = (
    "what the host and copies do to memory while launches of several devices are under way"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A launch that was taken down, or (`asked` is None) memory that was freed meanwhile."""

    device: int
    number: int = 0
    asked: HostLaunch | None = None
    module: Module | None = None
    launch: Launch | None = None
    operation: Operation | None = None
    freed: Buffer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What came out of launches that were executed together.

    `waits`: some wait for launches that may yet come; then memory is as it was before.
    """

    taken: Sequence[Taken] = ()
    findings: Sequence[MachineFinding] = ()
    inconclusive: str = ""
    run_s: float = 0.0
    left_out: Sequence[str] = ()
    output: str = ""
    waits: bool = False


class Devices:
    """What several devices were given and has not been executed."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, footprints=False, workers=1)
        self._taken: list[Taken] = []
        self._numbers: dict[int, int] = {}

    def take(
        self, asked: HostLaunch, module: Module, launch: Launch, operation: Operation, device: int
    ) -> None:
        """Take a launch down."""
        self._numbers[device] = self._numbers.get(device, 0) + 1
        self._taken.append(
            Taken(
                device=device, number=self._numbers[device], asked=asked, module=module,
                launch=launch, operation=operation,
            )
        )  # fmt: skip

    def freed(self, buffer: Buffer, device: int) -> None:
        """Learn that memory is freed that launches not executed yet may use."""
        if self._taken:
            self._taken.insert(0, Taken(device=device, freed=buffer))

    def settle(
        self, known: Callable[[int, int], bool], buffers: Sequence[Buffer], *,
        host_waits: bool, last: bool,
    ) -> Settled | None:  # fmt: skip
        """Execute everything, if somebody needs what is `known` (timeline, time); None if not."""
        needed = {
            index for index, one in enumerate(self._taken)
            if one.operation is not None and known(one.operation.timeline, one.operation.time)
        }  # fmt: skip
        if not needed:
            return None
        taken = tuple(self._taken)
        modules = {id(one.module): one.module for one in taken if one.module is not None}
        (module, *others) = modules.values()
        try:
            if others:
                raise MachineError(
                    "kernels of several source files run on several devices at once; put them "
                    "into one file"
                )
            parts = _parts(taken, buffers)
            before = snapshot(module, together(module, parts, self._options))
            reports = run_parts(module, parts, self._options)
        except MachineError as error:
            self._taken.clear()
            return Settled(taken=taken, inconclusive=str(error))
        findings, why = once(reports), ""
        stuck = [one.unended for one in reports if one.unended]
        if any(one.kind is Kind.DEADLOCK for one in findings):
            if not last:
                before.restore()
                return Settled(waits=True)
            if not host_waits or any(needed.isdisjoint(one) for one in stuck):
                findings = tuple(one for one in findings if one.kind is not Kind.DEADLOCK)
                why = _GOES_ON
        self._taken.clear()
        why = why or next((one.inconclusive for one in reports if one.inconclusive), None) or ""
        return Settled(
            taken=taken, findings=findings, inconclusive=why, output=reports[0].output,
            run_s=sum(one.statistics.run_s for one in reports), left_out=reports[0].left_out,
        )  # fmt: skip


def _parts(taken: Sequence[Taken], buffers: Sequence[Buffer]) -> list[Part]:
    """Return launches with what each comes after, less what those come after themselves."""
    found: list[Part] = []
    before: list[set[int]] = []
    for index, one in enumerate(taken):
        after: list[int] = []
        known: set[int] = set()
        if one.operation is not None:
            for other in reversed(range(index)):
                earlier = taken[other].operation
                if earlier is None or other in known:
                    continue
                if one.operation.is_after(earlier.timeline, earlier.time):
                    after.append(other)
                    known |= {other, *before[other]}
        before.append(known)
        launch = one.launch
        if launch is not None and not any(each.launch for each in found):
            launch = replace(launch, buffers=tuple(buffers))
        found.append(
            Part(
                device=one.device, launch=launch, number=one.number, after=tuple(after),
                freed=one.freed,
            )
        )  # fmt: skip
    return found


class SeveralDevices(Sanitizer):
    """Executes the launches of a program that finds several devices."""

    def __init__(
        self, options: Options, schedules: Sequence[tuple[str, int]], report: Path, *, library: Path
    ) -> None:
        super().__init__(options, schedules, report, concurrent=False, library=library)
        self._queue = Devices(options)
        self._owners: dict[int, int] = {}  # the device of each buffer, by the buffer's identity

    def finish(self) -> None:
        """Write what is known at the program's end."""
        self._settled(lambda timeline, time: True, host_waits=True, last=True)
        super().finish()

    def launch(self, asked: HostLaunch) -> int:
        assert self._runtime is not None
        order, stream = self._runtime.order, asked.how.stream
        module = self._variants.alone(self.module(asked.ptx), cooperative=asked.how.cooperative)
        launch = replace(self.launch_of(asked), buffers=())
        operation = order.operation(stream, launch=True)
        self._queue.take(asked, module, launch, operation, order.device_of(stream))
        return SUCCESS

    def allocated(self, base: int, nbytes: int, *, kept: Kept, stream: int) -> None:
        super().allocated(base, nbytes, kept=kept, stream=stream)
        pointer = self._memory.pointer(base)
        if pointer is not None and self._runtime is not None and kept is Kept.DEVICE:
            self._owners[id(pointer.buffer)] = self._runtime.peers.current()

    def freed(self, base: int, *, stream: int, how: str) -> None:
        pointer = self._memory.pointer(base)
        if pointer is not None:
            self._queue.freed(pointer.buffer, self._owners.get(id(pointer.buffer), 0))
        super().freed(base, stream=stream, how=how)

    def settle(self, what: int, how: Settle, device: int, *, last: bool) -> int:
        """Execute launches that somebody needs; see `runtime.Settles`."""
        assert self._runtime is not None
        order = self._runtime.order
        if how in (Settle.FOR_EVENT, Settle.FOR_QUERY):
            clock = order.event(what)
            return self._settled(
                lambda timeline, time: clock.get(timeline, 0) >= time,
                host_waits=how is Settle.FOR_EVENT, last=last,
            )  # fmt: skip
        if what == EVERYTHING:
            return self._settled(
                lambda timeline, _: order.device_of(timeline) == device, host_waits=True, last=last
            )
        known = order.after(what).is_after
        return self._settled(known, host_waits=how is Settle.FOR_HOST, last=last)

    def _settled(self, known: Callable[[int, int], bool], *, host_waits: bool, last: bool) -> int:
        """Execute what is known to be needed, and write what came out of it."""
        if self._runtime is None:
            return SUCCESS
        for buffer in self._memory.buffers:
            owner = self._owners.get(id(buffer))
            if owner is not None:
                buffer.closed_to = self._runtime.peers.without_access(owner)
        out = self._queue.settle(
            known, self._memory.all_buffers(), host_waits=host_waits, last=last
        )  # fmt: skip
        if out is None:
            return SUCCESS
        if out.waits:
            return STILL
        sys.stdout.write(out.output)
        sys.stdout.flush()
        findings = [self._freed_named(one) for one in out.findings]
        for number, one in enumerate(each for each in out.taken if each.asked is not None):
            assert one.asked is not None
            if out.inconclusive and one.launch is not None:
                name = f"launch {one.number} of device {one.device}"
                self._unknown.left_by(one.launch, f"{name} ({plain_name(one.asked.kernel)})")
            row = {
                "kernel": one.asked.kernel, "grid": one.asked.grid, "block": one.asked.block,
                "inconclusive": out.inconclusive, "run_s": 0.0 if number else out.run_s,
                "left_out": [] if number else [*out.left_out, _NOT_WATCHED],
                "findings": [] if number else [dataclasses.asdict(each) for each in findings],
            }  # fmt: skip
            self._report.write(row)
        return error_after(findings)
