"""The runtime's finding records in words, with lines, threads and allocations."""

from __future__ import annotations

import dataclasses
import math
import struct
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from ptxsan import asynchronous, blind, isa, printed, roles, tensor_findings
from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.isa import Memory
from ptxsan.launch import Launch
from ptxsan.lines import own_line
from ptxsan.names import source_name
from ptxsan.program import Program
from ptxsan.record import Record
from ptxsan.records import LaunchState
from ptxsan.runtime import layout as L
from ptxsan.syntax import Immediate, Instruction

_NOBODY = 0xFFFFFFFF
_RECORD = "<6IQ6IQI4x"
_FAR = 1 << 31  # bytes that no honest mistake is off by
_WHAT = {L.READ: "reads", L.WRITE: "writes", L.ATOMIC: "updates", L.STRONG_READ: "reads",
         L.STRONG_WRITE: "writes"}  # fmt: skip
_NOUN = {L.READ: "read", L.WRITE: "write", L.ATOMIC: "atomic", L.STRONG_READ: "strong read",
         L.STRONG_WRITE: "strong write"}  # fmt: skip
_SPACES = {L.S_GLOBAL: "global", L.S_SHARED: "shared", L.S_LOCAL: "local", L.S_PARAM: "param"}


def records(state: LaunchState) -> Iterator[Record]:
    """Yield the finding records of a launch in the order in which they were found."""
    count = min(state.get32(L.FINDING_COUNT), state.get32(L.FINDING_LIMIT))
    for index in range(count):
        record = Record(*struct.unpack_from(_RECORD, state.findings.data, index * L.F_RECORD))
        yield dataclasses.replace(record, kind=record.kind & ~L.INSIDE)


_UNINITIALISED = {
    L.K_UNINIT: "computes with memory that nobody wrote",
    L.K_POISON_BRANCH: "is decided by memory that nobody wrote",
    L.K_POISON_ADDRESS: "uses an address that depends on memory that nobody wrote",
    L.K_POISON_STORE: "stores a value that depends on memory that nobody wrote",
}
_ODD: dict[int, tuple[Kind, str]] = {
    L.K_TRAP: (Kind.TRAP, "was reached"),
    L.K_COUNTS: (Kind.DIVERGENT_BARRIER, "names another number of threads than others at it"),
    L.K_TWICE: (Kind.DIVERGENT_BARRIER, "is reached twice by one thread before it opens"),
    L.K_BAD_FREE: (Kind.INVALID_FREE, "frees an address that malloc did not return"),
    L.K_FREED_TWICE: (Kind.INVALID_FREE, "frees memory that was freed before"),
    L.K_NO_TEXTURE: (Kind.OUT_OF_BOUNDS, "uses a handle of no texture or surface"),
    L.K_SURFACE: (Kind.OUT_OF_BOUNDS, "accesses a surface outside of it"),
    L.K_SURFACE_ALIGNMENT: (
        Kind.MISALIGNED, "accesses a surface at an x that is no multiple of its bytes"
    ),
}  # fmt: skip
_WAITS = {
    L.K_DIVERGENT_BARRIER: Kind.DIVERGENT_BARRIER,
    L.K_DIVERGENT_COLLECTIVE: Kind.DIVERGENT_COLLECTIVE,
    L.K_DEADLOCK: Kind.DEADLOCK,
}
_Describe: TypeAlias = "Callable[[Describer, Record], MachineFinding | None]"
_OF: dict[int, _Describe] = {}  # who describes a kind of record


def _of(*kinds: int) -> Callable[[_Describe], _Describe]:
    """Let the method below describe records of these kinds."""

    def enter(method: _Describe) -> _Describe:
        _OF.update(dict.fromkeys(kinds, method))
        return method

    return enter


