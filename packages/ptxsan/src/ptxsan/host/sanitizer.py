"""A program's launches with every check on, and what its host does around them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ptxsan import footprints
from ptxsan.addresses import reached
from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineFinding, MachineReport, Severity
from ptxsan.footprints import Accesses, Touched
from ptxsan.host.journal import Clash, Deed, Journal, Place
from ptxsan.host.memory import Memory, Unknown, may_be_padding
from ptxsan.host.paused import Paused, Progress
from ptxsan.host.reordering import Executed, Reordering
from ptxsan.host.repeats import Repeats
from ptxsan.host.report import Report, at, issued, shown
from ptxsan.host.runtime import (
    ASSERTED,
    FIRST_TOKEN,
    ILLEGAL_ADDRESS,
    LAUNCH_FAILURE,
    MOVED,
    NOT_SUPPORTED,
    STILL,
    SUCCESS,
    HostLaunch,
    How,
    Kept,
    Moved,
    Noted,
    Runtime,
    Texels,
)
from ptxsan.host.shared_memory import SharedMemory
from ptxsan.host.variants import Variants
from ptxsan.interplay import Interplay
from ptxsan.launch import Buffer, Launch, Texture
from ptxsan.names import plain_name
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import OVERLAP, Meanwhile, load
from ptxsan.schedules import every, once
from ptxsan.syntax import Module
from ptxsan.watching import Snapshot, snapshot

_MOST_KIND = 2  # enum cudaChannelFormatKind: signed, unsigned, float; others are compressed
_FATAL = {
    Kind.PEER_ACCESS: ILLEGAL_ADDRESS, Kind.DEADLOCK: LAUNCH_FAILURE, Kind.TRAP: LAUNCH_FAILURE,
    Kind.ASSERT: ASSERTED,
}  # fmt: skip
_PATIENCE_S = 2.0  # until the host goes on beside a kernel that works and may watch for its word
_ALLOCATES, _FREES = "cudaMallocAsync", "cudaFreeAsync"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A launch that was begun, under its `name`.

    `before` is memory before it, `behind` the launch without an end whose memory it reaches;
    `early` says that all of it overlaps with the launch before it. `since` is how far every
    timeline had come when it began to wait for others; None where it never did.
    """

    asked: HostLaunch
    module: Module
    launch: Launch
    name: str
    before: Snapshot | None
    behind: str
    early: bool
    since: Mapping[int, int] | None = None


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
        self._schedules, self._report = schedules, Report(report)
        self._memory, self._shared = Memory(), SharedMemory(library)
        self._modules: dict[str, Module] = {}
        self._textures: dict[int, Texture] = {}
        self._variants, self._repeats, self._unknown = Variants(), Repeats(), Unknown()
        self._reordering = Reordering(self._options)
        self._launches = 0
        self._paused: dict[int, tuple[_Begun, Paused[Sequence[MachineReport]]]] = {}
        self._runtime: Runtime | None = None
        self._journal: Journal | None = None

    def connect(self, runtime: Runtime) -> None:
        """Learn of the runtime whose executor this is."""
        self._runtime = runtime
        self._journal = Journal(runtime.order) if self._options.footprints else None

    def finish(self) -> None:
        """Write what is known at the program's end."""
        if self._runtime is not None:
            self._runtime.drain()
        self._look_at_host_accesses()
        if self._runtime is not None:
            self._shared.open(self._runtime)
        if self._journal is not None and self._journal.dropped:
            self._report.uncovered(
                "more operations at once on one allocation than are kept in mind"
            )

    # Launches -------------------------------------------------------------------------------------

    def module(self, ptx: str) -> Module:
        if ptx not in self._modules:
            self._modules[ptx] = parse(ptx)
        return self._modules[ptx]

    def launch_of(self, asked: HostLaunch) -> Launch:
        """Return a launch as the machine takes it, with all memory that there is."""
        raw = asked.arguments
        return Launch(
            kernel=asked.kernel, grid=asked.grid, block=asked.block, cluster=asked.cluster,
            dynamic_shared_bytes=asked.shared_bytes,
            arguments=tuple(map(self._memory.argument, raw)),
            pointers_inside=self._memory.inside(raw), buffers=self._memory.all_buffers(),
            textures=tuple(self._textures.values()),
        )  # fmt: skip

    def launch(self, asked: HostLaunch) -> int:
        self._look_at_host_accesses()
        how, raw = asked.how, asked.arguments
        module = self._variants.alone(self.module(asked.ptx), cooperative=how.cooperative)
        launch = self.launch_of(asked)
        self._launches += 1
        name = f"launch {self._launches} ({plain_name(asked.kernel)})"
        behind, before = self._unknown.of(launch), self._before(module, launch, how)
        begun = _Begun(
            asked=asked, module=module, launch=launch, name=name, before=before, behind=behind,
            early=not behind and self._early(name, module, launch, how),
        )  # fmt: skip

        def work(meanwhile: Meanwhile | None) -> Sequence[MachineReport]:
            return self._repeats.every(
                module, launch, options=self._options, schedules=self._schedules, given=raw,
                meanwhile=meanwhile,
            )  # fmt: skip

        if behind:
            return self._ended(begun, lambda: ())
        if not self._may_wait(begun):
            return self._ended(begun, lambda: work(None))
        watches = self._speaks_to_host(begun) and any(
            map(self._shared.holds, reached(begun.launch))
        )
        paused = Paused(work, patience_s=_PATIENCE_S if watches else None)
        if paused.start() is Progress.ENDED:
            return self._ended(begun, lambda: paused.result)
        self._reordering.forget()
        if self._runtime is not None:
            self._shared.open(self._runtime)
            begun = replace(begun, before=None, since=self._runtime.order.times())
        self._paused[self._launches] = begun, paused
        return FIRST_TOKEN + self._launches

    def _may_wait(self, begun: _Begun) -> bool:
        """Whether the host, or another stream, may yet do what a launch's blocks wait for."""
        if self._journal is None or not begun.asked.how.may_wait:
            return False
        try:
            loaded = load(begun.module, begun.launch.kernel, self._options)
        except MachineError:
            return False  # the launch itself will say so
        return loaded.interplay is Interplay.ANY

    def _speaks_to_host(self, begun: _Begun) -> bool:
        return load(begun.module, begun.launch.kernel, self._options).program.speaks_to_system

    def resume(self, token: int, *, last: bool) -> int:
        """Let a launch go on that waits; return CUDA's error code once it has ended, or STILL.

        MOVED where it got on and waits again. With `last` nobody is left who could help it.
        """
        begun, paused = self._paused[token - FIRST_TOKEN]
        if last:
            paused.end()
        elif (progress := paused.go_on()) is not Progress.ENDED:
            return MOVED if progress is Progress.MOVED else STILL
        del self._paused[token - FIRST_TOKEN]
        return self._ended(begun, lambda: paused.result)

    def _ended(self, begun: _Begun, result: Callable[[], Sequence[MachineReport]]) -> int:
        """Write what came out of a launch, and look at what it meets; return CUDA's error code."""
        asked, launch = begun.asked, begun.launch
        findings: Sequence[MachineFinding] = ()
        why, run_s, left_out = "", 0.0, []
        touched: tuple[Touched, ...] = ()
        try:
            reports = result()
            if reports:
                findings = [self._freed_named(one) for one in once(reports)]
                touched = reports[0].touched
                why = next((one.inconclusive for one in reports if one.inconclusive), None) or ""
                run_s = sum(one.statistics.run_s for one in reports)
                # A program's launches overlap as its host has it, which is modelled.
                left_out = [text for text in reports[0].left_out if text != OVERLAP]
                sys.stdout.write(reports[0].output)
                sys.stdout.flush()
        except MachineError as error:
            why = str(error)
        if begun.behind:
            why = (
                f"it reaches memory that {begun.behind} was to write, which was not executed to "
                "its end"
            )
        if why:
            self._unknown.left_by(launch, begun.behind or begun.name)
        row = {
            "kernel": asked.kernel, "grid": asked.grid, "block": asked.block,
            "inconclusive": why, "run_s": run_s, "left_out": left_out,
            "findings": [dataclasses.asdict(one) for one in findings],
        }  # fmt: skip
        self._report.write(row)
        deed = None if begun.early else self._enter(begun, touched)
        if deed is None or begun.before is None or why:
            self._reordering.forget()
        else:
            executed = Executed(
                deed=deed, module=begun.module, launch=launch, touched=touched,
                before=begun.before, findings=findings, run_s=run_s,
            )  # fmt: skip
            for one in self._reordering.enter(executed):
                self._report.say(one)
        self._close()
        return error_after(findings)

    def _before(self, module: Module, launch: Launch, how: How) -> Snapshot | None:
        """Return memory before a launch that may meet another one on another stream.

        None where there is one stream, and where the host may change what the launch reaches.
        """
        if self._journal is None or self._runtime is None or how.programmatic:
            return None
        alone = not self._runtime.order.has_streams
        if alone or any(map(self._shared.holds, reached(launch))):
            return None
        try:
            return self._reordering.snapshot(module, launch)
        except MachineError:
            return None

    def _enter(self, begun: _Begun, touched: Sequence[Touched]) -> Deed | None:
        """Put a launch behind all that its stream was given, and see what it clashes with."""
        if self._runtime is None:
            return None
        how = begun.asked.how
        operation = self._runtime.order.operation(how.stream, launch=True, since=begun.since)
        deed = Deed(
            what=begun.name, place=how.place, operation=operation,
            speaks_to_host=bool(touched) and self._speaks_to_host(begun),
        )  # fmt: skip
        return self._log(deed, touched)

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
            kept = snapshot(module, launch)
            before = self._variants.until_it_waits(module, launch.kernel)
            ran = every(before or module, launch, options=options, schedules=self._schedules[:1])
        except MachineError:
            return False  # the launch itself will say so
        finally:
            if kept is not None:
                kept.restore()
        when = "before griddepcontrol.wait" if before else "which has no griddepcontrol.wait"
        deed = Deed(what=f"{name}, {when},", place=how.place, operation=operation)
        self._log(deed, ran[0].touched)
        return before is None

    def refused(self, asked: HostLaunch, why: str) -> None:
        self._report.refused(why, asked.how.place)

    # Memory ---------------------------------------------------------------------------------------

    def allocated(self, base: int, nbytes: int, *, kept: Kept, stream: int) -> None:
        written = kept is not Kept.DEVICE
        buffer = self._memory.add(base, nbytes, initialised=written)
        self._shared.allocated(base, buffer, kept)
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
            # The place in `freed by cudaFreeAsync at main.cu:12`
            file, _, line = how.rpartition(" at ")[2].rpartition(":")
            deed = Deed(
                what=_FREES,
                place=(Place(file=file, line=int(line)) if line.isdecimal() else Place()),
                operation=operation,
            )
            whole = Accesses(writes=footprints.span(0, buffer.data.nbytes))
            self._entered(buffer, deed, whole)
        if self._journal is not None:
            self._journal.forget(id(buffer))
        self._shared.freed(buffer)
        self._unknown.forget(buffer)
        self._memory.remove(base, how)

    def moved(self, one: Moved) -> None:
        self._look_at_host_accesses()
        self._reordering.forget()
        if one.source is not None and one.to_host:
            self._look_at_unwritten(one)
        if one.to_host:
            self._report.use_results(one.api, one.place)
        for row in range(one.rows):
            start = None if one.source is None else one.source + row * one.source_pitch
            self._memory.mark_written(one.target + row * one.target_pitch, one.width, start)
        target = self._memory.pointer(one.target)
        if target is not None:
            origin = self._memory.pointer(one.source) if one.source is not None else None
            source = origin.buffer if origin is not None else None
            whole = one.width * one.rows >= target.buffer.data.nbytes
            self._unknown.copied(target.buffer, source, whole=whole)
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
        self._report.say(
            MachineFinding(
                kind=Kind.UNWRITTEN_COPY, severity=Severity.NOTE if padding else Severity.WRONG,
                text=text, accesses=at("copied", one.place), space="global",
                allocation=found.buffer.name, offset=found.offset, bytes=count,
            )
        )  # fmt: skip

    # Errors ---------------------------------------------------------------------------------------

    def noted(self, what: Noted, error: int, text: str, place: Place) -> None:
        match what:
            case Noted.UNSEEN if error == NOT_SUPPORTED:
                self._report.uncovered(f"what {shown(place)} calls, which is not supported here")
            case Noted.UNSEEN:
                assert self._runtime is not None
                self._report.not_seen(self._runtime.error_text(error), place)
            case Noted.ASKED:
                self._report.asked()
            case Noted.UNCOVERED:
                self._report.uncovered(text)
            case Noted.ENDED:
                self.finish()

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

    def _log(self, deed: Deed, touched: Sequence[Touched]) -> Deed:
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
            self._report.say(_race(clash, f"variable '{name}'"))

    def _entered(self, buffer: Buffer, deed: Deed, accesses: Accesses) -> None:
        assert self._journal is not None
        clash = self._journal.enter(id(buffer), deed, accesses)
        if clash is not None:
            self._report.say(_race(clash, buffer.name))

    def _close(self, known: Callable[[int, int], bool] | None = None) -> None:
        """Keep the host from what work may be at; from nothing while a launch waits for it."""
        if self._runtime is not None and self._journal is not None and not self._paused:
            self._shared.close(self._runtime, self._journal, known)

    def _look_at_host_accesses(self) -> None:
        if self._runtime is not None and self._journal is not None:
            self._shared.look(self._runtime, self._memory, self._report)

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


def error_after(findings: Sequence[MachineFinding]) -> int:
    """Return CUDA's error code of a launch that showed findings."""
    return next((_FATAL[one.kind] for one in findings if one.kind in _FATAL), SUCCESS)


def _race(clash: Clash, name: str) -> MachineFinding:
    later, earlier = clash.later, clash.earlier
    did = f"{clash.did} byte {clash.offset} of {name}"
    before = clash.before
    if later.what == _FREES:
        did = f"frees {name}"
    if earlier.what == _ALLOCATES:
        before = "may not have allocated yet"
    text = (
        f"{later.what}{issued(later)} {did}, which {earlier.what}{issued(earlier)} {before}: "
        "no stream order, event or host synchronization orders them"
    )
    return MachineFinding(
        kind=Kind.STREAM_RACE, severity=Severity.WRONG, text=text,
        accesses=(*at("issued", later.place), *at("issued", earlier.place)), space="global",
        allocation=name, offset=clash.offset,
    )  # fmt: skip
