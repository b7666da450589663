"""Memory that the host and the device share: what the host touches before it has waited."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ptxsan.findings import Kind, MachineFinding, Severity
from ptxsan.host.journal import Deed, Journal, Place
from ptxsan.host.memory import Memory
from ptxsan.host.report import Report, at, issued
from ptxsan.host.runtime import HostAccess, Kept, Runtime, Touching
from ptxsan.launch import Buffer

_SHARED = (Kept.PINNED, Kept.MANAGED)
_MOST_RANGES = 4096  # of bytes that the host is kept from, for one operation
_TIMEOUT_S = 30.0


@dataclass(slots=True)
class SharedMemory:
    """Keeps the host from memory that work may still be at, and says what it does there.

    `library` is the program's, whose lines accesses have.
    """

    library: Path
    _bases: dict[int, tuple[int, Buffer]] = field(default_factory=dict)  # by the buffer's identity
    _watched: list[tuple[int, int, Touching, Deed]] = field(default_factory=list)

    def allocated(self, base: int, buffer: Buffer, kept: Kept) -> None:
        """Learn of an allocation."""
        if kept in _SHARED:
            self._bases[id(buffer)] = base, buffer

    def freed(self, buffer: Buffer) -> None:
        """Learn that an allocation is gone."""
        self._bases.pop(id(buffer), None)

    def holds(self, buffer: Buffer) -> bool:
        """Whether the host may touch a buffer."""
        return id(buffer) in self._bases

    def close(
        self, runtime: Runtime, journal: Journal, known: Callable[[int, int], bool] | None = None
    ) -> None:
        """Keep the host from what work may still be at, until the host has waited for it.

        With `known` a function of the host's runs as work, and may touch what that comes after.
        """
        if not self._bases:
            return
        self._watched = []
        for buffer, deed, accesses in journal.pending(known or runtime.order.host_knows):
            if not isinstance(buffer, int) or buffer not in self._bases:
                continue
            base, _ = self._bases[buffer]
            # An atomic whose scope is the device is to the host what a plain write is.
            updates = Touching.UPDATES if deed.speaks_to_host else Touching.WRITES
            for part, kind in (
                (accesses.reads, Touching.READS), (accesses.writes, Touching.WRITES),
                (accesses.updates, updates),
            ):  # fmt: skip
                self._watched += [
                    (base + int(a), base + int(b), kind, deed) for a, b in part[:_MOST_RANGES]
                ]
        runtime.watch([one[:3] for one in self._watched])

    def open(self, runtime: Runtime) -> None:
        """Keep the host from nothing any more."""
        if self._bases:
            runtime.watch(())

    def look(self, runtime: Runtime, memory: Memory, report: Report) -> None:
        """Report what the host touched that it was kept from."""
        for one in runtime.host_accesses() if self._bases else ():
            found = memory.pointer(one.address)
            if found is None:
                continue
            verb = "writes" if one.writes else "reads"
            text = f"the host {verb} byte {found.offset} of {found.buffer.name}"
            for start, end, kind, deed in self._watched:
                if start <= one.address < end and (kind is Touching.WRITES or one.writes):
                    theirs = "reads" if kind is Touching.READS else "writes"
                    text += f", which {deed.what}{issued(deed)} {theirs}"
                    text += ": the host has not synchronized"
                    break
            report.say(
                MachineFinding(
                    kind=Kind.STREAM_RACE, severity=Severity.WRONG, text=text,
                    accesses=at(f"the host {verb}", self._line_of(one, runtime)), space="global",
                    allocation=found.buffer.name, offset=found.offset,
                )
            )  # fmt: skip

    def _line_of(self, access: HostAccess, runtime: Runtime) -> Place:
        """Return the line of the program's own code that made an access, or nothing."""
        for offset in runtime.offsets_in(self.library, access.frames):
            done = subprocess.run(
                ["addr2line", "-e", str(self.library), hex(offset)],
                capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
            file, _, line = done.stdout.strip().partition(" ")[0].rpartition(":")
            if line.isdecimal() and int(line):
                return Place(file=Path(file).name, line=int(line))
        return Place()