class Describer:
    """Turns records of one launch into findings.

    `unused` are the racing loads whose values reach nothing (blind.py).
    """

    def __init__(
        self, program: Program, launch: Launch, state: LaunchState, unused: Collection[int] = ()
    ) -> None:
        self._program, self._launch, self._state = program, launch, state
        self._unused = unused
        self._shared = sorted(program.shared, key=lambda one: one.address)
        self._local = sorted(program.local, key=lambda one: one.address)

    def findings(self, one: Record) -> Iterator[MachineFinding | None]:
        """Yield what a record says: an access out of bounds may be misaligned as well."""
        yield self.finding(one)
        if one.kind == L.K_BOUNDS and one.bytes and one.address % one.bytes:
            yield self._memory(dataclasses.replace(one, kind=L.K_MISALIGNED))

    def finding(self, one: Record) -> MachineFinding | None:
        """Return the finding of a record; None for a mere suspicion."""
        describe = _OF.get(one.kind)
        if describe is not None:
            return describe(self, one)
        plain = _ODD.get(one.kind)
        return None if plain is None else self._plain(one, *plain)

    @_of(*_UNINITIALISED)
    def _uninitialised(self, one: Record) -> MachineFinding:
        found = self._plain(one, Kind.UNINITIALISED, _UNINITIALISED[one.kind])
        if not one.copies_pending:
            return found
        hint, wait = self._copy_hint(one)
        text = f"{found.text}; copies by cp.async were pending{hint}"
        return dataclasses.replace(found, text=text, accesses=(*found.accesses, *wait))

    @_of(L.K_ASSERT)
    def _assertion(self, one: Record) -> MachineFinding:
        said = printed.assertion(self._state, one.extra - 1)
        found = self._plain(one, Kind.ASSERT, "")
        return dataclasses.replace(found, text=f"assertion failed: {said}")

    @_of(*tensor_findings.KINDS)
    def _tensor(self, one: Record) -> MachineFinding:
        """Return a finding about tensor memory (tensor_findings.py)."""
        accesses = self._both(one)
        kind, severity, text = tensor_findings.describe(one, tuple(accesses))
        return MachineFinding(
            kind=kind, severity=severity, text=text, accesses=tuple(accesses), count=one.count,
            space="tensor",
        )  # fmt: skip

    def _both(self, one: Record) -> list[Access]:
        """Return the access of a record, and the other one that it names."""
        accesses = [self._access(self._instruction(one.site).opcode, one.site, one.gid)]
        if one.other_site != _NOBODY:
            opcode = self._instruction(one.other_site).opcode
            accesses.append(self._access(opcode, one.other_site, one.other_gid))
        return accesses

    @_of(*asynchronous.KINDS)
    def _asynchronous(self, one: Record) -> MachineFinding:
        """Return a finding about mbarriers, copies in flight or clusters (asynchronous.py)."""
        accesses = self._both(one)
        name, offset = self._place(one) if one.space == L.S_SHARED else ("", None)
        if one.kind == L.K_SAME_VALUE:
            sites = one.other_site, self._memory_site(one.site)
            copies = all(isa.is_waited_copy(self._instruction(each)) for each in sites)
            if not (copies and self._is_one_statement(*sites)):
                one = dataclasses.replace(one, kind=L.K_IN_FLIGHT)
        kind, severity, text = asynchronous.said(one, tuple(accesses), f"{name}+{offset}")
        if one.kind == L.K_IN_FLIGHT and one.other_site != _NOBODY:
            started = self._instruction(one.other_site)
            site = one.copy_wait_site if isa.is_waited_copy(started) else None
            if site is not None:
                wait = self._access(self._instruction(site).opcode, site, one.other_gid)
                text += f"; that thread last waits for copies by {wait.what} on {_place(wait)}"
                accesses.append(wait)
        reader = self._instruction(one.site)
        if one.kind == L.K_PROXY and isa.is_of_tensor_memory(reader):
            # Compilers give no fence where a tensor core reads what cp.async wrote, or where the
            # address of tensor memory was.
            writer = self._instruction(self._memory_site(one.other_site))
            apart = isa.is_waited_copy(writer) or isa.is_of_tensor_memory(writer)
            severity = Severity.NOTE if apart else severity
        return MachineFinding(
            kind=kind, severity=severity, text=text, accesses=tuple(accesses), count=one.count,
            space=_SPACES[one.space] if name else "", allocation=name, offset=offset,
            address=one.address or None,
        )  # fmt: skip

    @_of(L.K_BOUNDS, L.K_MISALIGNED, L.K_READ_ONLY, L.K_EXITED_SHARED, L.K_FREED, L.K_PEER)
    def _memory(self, one: Record) -> MachineFinding:
        if one.allocation == _NOBODY:
            allocation = "", 0, 0
        elif one.space == L.S_GLOBAL:
            found = self._state.allocation(one.allocation)
            allocation = f"buffer '{source_name(found.name)}'", found.base, int(found.data.size)
        else:
            table = self._shared if one.space == L.S_SHARED else self._local
            variable = table[one.allocation]
            size = variable.bytes or self._launch.dynamic_shared_bytes
            name = source_name(variable.name)
            allocation = f"{_SPACES[one.space]} variable '{name}'", variable.address, size
        name, start, size = allocation
        offset = one.address - start
        spelling = self._instruction(one.site).opcode
        head = f"{spelling} {_WHAT[one.what]} {one.bytes} bytes"
        space = _SPACES[one.space]
        if one.kind == L.K_MISALIGNED:
            kind = Kind.MISALIGNED
            place = f"offset {offset} of {name}" if name else f"{space} address {one.address:#x}"
            text = f"{head} at {place}, which is not aligned to that"
        elif one.kind == L.K_FREED:
            kind = Kind.OUT_OF_BOUNDS
            text = f"{head} at byte {offset} of {name}, which was freed"
            kind = Kind.FREED if self._launch.parts else kind
        elif one.kind == L.K_PEER:
            kind = Kind.PEER_ACCESS
            device = self._launch.place(one.gid)[0]
            text = (
                f"{head} at byte {offset} of {name}, memory of another device to which device "
                f"{device.device if device else 0} has no access: call cudaDeviceEnablePeerAccess "
                "(CUDA: an illegal memory access)"
            )
        elif one.kind == L.K_READ_ONLY:
            kind, text = Kind.READ_ONLY, f"{head} in {name}, which the kernel must not write"
        elif one.kind == L.K_EXITED_SHARED:
            kind, text = (
                Kind.EXITED_SHARED,
                f"{head} in shared memory of a block that has ended",
            )
        elif not name:
            kind = Kind.OUT_OF_BOUNDS
            text = f"{head} at {space} address {one.address:#x}, which is nobody's"
        else:
            far = offset < -_FAR or offset > size + _FAR
            kind = Kind.ADDRESS_OVERFLOW if far else Kind.OUT_OF_BOUNDS
            if offset < 0:
                distance = f"{-offset} bytes before its start"
            else:
                distance = f"{max(0, offset - size)} bytes beyond its end"
            text = f"{head} at byte {offset} of {name} ({size} bytes): {distance}"
            if far:
                text += "; an index of 32 bits has probably overflowed"
        return MachineFinding(
            kind=kind, severity=Severity.WRONG, text=text,
            accesses=(self._access(_NOUN[one.what], one.site, one.gid),),
            space=space, address=one.address, allocation=name,
            offset=offset if name else None, bytes=one.bytes, count=one.count,
        )  # fmt: skip

    def _place(self, one: Record) -> tuple[str, int]:
        """Return the name and offset of the place of a race."""
        return self._at(one.space, one.address)

    def _at(self, space: int, address: int) -> tuple[str, int]:
        if space == L.S_GLOBAL:
            found = self._state.holding(address)
            return f"buffer '{source_name(found.name)}'", address - found.base
        place = address & ((1 << 27) - 1)
        below = [each for each in self._shared if each.address <= place]
        if not below:
            return "shared memory", place
        name = source_name(below[-1].name)
        return f"shared variable '{name}'", place - below[-1].address

    @_of(L.K_RACE)
    def _race(self, one: Record) -> MachineFinding:
        name, offset = self._place(one)
        site = self._memory_site(one.other_site)
        other_what = self._other_noun(one, site)
        same = one.extra == 0 and one.what == L.WRITE and other_what == "write"
        same = same and self._is_one_statement(one.site, site)
        first = self._access(_NOUN[one.what], one.site, one.gid)
        partner = self._access(other_what, site, one.other_gid)
        text = (
            f"{first.what} by {_who(first)} and {partner.what} by {_who(partner)} of the same "
            f"bytes of {name} (offset {offset}) with nothing that orders them"
        )
        if same:
            text = f"several threads write the same value to offset {offset} of {name} at once"
        unused = blind.is_about(one, self._unused)
        if unused:
            text += "; a value that is read too late reaches nothing"
        wait: tuple[Access, ...] = ()
        copies = any(isa.is_waited_copy(self._instruction(each)) for each in (one.site, site))
        if copies and not same:
            hint, wait = self._copy_hint(one)
            text += hint
        mild = same or unused or self._replicated(one, first, partner)
        return MachineFinding(
            kind=Kind.SAME_VALUE_RACE if same else Kind.RACE,
            severity=Severity.NOTE if mild else Severity.WRONG,
            text=text, accesses=(first, partner, *wait), space=_SPACES[one.space],
            address=one.address, allocation=name, offset=offset, bytes=one.bytes, count=one.count,
        )  # fmt: skip

    def _copy_hint(self, one: Record) -> tuple[str, tuple[Access, ...]]:
        """Return which wait should have covered a copy by cp.async, in words and as an access."""
        if one.copy_wait_site is None:
            return "; no wait for the copy comes before (cp.async.wait_group, or _wait_all)", ()
        wait = self._instruction(one.copy_wait_site)
        access = self._access(wait.opcode, one.copy_wait_site, one.gid)
        name = f"{wait.opcode} on {_place(access)}"
        if not wait.operands:
            return f"; the last wait before, {name}, came before the copy", (access,)
        count = wait.operands[0]
        most = f"last {count.bits}" if isinstance(count, Immediate) else "last"
        return (
            f"; the last wait before, {name}, leaves the {most} committed groups pending: the "
            "copy is among them, or was committed after the wait, or not at all",
            (access,),
        )

    def _is_one_statement(self, site: int, other: int) -> bool:
        """Whether two stores are one of the source: a compiler unrolls loops and splits vectors."""
        if site == other:
            return True
        source = self._instruction(site).source
        return source is not None and source == self._instruction(other).source

    def _replicated(self, one: Record, first: Access, partner: Access) -> bool:
        """Whether every thread of a block loads what one chosen thread of it then updates.

        So Triton compiles a program that loads a scalar and exchanges it: each thread loads the
        scalar for itself, and the program as it was written has one load before one update.
        """
        if first.block != partner.block or one.space != L.S_GLOBAL:
            return False
        sites = {one.what: one.site, one.other_kind: self._memory_site(one.other_site)}
        if set(sites) != {L.READ, L.ATOMIC}:
            return False
        return roles.is_replicated(self._program, sites[L.READ], sites[L.ATOMIC])

    @_of(L.K_UNORDERED, L.K_ACQUIRE)
    def _strong(self, one: Record) -> MachineFinding | None:
        """A pair that is no data race by PTX's memory model, or is one for want of a fence."""
        name, offset = self._place(one)
        first = self._access(_NOUN[one.what], one.site, one.gid)
        site = self._memory_site(one.other_site)
        other_what = self._other_noun(one, site)
        partner = self._access(other_what, site, one.other_gid)
        stores = {L.WRITE, L.STRONG_WRITE}
        if one.what in stores and other_what.endswith("write") and one.extra == 0:
            return None  # whoever comes last, the same value stays
        pair = f"{first.what} by {_who(first)} and {partner.what} by {_who(partner)}"
        where = f"the same bytes of {name} (offset {offset})"
        if one.kind == L.K_ACQUIRE:
            kind = Kind.ACQUIRE_FENCE
            near = first.device == partner.device
            fence = "__threadfence()" if near else "__threadfence_system()"
            text = (
                f"{pair} touch {where}; {_who(first)} saw that the other had released them, but "
                f"has no fence behind the read that saw it: add {fence} there, or read with acquire"
            )
        else:
            kind = Kind.UNORDERED
            text = (
                f"{pair} touch {where}, and nothing orders them: no data race by the PTX memory "
                "model, but who comes first decides the result"
            )
        far = kind is Kind.ACQUIRE_FENCE and first.device != partner.device
        return MachineFinding(
            kind=kind, severity=Severity.WRONG if far else Severity.NOTE, text=text,
            accesses=(first, partner), space=_SPACES[one.space], address=one.address,
            allocation=name, offset=offset, bytes=one.bytes, count=one.count,
        )  # fmt: skip

    def _other_noun(self, one: Record, site: int) -> str:
        """Return what the partner of a pair did; flags of a record do not tell strong ones."""
        instruction = self._instruction(site)
        if one.other_kind == L.WRITE and isa.is_load(instruction):
            return _NOUN[L.STRONG_READ]
        if one.other_kind == L.ATOMIC and not isa.is_atomic(instruction):
            return _NOUN[L.STRONG_WRITE]
        return _NOUN[one.other_kind]

    def _memory_site(self, site: int) -> int:
        """Undo the rounding of instruction numbers in race records of long kernels."""
        last = site + (1 << self._state.get32(L.SITE_SHIFT))
        for index in range(site, min(last, len(self._program.body))):
            row = isa.row(self._program.body[index])
            if row.objects or row.memory not in (Memory.NONE, Memory.HINT):
                return index
        return site

    def _plain(self, one: Record, kind: Kind, text: str) -> MachineFinding:
        access = self._access(self._instruction(one.site).opcode, one.site, one.gid)
        return MachineFinding(
            kind=kind, severity=Severity.WRONG, text=f"{access.what} {text}", accesses=(access,),
            count=one.count, address=one.address or None,
        )  # fmt: skip

    @_of(*_WAITS)
    def _wait(self, one: Record) -> MachineFinding:
        kind = _WAITS[one.kind]
        first = self._access(self._instruction(one.site).opcode, one.site, one.gid)
        accesses = [first]
        text = f"{_who(first)} waits at {first.what} for threads that never come"
        if one.other_site != _NOBODY:
            partner = self._access(
                self._instruction(one.other_site).opcode, one.other_site, one.other_gid
            )
            accesses.append(partner)
            text = f"{_who(first)} waits at {first.what}, {_who(partner)} at {partner.what}"
            text += f" on PTX line {partner.ptx_line}"
        elif one.kind == L.K_DIVERGENT_BARRIER:
            _, _, thread = self._launch.place(one.other_gid)
            text = f"{_who(first)} waits at {first.what}, thread {thread} of its warp went past it"
        elif one.kind == L.K_DIVERGENT_COLLECTIVE and one.address == 2:
            _, _, thread = self._launch.place(one.other_gid)
            text = f"{_who(first)} waits at {first.what} for thread {thread}, which went past it"
        elif one.kind == L.K_DIVERGENT_COLLECTIVE and one.address == 1:
            text = f"{_who(first)} executes {first.what} with a lane mask that leaves itself out"
        return MachineFinding(
            kind=kind, severity=Severity.WRONG, text=text, accesses=tuple(accesses), count=one.count
        )

    @_of(L.K_SPIN)
    def _spin(self, one: Record) -> MachineFinding:
        """A thread that goes round in a loop for ever, with one of another block that does too."""
        first = self._access(self._instruction(one.site).opcode, one.site, one.gid)
        accesses = [first]
        name, offset = self._waited_for(one.space, one.address)
        text = f"{_who(first)} waits in a loop"
        text += f" for {name} (offset {offset}) to change" if name else ""
        if one.other_site != _NOBODY:
            opcode = self._instruction(one.other_site).opcode
            partner = self._access(opcode, one.other_site, one.other_gid)
            accesses.append(partner)
            text += f"; {_who(partner)} waits as well"
            other, there = self._waited_for(one.bytes, one.granule)
            if other and (other, there) != (name, offset):
                text += f", for {other} (offset {there})"
        ended = self._state.get32(L.BLOCKS_DONE)
        blocks = math.prod(self._launch.grid)
        text += f"; {one.extra} of {blocks} blocks wait, {ended} have ended: nobody will change it"
        said = []
        for device in sorted({one.device for one in self._launch.parts}):
            own = [
                (index, one) for index, one in enumerate(self._launch.parts)
                if one.device == device and one.launch is not None
            ]  # fmt: skip
            left = [one for index, one in own if self._state.ended(index) < one.blocks]
            if not left or left[0].launch is None:
                said.append(f"all launches of device {device} have ended")
            elif len(own) > 1:
                kernel = source_name(left[0].launch.kernel)
                said.append(f"device {device} is in launch {left[0].number}, {kernel}")
        text += f" ({'; '.join(said)})" if said else ""
        return MachineFinding(
            kind=Kind.DEADLOCK, severity=Severity.WRONG, text=text, accesses=tuple(accesses),
            space=_SPACES[one.space - 1] if name else "", address=one.address or None,
            allocation=name, offset=offset if name else None,
        )  # fmt: skip

    @_of(L.K_ENDED_BEFORE)
    def _ended_before(self, one: Record) -> MachineFinding:
        """A barrier that opens without threads that have ended: PTX lets it, CUDA C++ does not."""
        first = self._access(self._instruction(one.site).opcode, one.site, one.gid)
        _, _, thread = self._launch.place(one.other_gid)
        text = (
            f"{_who(first)} waits at {first.what}, thread {thread} of its block has ended before: "
            "PTX counts threads that have ended as arrived, CUDA C++ wants all threads of the "
            "block to reach the barrier"
        )
        return MachineFinding(
            kind=Kind.ENDED_BEFORE, severity=Severity.NOTE, text=text, accesses=(first,),
            count=one.count,
        )  # fmt: skip

    def _waited_for(self, space: int, address: int) -> tuple[str, int]:
        """Return the name and offset of what a loop reads; `space` is 1 more than its number."""
        if space == 0:
            return "", 0
        return self._at(space - 1, address)

    def _instruction(self, site: int) -> Instruction:
        return self._program.body[min(site, len(self._program.body) - 1)]

    def _access(self, what: str, site: int, gid: int) -> Access:
        instruction = self._instruction(site)
        source = own_line(instruction.source)
        part, block, thread = self._launch.place(gid)
        return Access(
            what=what,
            ptx_line=instruction.line,
            source_file=source.file if source else None,
            source_line=source.line if source else None,
            block=block,
            thread=thread,
            device=part.device if part else None,
            launch=part.number if part else 0,
            kernel=source_name(part.launch.kernel) if part and part.launch else "",
        )


def _place(access: Access) -> str:
    if access.source_line:
        return f"line {access.source_line}"
    return f"PTX line {access.ptx_line}"


def _who(access: Access) -> str:
    return f"thread {access.thread} of block {access.block}{access.on_device}"
