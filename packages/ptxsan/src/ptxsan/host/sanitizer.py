"""A program's launches with every check on, and what its host does around them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ptxsan import footprints
from ptxsan.errors import MachineError
from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.footprints import Accesses, Touched
from ptxsan.globals import module_memory
from ptxsan.heap import module_heap
from ptxsan.host.journal import Clash, Deed, Journal, Place
from ptxsan.host.memory import Memory, Unknown, may_be_padding, reached
from ptxsan.host.order import Operation
from ptxsan.host.reordering import Executed, Reordering
from ptxsan.host.repeats import Repeats
from ptxsan.host.runtime import (
    LAUNCH_FAILURE,
    NOT_SUPPORTED,
    SUCCESS,
    HostAccess,
    HostLaunch,
    How,
    Kept,
    Moved,
    Noted,
    Runtime,
    Texels,
)
from ptxsan.host.variants import Variants
from ptxsan.launch import Buffer, Launch, Texture
from ptxsan.names import plain_name
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.run import OVERLAP
from ptxsan.schedules import every, once
from ptxsan.syntax import Module
from ptxsan.watching import Snapshot

_MOST_KIND = 2  # enum cudaChannelFormatKind: signed, unsigned, float; others are compressed
_FATAL = (Kind.DEADLOCK, Kind.TRAP, Kind.ASSERT)
_SHARED = (Kept.PINNED, Kept.MANAGED)
_MOST_RANGES = 4096  # of bytes that the host is kept from, for one operation
_TIMEOUT_S = 30.0
_ALLOCATES, _FREES = "cudaMallocAsync", "cudaFreeAsync"


@dataclass(slots=True)
class _Block:
    """An allocation: its address, its bytes as launches see them, and whose memory it is."""

    base: int
    buffer: Buffer
    kept: Kept


class Sanitizer:
    """Executes a program's launches and writes what was found, as it comes.

    With `concurrent` the program may have several things under way at once.
    """

    def __init__(
        self,
        options: Options,
        schedules: Sequence[tuple[str, int]],
        report: Path,
        *,
        concurrent: bool,
        library: Path,
    ) -> None:
        self._options = replace(options, footprints=concurrent)
        self._schedules, self._report, self._library = schedules, report, library
        self._memory = Memory()
        self._blocks: dict[int, _Block] = {}  # by the identity of the buffer
        self._modules: dict[str, Module] = {}
        self._textures: dict[int, Texture] = {}
        self._variants, self._repeats, self._unknown = Variants(), Repeats(), Unknown()
        self._reordering = Reordering(self._options)
        self._watched: list[tuple[int, int, bool, Deed]] = []  # bytes, whether written, by whom
        self._unseen = 0  # how many errors nobody has asked for yet
        self._refused = ""
        self._said: set[tuple[Any, ...]] = set()
        self._launches = 0
        self._runtime: Runtime | None = None
        self._journal: Journal | None = None
        self._concurrent = concurrent

    def connect(self, runtime: Runtime) -> None:
        """Learn of the runtime whose executor this is."""
        self._runtime = runtime
        self._journal = Journal(runtime.order) if self._concurrent else None

    def finish(self) -> None:
        """Write what is known at the program's end."""
        if self._runtime is not None and self._shares():
            self._look_at_host_accesses()
            self._runtime.watch(())
        if self._journal is not None and self._journal.dropped:
            self._uncovered("more operations at once on one allocation than are kept in mind")

    # Launches -------------------------------------------------------------------------------------

    def module(self, ptx: str) -> Module:
        if ptx not in self._modules:
            self._modules[ptx] = parse(ptx)
        return self._modules[ptx]

    def launch(self, asked: HostLaunch) -> int:
        self._look_at_host_accesses()
        how, raw = asked.how, asked.arguments
        module = self._variants.alone(self.module(asked.ptx), cooperative=how.cooperative)
        launch = Launch(
            kernel=asked.kernel, grid=asked.grid, block=asked.block, cluster=asked.cluster,
            dynamic_shared_bytes=asked.shared_bytes,
            arguments=tuple(map(self._memory.argument, raw)),
            pointers_inside=self._memory.inside(raw), buffers=self._memory.buffers,
            stored_pointers=self._memory.stored_pointers(),
            textures=tuple(self._textures.values()),
        )  # fmt: skip
        findings: Sequence[MachineFinding] = ()
        why, run_s, left_out = "", 0.0, []
        self._launches += 1
        name = f"launch {self._launches} ({plain_name(asked.kernel)})"
        touched: tuple[Touched, ...] = ()
        early, behind = False, self._unknown.of(launch)
        before = self._before(module, launch, how)
        if behind:
            why = f"it reaches memory that {behind} was to write, which was not executed to its end"
        else:
            early = self._early(name, module, launch, how)
            try:
                reports = self._repeats.every(
                    module, launch, options=self._options, schedules=self._schedules, given=raw
                )
                report = reports[0]
                findings = [self._freed_named(one) for one in once(reports)]
                touched = report.touched
                why = next((one.inconclusive for one in reports if one.inconclusive), None) or ""
                run_s = sum(one.statistics.run_s for one in reports)
                # A program's launches overlap as its host has it, which is modelled.
                left_out = [text for text in report.left_out if text != OVERLAP]
                sys.stdout.write(report.output)
                sys.stdout.flush()
            except MachineError as error:
                why = str(error)
        if why:
            self._unknown.left_by(launch, behind or name)
        row = {
            "kernel": asked.kernel, "grid": asked.grid, "block": asked.block,
            "inconclusive": why, "run_s": run_s, "left_out": left_out,
            "findings": [dataclasses.asdict(one) for one in findings],
        }  # fmt: skip
        self._write(row)
        deed = None if early else self._enter(name, how, touched)
        if deed is None or before is None or why:
            self._reordering.forget()
        else:
            executed = Executed(
                deed=deed, module=module, launch=launch, touched=touched, before=before,
                findings=findings, run_s=run_s,
            )  # fmt: skip
            for one in self._reordering.enter(executed):
                self._say(one)
        self._close()
        fatal = any(one.kind in _FATAL for one in findings)
        return LAUNCH_FAILURE if fatal else SUCCESS

    def _before(self, module: Module, launch: Launch, how: How) -> Snapshot | None:
        """Return memory before a launch that may meet another one on another stream.

        None where there is one stream, and where the host may change what the launch reaches.
        """
        if self._journal is None or self._runtime is None or how.programmatic:
            return None
        blocks = (self._blocks.get(id(one)) for one in reached(launch))
        if not self._runtime.order.has_streams or any(
            one is not None and one.kept in _SHARED for one in blocks
        ):
            return None
        try:
            return self._reordering.snapshot(module, launch)
        except MachineError:
            return None

    def _enter(self, name: str, how: How, touched: Sequence[Touched]) -> Deed | None:
        """Put a launch behind all that its stream was given, and see what it clashes with."""
        if self._runtime is None:
            return None
        operation = self._runtime.order.operation(how.stream, launch=True)
        return self._log(operation, name, how, touched)

    def _early(self, name: str, module: Module, launch: Launch, how: How) -> bool:
        """Look at what a programmatic launch does before it waits for the launch before it.

        Returns whether that is all that it does.
        """
        if not how.programmatic or self._runtime is None or self._journal is None:
            return False
        operation = self._runtime.order.overlapping(how.stream)
        if operation is None:
            return False
        options = replace(self._options, predict=False)
        kept: Snapshot | None = None
        try:
            program = build(module, launch.kernel)
            kept = Snapshot(launch, module_memory(module, program), module_heap(module, program))
            before = self._variants.until_it_waits(module, launch.kernel)
            ran = every(before or module, launch, options=options, schedules=self._schedules[:1])
        except MachineError:
            return False  # the launch itself will say so
        finally:
            if kept is not None:
                kept.restore()
        when = "before griddepcontrol.wait" if before else "which has no griddepcontrol.wait"
        self._log(operation, f"{name}, {when},", how, ran[0].touched)
        return before is None

    def refused(self, asked: HostLaunch, why: str) -> None:
        self._refused = why
        found = MachineFinding(
            kind=Kind.REFUSED_LAUNCH, severity=Severity.NOTE,
            text=f"{why}; the program checks the error",
            accesses=_at("launched", asked.how.place),
        )  # fmt: skip
        self._write({"host": dataclasses.asdict(found), "refusal": True})

    # Memory ---------------------------------------------------------------------------------------

    def allocated(self, base: int, nbytes: int, *, kept: Kept, stream: int) -> None:
        written = kept is not Kept.DEVICE
        buffer = self._memory.add(base, nbytes, initialised=written)
        self._blocks[id(buffer)] = _Block(base, buffer, kept)
        if stream and self._journal is not None and self._runtime is not None:
            operation = self._runtime.order.operation(stream)
            deed = Deed(what=_ALLOCATES, place=Place(), operation=operation)
            self._entered(buffer, deed, Accesses(writes=footprints.span(0, nbytes)))

    def freed(self, base: int, *, stream: int, how: str) -> None:
        pointer = self._memory.pointer(base)
        if pointer is None:
            return
        self._reordering.forget()
        buffer = pointer.buffer
        if stream and self._journal is not None and self._runtime is not None:
            operation = self._runtime.order.operation(stream)
            deed = Deed(what=_FREES, place=_place_in(how), operation=operation)
            whole = Accesses(writes=footprints.span(0, buffer.data.nbytes))
            self._entered(buffer, deed, whole)
        if self._journal is not None:
            self._journal.forget(id(buffer))
        self._blocks.pop(id(buffer), None)
        self._unknown.forget(buffer)
        self._memory.remove(base, how)

    def moved(self, one: Moved) -> None:
        self._look_at_host_accesses()
        self._reordering.forget()
        if one.source is not None and one.to_host:
            self._look_at_unwritten(one)
        if one.to_host:
            self._use_results(one)
        for row in range(one.rows):
            source = None if one.source is None else one.source + row * one.source_pitch
            self._memory.mark_written(one.target + row * one.target_pitch, one.width, source)
        source_at = self._memory.pointer(one.source) if one.source is not None else None
        target_at = self._memory.pointer(one.target)
        if target_at is not None:
            whole = one.width * one.rows >= target_at.buffer.data.nbytes
            self._unknown.copied(target_at.buffer, source_at and source_at.buffer, whole=whole)
        if self._runtime is not None:
            operation = self._runtime.order.operation(one.stream)
            deed = Deed(what=one.api, place=one.place, operation=operation)
            for address, pitch, writes in (
                (one.source, one.source_pitch, False), (one.target, one.target_pitch, True),
            ):  # fmt: skip
                if address is not None:
                    self._move(one, deed, address, pitch, writes=writes)
            if one.host_waits:
                self._runtime.order.host_waits_stream(one.stream)
        self._close()

    def _move(self, one: Moved, deed: Deed, address: int, pitch: int, *, writes: bool) -> None:
        """Keep that a copy reads or writes what lies at an address: an allocation, a variable."""
        if self._journal is None or self._runtime is None:
            return
        found = self._memory.pointer(address)
        variable = self._runtime.variable_at(address) if found is None else None
        offset = found.offset if found is not None else variable[1] if variable else 0
        ranges = footprints.rows(offset, one.width, one.rows, pitch)
        accesses = Accesses(writes=ranges) if writes else Accesses(reads=ranges)
        if found is not None:
            self._entered(found.buffer, deed, accesses)
        elif variable is not None:
            self._entered_variable(variable[0], deed, accesses)

    def _look_at_unwritten(self, one: Moved) -> None:
        """Report bytes that nobody wrote where they are copied to the host."""
        assert one.source is not None
        rows = [one.source + row * one.source_pitch for row in range(one.rows)]
        flags = [self._memory.unwritten(row, one.width) for row in rows]
        if all(each is None for each in flags):
            return
        none = np.zeros(one.width, np.bool_)
        whole = np.concatenate([none if each is None else each for each in flags])
        first = int(np.flatnonzero(whole)[0])
        row, offset = divmod(first, one.width)
        found = self._memory.pointer(rows[row] + offset)
        assert found is not None
        count = int(whole.sum())
        padding = may_be_padding(whole)
        text = (
            f"{one.api} copies {whole.size:,} bytes to the host, {count:,} of them uninitialized: "
            f"the first is byte {found.offset} of {found.buffer.name}"
        )
        if padding:
            text += "; they may be padding of structures"
        self._say(
            MachineFinding(
                kind=Kind.UNWRITTEN_COPY, severity=Severity.NOTE if padding else Severity.WRONG,
                text=text, accesses=_at("copied", one.place), space="global",
                allocation=found.buffer.name, offset=found.offset, bytes=count,
            )
        )  # fmt: skip

    # Errors ---------------------------------------------------------------------------------------

    def noted(self, what: Noted, error: int, text: str, place: Place) -> None:
        match what:
            case Noted.UNSEEN if error == NOT_SUPPORTED:
                self._uncovered(f"what {_shown(place)} calls, which is not supported here")
            case Noted.UNSEEN:
                self._not_seen(error, place)
            case Noted.ASKED:
                if self._unseen:
                    self._write({"asked": self._unseen})
                self._unseen = 0
            case Noted.UNCOVERED:
                self._uncovered(text)
            case Noted.ENDED:
                self.finish()

    def _not_seen(self, error: int, place: Place) -> None:
        assert self._runtime is not None
        words = self._runtime.error_text(error)
        if self._refused:
            kind, text = Kind.REFUSED_LAUNCH, f"{self._refused}: CUDA refuses it with '{words}'"
        else:
            kind, text = Kind.UNSEEN_ERROR, f"this call fails with '{words}'"
        self._refused = ""
        found = MachineFinding(
            kind=kind, severity=Severity.WRONG,
            text=f"{text}, and the program does not check the error",
            accesses=_at("launched" if kind is Kind.REFUSED_LAUNCH else "called", place),
        )  # fmt: skip
        self._unseen += 1
        self._say(found, pending=True)

    def _use_results(self, one: Moved) -> None:
        """Note that results are copied while there are errors that nobody has asked for.

        Whoever asks for them from now on asks too late.
        """
        if self._unseen:
            by = f"{one.api} at {_shown(one.place)}"
            self._write({"used": self._unseen, "by": by})
        self._unseen = 0

    # Several things at once -----------------------------------------------------------------------

    def waited(self, stream: int | None) -> None:
        self._look_at_host_accesses()
        if stream is not None:  # a function of the host's may write what it likes
            self._reordering.forget()
        if stream and self._runtime is not None:
            after = self._runtime.order.after(stream)
            self._close(after.is_after)
        else:
            self._close()

    def _log(self, operation: Operation, what: str, how: How, touched: Sequence[Touched]) -> Deed:
        deed = Deed(what=what, place=how.place, operation=operation)
        if self._journal is None:
            return deed
        for one in touched:
            if one.buffer is not None:
                self._entered(one.buffer, deed, one.accesses)
            else:
                self._entered_variable(one.name, deed, one.accesses)
        return deed

    def _entered_variable(self, name: str, deed: Deed, accesses: Accesses) -> None:
        assert self._journal is not None
        clash = self._journal.enter(name, deed, accesses)
        if clash is not None:
            self._say(_race(clash, f"variable '{name}'"))

    def _entered(self, buffer: Buffer, deed: Deed, accesses: Accesses) -> None:
        assert self._journal is not None
        clash = self._journal.enter(id(buffer), deed, accesses)
        if clash is not None:
            self._say(_race(clash, buffer.name))

    def _shares(self) -> bool:
        return self._journal is not None and any(
            one.kept in _SHARED for one in self._blocks.values()
        )

    def _close(self, known: Callable[[int, int], bool] | None = None) -> None:
        """Keep the host from memory that work may still be at, until the host has waited for it.

        With `known` a function of the host's runs as work, and may touch what that comes after.
        """
        if self._runtime is None or self._journal is None or not self._shares():
            return
        self._watched = []
        known = known or self._runtime.order.host_knows
        for buffer, deed, accesses in self._journal.pending(known):
            block = self._blocks.get(buffer) if isinstance(buffer, int) else None
            if block is None or block.kept not in _SHARED:
                continue
            for part, writes in (
                (accesses.reads, False), (accesses.glances, False), (accesses.writes, True),
                (accesses.updates, True),
            ):  # fmt: skip
                self._watched += [
                    (block.base + int(a), block.base + int(b), writes, deed)
                    for a, b in part[:_MOST_RANGES]
                ]
        self._runtime.watch([one[:3] for one in self._watched])

    def _look_at_host_accesses(self) -> None:
        if self._runtime is None or not self._shares():
            return
        for one in self._runtime.host_accesses():
            found = self._memory.pointer(one.address)
            if found is None:
                continue
            verb = "writes" if one.writes else "reads"
            text = f"the host {verb} byte {found.offset} of {found.buffer.name}"
            for start, end, writes, deed in self._watched:
                if start <= one.address < end and (writes or one.writes):
                    theirs = "writes" if writes else "reads"
                    text += f", which {deed.what}{_issued(deed)} {theirs}"
                    text += ": the host has not synchronized"
                    break
            place = self._line_of(one)
            self._say(
                MachineFinding(
                    kind=Kind.STREAM_RACE, severity=Severity.WRONG, text=text,
                    accesses=_at(f"the host {verb}", place), space="global",
                    allocation=found.buffer.name, offset=found.offset,
                )
            )  # fmt: skip

    def _line_of(self, access: HostAccess) -> Place:
        """Return the line of the program's own code that made an access, or nothing."""
        assert self._runtime is not None
        for offset in self._runtime.offsets_in(self._library, access.frames):
            done = subprocess.run(
                ["addr2line", "-e", str(self._library), hex(offset)],
                capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
            file, _, line = done.stdout.strip().partition(" ")[0].rpartition(":")
            if line.isdecimal() and int(line):
                return Place(file=Path(file).name, line=int(line))
        return Place()

    # Textures -------------------------------------------------------------------------------------

    def textured(self, texels: Texels) -> int:
        pointer = self._memory.pointer(texels.data)
        if pointer is None or texels.bits not in (8, 16, 32) or texels.kind > _MOST_KIND:
            return NOT_SUPPORTED
        self._textures[texels.handle] = Texture(
            handle=texels.handle, pointer=pointer, width=texels.width, height=texels.height,
            depth=texels.depth, pitch=texels.pitch, slice_bytes=texels.slice,
            channels=texels.channels, bits=texels.bits, kind=texels.kind,
            normalized=bool(texels.normalized), linear=bool(texels.linear),
            fractions=bool(texels.fractions),
            modes=(texels.modes[0], texels.modes[1], texels.modes[2]),
            border=(texels.border[0], texels.border[1], texels.border[2], texels.border[3]),
        )  # fmt: skip
        return SUCCESS

    def untextured(self, handle: int) -> None:
        self._textures.pop(handle, None)

    # The report -----------------------------------------------------------------------------------

    def _freed_named(self, one: MachineFinding) -> MachineFinding:
        """Return a finding with its own kind where it is about memory that was freed."""
        name = one.allocation.removeprefix("buffer '").removesuffix("'")
        if one.kind not in (Kind.OUT_OF_BOUNDS, Kind.ADDRESS_OVERFLOW):
            return one
        if not self._memory.is_gone(name):
            return one
        verb, _, _ = one.text.partition(" at byte ")
        text = f"{verb} at byte {one.offset} of {one.allocation}"
        return replace(one, kind=Kind.FREED, text=text)

    def _say(self, one: MachineFinding, *, pending: bool = False) -> None:
        """Write a finding of the host, once for each kind and places of it."""
        key = (one.kind, tuple((each.source_file, each.source_line) for each in one.accesses))
        if key in self._said and not pending:
            return
        self._said.add(key)
        row: dict[str, Any] = {"host": dataclasses.asdict(one)}
        if pending:
            row["unseen"] = True
        self._write(row)

    def _uncovered(self, what: str) -> None:
        self._write({"uncovered": what})

    def _write(self, row: Mapping[str, Any]) -> None:
        with self._report.open("a") as stream:
            stream.write(json.dumps(row) + "\n")


def standing(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of a report as they are at its end.

    Errors that somebody asked for after all go, and so do notes of launches that were refused
    where nobody asked. What is said of the host is said once a place.
    """
    kept: list[dict[str, Any]] = []
    for row in rows:
        if "asked" in row:
            for index in _last_unseen(kept, row["asked"]):
                del kept[index]
        elif "used" in row:
            for index in _last_unseen(kept, row["used"]):
                text = f"{kept[index]['host']['text']} before {row['by']} copies the results"
                kept[index] = {**kept[index], "host": {**kept[index]["host"], "text": text}}
        else:
            kept.append(dict(row))
    unseen = {_place_of(row) for row in kept if row.get("unseen")}
    found: dict[str, Mapping[str, Any]] = {}
    for number, row in enumerate(kept):
        if row.get("refusal") and _place_of(row) in unseen:
            continue
        key = f"{row['host']['kind']} {_place_of(row)}" if "host" in row else str(number)
        found.setdefault(key, row)
    return list(found.values())


def _last_unseen(rows: Sequence[Mapping[str, Any]], count: int) -> list[int]:
    """Return where the last so many errors that nobody has asked for stand, the last first."""
    return [index for index in range(len(rows) - 1, -1, -1) if rows[index].get("unseen")][:count]


def _place_of(row: Mapping[str, Any]) -> str:
    return json.dumps([(one["source_file"], one["source_line"]) for one in row["host"]["accesses"]])


def _race(clash: Clash, name: str) -> MachineFinding:
    later, earlier = clash.later, clash.earlier
    did = f"{clash.did} byte {clash.offset} of {name}"
    before = clash.before
    if later.what == _FREES:
        did = f"frees {name}"
    if earlier.what == _ALLOCATES:
        before = "may not have allocated yet"
    text = (
        f"{later.what}{_issued(later)} {did}, which {earlier.what}{_issued(earlier)} {before}: "
        "no stream order, event or host synchronization orders them"
    )
    return MachineFinding(
        kind=Kind.STREAM_RACE, severity=Severity.WRONG, text=text,
        accesses=(*_at("issued", later.place), *_at("issued", earlier.place)), space="global",
        allocation=name, offset=clash.offset,
    )  # fmt: skip


def _issued(deed: Deed) -> str:
    return f" of {_shown(deed.place)}" if deed.place.line else ""


def _shown(place: Place) -> str:
    return f"{place.file}:{place.line}" if place.line else "the program"


def _place_in(how: str) -> Place:
    """Return the place in `freed by cudaFreeAsync at main.cu:12`."""
    file, _, line = how.rpartition(" at ")[2].rpartition(":")
    return Place(file=file, line=int(line)) if line.isdecimal() else Place()


def _at(what: str, place: Place) -> tuple[Access, ...]:
    """Return where the host's code does something."""
    nobody = (0, 0, 0)
    return (
        Access(
            what=what, ptx_line=0, source_file=place.file or None,
            source_line=place.line or None, block=nobody, thread=nobody,
        ),
    )  # fmt: skip
