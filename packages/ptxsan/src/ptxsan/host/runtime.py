"""The Python side of the CUDA runtime: what host code asks for, answered in this process."""

from __future__ import annotations

import bisect
import ctypes
import enum
import math
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np

from ptxsan import limits
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError
from ptxsan.globals import adopt, module_memory
from ptxsan.host.build import ANCHOR, Linked
from ptxsan.host.journal import Place
from ptxsan.host.order import Order
from ptxsan.host.paused import has_other_threads
from ptxsan.limits import Limit
from ptxsan.names import plain_name
from ptxsan.program import build, symbols_in
from ptxsan.syntax import Declaration, Function, Module

Dim3 = tuple[int, int, int]
# CUDA Runtime API, enum cudaError
SUCCESS, INVALID_VALUE, INVALID_CONFIGURATION, INVALID_FUNCTION = 0, 1, 9, 98
ILLEGAL_ADDRESS, ASSERTED, LAUNCH_FAILURE, COOPERATIVE_TOO_LARGE = 700, 710, 719, 720
NOT_SUPPORTED = 801
_ERRORS = {
    Limit.EXTENTS: INVALID_CONFIGURATION, Limit.THREADS: INVALID_CONFIGURATION,
    Limit.CLUSTER: INVALID_CONFIGURATION, Limit.BOUND: INVALID_VALUE,
    Limit.STATIC: INVALID_VALUE, Limit.DYNAMIC: INVALID_VALUE, Limit.SHARED: INVALID_VALUE,
    Limit.COOPERATIVE: COOPERATIVE_TOO_LARGE,
}  # fmt: skip
# What an executor returns of a launch that waits for the host or for other streams: at first a
# token from here on, by which it is resumed, then whether it got on. `kFirstToken` and its
# neighbors of native/host_runtime.h.
STILL, MOVED, FIRST_TOKEN = 10000, 10001, 10002
EVERYTHING = 0  # `kEverything` of native/host_runtime.h: all streams of a device
_MANAGED = re.compile(r"\.attribute\s*\(\s*\.managed\s*\)[^;={\n]*?([\w$]+)\s*[\[;=]")
_ARCH = 90  # unless a program is compiled for another one
_REGISTERS = 32  # a thread's: what ptxas would give is not known here
_COOPERATIVE, _PROGRAMMATIC = 1, 2
_NO_LIMIT = -1
_STATIC: WeakKeyDictionary[Module, dict[str, int]] = WeakKeyDictionary()  # bytes, by kernel
_OTHERS_S, _LOOK_S = 2.0, 0.005  # how long other threads may take to launch, how often to look


class Kept(enum.IntEnum):
    """Whose memory an allocation is: `Memory` of native/host_runtime.h."""

    DEVICE = 0
    PINNED = 1
    MANAGED = 2
    REGISTERED = 3


class _Ordered(enum.IntEnum):
    """`Order` of native/host_runtime.h."""

    CREATED = 0
    DESTROYED = 1
    RECORDED = 2
    WAITS_EVENT = 3
    HOST_WAITS_STREAM = 4
    HOST_WAITS_EVENT = 5
    HOST_WAITS_ALL = 6
    WAITS_STREAM = 7
    STEPPED = 8
    HOST_FUNCTION = 9


class Noted(enum.IntEnum):
    """`Note` of native/host_runtime.h.

    An error that a statement threw away, a look at the last error, something that the program uses
    and nobody models, and the program's exit.
    """

    UNSEEN = 0
    ASKED = 1
    UNCOVERED = 2
    ENDED = 3


class Touching(enum.IntEnum):
    """How work touches bytes that the host is kept from: `Kind` of native/host_watch.cpp.

    What it updates, by atomics or strong writes, the host may read, and update by its own atomics.
    """

    READS = 0
    WRITES = 1
    UPDATES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How a kernel is launched: on which stream (by its number), from where, with which others.

    `cooperative`: all blocks are there at once; `programmatic`: it may begin before the launch
    before it has ended; `may_wait`: the caller goes on where its blocks wait for others.
    """

    stream: int
    place: Place
    cooperative: bool = False
    programmatic: bool = False
    may_wait: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLaunch:
    """A launch as the host asks for it: a kernel of a module's PTX, and how large it is.

    `arguments` are the bytes of each parameter; of a launch that CUDA refuses none is read.
    """

    ptx: str
    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    shared_bytes: int
    how: How
    arguments: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Bytes that the host's calls copied, or (`source` is None) set: `rows` rows of `width`.

    `to_host`: the target is no memory of the device; `host_waits`: the call came back when it was
    done.
    """

    target: int
    source: int | None
    width: int
    rows: int
    target_pitch: int
    source_pitch: int
    stream: int
    api: str
    place: Place
    to_host: bool
    host_waits: bool


class _LaunchCall(ctypes.Structure):
    """`LaunchCall` of native/host_runtime.h."""

    _fields_ = (
        ("function", ctypes.c_void_p), ("extents", ctypes.c_uint * 9), ("flags", ctypes.c_uint),
        ("shared", ctypes.c_size_t), ("arguments", ctypes.c_void_p), ("stream", ctypes.c_uint64),
        ("file", ctypes.c_char_p), ("line", ctypes.c_int64), ("may_wait", ctypes.c_uint64),
    )  # fmt: skip


class _Transfer(ctypes.Structure):
    """`Transfer` of native/host_runtime.h."""

    _fields_ = (
        ("to", ctypes.c_void_p), ("from_", ctypes.c_void_p), ("width", ctypes.c_size_t),
        ("rows", ctypes.c_size_t), ("to_pitch", ctypes.c_size_t),
        ("from_pitch", ctypes.c_size_t), ("stream", ctypes.c_uint64), ("api", ctypes.c_char_p),
        ("file", ctypes.c_char_p), ("line", ctypes.c_int64), ("to_host", ctypes.c_uint32),
        ("host_waits", ctypes.c_uint32),
    )  # fmt: skip


class _Limits(ctypes.Structure):
    """`Limits` of native/host_runtime.h."""

    _fields_ = tuple(
        (name, kind)
        for name, kind in (
            ("threads", ctypes.c_int), ("block", ctypes.c_int * 3), ("grid", ctypes.c_int * 3),
            ("shared", ctypes.c_int), ("shared_optin", ctypes.c_int),
            ("shared_multiprocessor", ctypes.c_int), ("shared_reserved", ctypes.c_int),
            ("registers", ctypes.c_int), ("threads_multiprocessor", ctypes.c_int),
            ("blocks_multiprocessor", ctypes.c_int), ("multiprocessors", ctypes.c_int),
            ("major", ctypes.c_int), ("minor", ctypes.c_int),
        )
    )  # fmt: skip


class _Range(ctypes.Structure):
    """`Range` of native/host_watch.cpp."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("kind", ctypes.c_uint64),
    )


_FRAMES, _MOST_TOUCHES = 16, 64


class _Touch(ctypes.Structure):
    """`Touch` of native/host_watch.cpp."""

    _fields_ = (
        ("address", ctypes.c_uint64), ("written", ctypes.c_uint64),
        ("frames", ctypes.c_uint64 * _FRAMES), ("depth", ctypes.c_int64),
    )  # fmt: skip


class _Symbol(ctypes.Structure):
    """`Dl_info` of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )  # fmt: skip


_HANDLER_FRAMES = 2  # the handler itself, and how the kernel called it
_POINTER, _SIZE, _INT, _NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_uint64
_TEXT = ctypes.c_char_p
# What native code calls, in the order of `Callbacks` of native/host_runtime.h.
_ANSWERS: list[tuple[Any, Callable[..., Any]]] = []


def _answers(
    result: Any, *taken: Any, failing: int | None = None, alone: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the method below into the table of what native code calls, with its C types.

    An exception is kept for who called the host code, which is given `failing` instead. Methods
    that are not `alone` take the lock themselves, if they need it.
    """

    def enter(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(runtime: Runtime, *arguments: Any) -> Any:
            try:
                held: AbstractContextManager[Any] = runtime.lock if alone else nullcontext()
                with held:
                    return method(runtime, *arguments)
            except BaseException as error:
                runtime.failure = runtime.failure or error
                return failing

        _ANSWERS.append((ctypes.CFUNCTYPE(result, *taken), call))
        return method

    return enter


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAccess:
    """An access of the host to memory that `Runtime.watch` kept it from.

    `frames` are code addresses, the innermost first.
    """

    address: int
    writes: bool
    frames: tuple[int, ...]


class Texels(ctypes.Structure):
    """What a handle of a texture or surface means: `Texels` of native/cuda_host.cpp."""

    _fields_ = (
        ("handle", ctypes.c_uint64), ("data", ctypes.c_uint64), ("pitch", ctypes.c_uint64),
        ("slice", ctypes.c_uint64), ("width", ctypes.c_uint32), ("height", ctypes.c_uint32),
        ("depth", ctypes.c_uint32), ("channels", ctypes.c_uint32), ("bits", ctypes.c_uint32),
        ("kind", ctypes.c_uint32), ("normalized", ctypes.c_uint32), ("linear", ctypes.c_uint32),
        ("fractions", ctypes.c_uint32), ("modes", ctypes.c_uint32 * 3),
        ("border", ctypes.c_float * 4),
    )  # fmt: skip


class Executor(Protocol):
    """Who executes launches and keeps the modules and the memory that they see."""

    def module(self, ptx: str) -> Module:
        """Return the parsed module of a text, always the same one: its variables live in it."""

    def launch(self, asked: HostLaunch) -> int:
        """Execute a launch to its end; return CUDA's error code. May raise."""

    def refused(self, asked: HostLaunch, why: str) -> None:
        """Learn that CUDA refuses a launch, and why; the error is the caller's to look at."""

    def allocated(self, base: int, nbytes: int, *, kept: Kept, stream: int) -> None:
        """Learn of memory that the program was given: of a stream, or (0) of the host at once."""

    def freed(self, base: int, *, stream: int, how: str) -> None:
        """Learn that memory is gone, in the order of a stream or (0) at once."""

    def moved(self, one: Moved) -> None:
        """Learn that a call of the host wrote memory."""

    def waited(self, stream: int | None) -> None:
        """Learn that the host waited for something.

        With a stream: a function of the host's runs as work of it now; 0 once that has ended.
        """

    def noted(self, what: Noted, error: int, text: str, place: Place) -> None:
        """Learn of what `Noted` lists."""

    def textured(self, texels: Texels) -> int:
        """Learn what the handle of a texture or surface means; return CUDA's error code."""

    def untextured(self, handle: int) -> None:
        """Learn that a handle means nothing any more."""


class Resumes(Protocol):
    """Who lets launches go on that wait for the host: `Sanitizer.resume`."""

    def __call__(self, token: int, *, last: bool) -> int:
        """Return CUDA's error code of a launch that has ended, STILL or MOVED."""


class Settle(enum.IntEnum):
    """Who needs what launches leave: `Settle` of native/host_runtime.h."""

    FOR_WORK = 0
    FOR_HOST = 1
    FOR_EVENT = 2
    FOR_QUERY = 3


class Settles(Protocol):
    """Who executes launches of several devices together: `Sanitizer.settle`."""

    def __call__(self, what: int, how: Settle, device: int, *, last: bool) -> int:
        """Execute what somebody needs; return CUDA's error code.

        STILL where launches wait for others, and, not `last`, another thread may launch those.
        """


@dataclass(frozen=True, slots=True)
class Peers:
    """The devices that a program finds, and who reaches whose memory."""

    code: ctypes.CDLL
    count: int

    def current(self) -> int:
        """Return the calling thread's device."""
        return int(self.code.cuda_host_device())

    def without_access(self, owner: int) -> tuple[int, ...]:
        """Return the devices that have no access to a device's memory."""
        every = range(self.count)
        return tuple(one for one in every if not self.code.cuda_host_reaches(one, owner))


class Runtime:
    """The CUDA runtime of this process, connected to an executor.

    An exception that the executor raises ends the launch with an error code, as host code
    expects, and is kept in `failure` for who called the host code. `orders` are told what the
    program's streams and events put in order; `order` is the first of them. With `resumes` a
    launch may wait for what the host does after it. With several `devices` launches are only
    taken down, until `settles` is told that somebody needs what they leave.
    """

    def __init__(
        self,
        library: Path,
        executor: Executor,
        *,
        multiprocessors: int = 4,
        strict: bool = False,
        resumes: Resumes | None = None,
        devices: int = 1,
        settles: Settles | None = None,
        arch: int = _ARCH,
    ) -> None:
        self.failure: BaseException | None = None
        self.orders = [Order()]
        self._executor, self._resumes, self._settles = executor, resumes, settles
        self._issued = 0
        self._arch = arch
        self.lock = threading.RLock()
        self._code = ctypes.CDLL(str(library))
        self.peers = Peers(self._code, devices)
        self._functions: list[tuple[int, int, str, str]] = []  # start, end, name, PTX
        self._variables: list[tuple[int, int, str, str]] = []
        self._known_variables: dict[int, tuple[str, int]] = {}  # address: name, bytes
        self._alive = [kind(partial(answer, self)) for kind, answer in _ANSWERS]
        table = (_POINTER * len(_ANSWERS))(*(ctypes.cast(one, _POINTER) for one in self._alive))
        chip = limits.chip(arch)
        integers = _INT * 3
        told = _Limits(  # of fewer multiprocessors than a chip has, to keep programs small
            threads=limits.MOST_THREADS, block=integers(*limits.BLOCK_EXTENTS),
            grid=integers(*limits.GRID_EXTENTS), shared=limits.DEFAULT_SHARED,
            shared_optin=chip.shared, shared_multiprocessor=chip.multiprocessor_shared,
            shared_reserved=chip.reserved_shared, registers=chip.registers,
            threads_multiprocessor=chip.threads, blocks_multiprocessor=chip.blocks,
            multiprocessors=multiprocessors, major=arch // 10, minor=arch % 10,
        )  # fmt: skip
        self._code.cuda_host_connect(table, ctypes.byref(told), int(strict))
        if devices > 1:
            self._code.cuda_host_devices(devices)

    def register(self, linked: Linked) -> ctypes.CDLL:
        """Load a library of host code and learn its kernels."""
        code = ctypes.CDLL(linked.library)
        base = ctypes.addressof(ctypes.c_char.in_dll(code, ANCHOR))
        for found, rows in (
            (self._functions, linked.functions), (self._variables, linked.variables)
        ):  # fmt: skip
            found += [
                (base + at, base + at + n, name, linked.modules[m]) for at, n, name, m in rows
            ]
            found.sort()
        for start, end, name, ptx in self._variables:
            if name in _MANAGED.findall(ptx):  # the host's own is the device's too
                memory = np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start))
                with suppress(MachineError):  # the first launch will say so
                    adopt(self._executor.module(ptx), name, memory)
        return code

    @property
    def order(self) -> Order:
        """What the program's streams and events put in order."""
        return self.orders[0]

    def caller_stream(self) -> int:
        """Return the stream that `cuda_host_caller_stream` gives host code: its caller's."""
        self._code.cuda_host_caller_stream.restype = ctypes.c_void_p
        return int(self._code.cuda_host_caller_stream())

    def take_error(self) -> int:
        """Return CUDA's last error and reset it."""
        return int(self._code.cuda_host_take_error())

    def error_text(self, error: int) -> str:
        """Return CUDA's words for an error."""
        self._code.cudaGetErrorString.restype = ctypes.c_char_p
        words: bytes = self._code.cudaGetErrorString(error)
        return words.decode()

    def forget(self) -> None:
        """Forget errors: the next call begins with a device that works."""
        self.failure = None
        self._code.cuda_host_forget()

    def variable_at(self, address: int) -> tuple[str, int] | None:
        """Return the device's variable at an address that the host was given, and the offset."""
        for start, (name, nbytes) in self._known_variables.items():
            if start <= address < start + nbytes:
                return name, address - start
        return None

    def watch(self, ranges: Sequence[tuple[int, int, Touching]]) -> None:
        """Keep the host from bytes until the next call: (first, behind the last, how touched).

        It may still read those that work does not write plainly.
        """
        table = (_Range * len(ranges))(*(_Range(a, b, int(kind)) for a, b, kind in ranges))
        self._code.cuda_host_watch(table, ctypes.c_size_t(len(ranges)))

    def host_accesses(self) -> list[HostAccess]:
        """Return the accesses that `watch` kept the host from, since the last time."""
        table = (_Touch * _MOST_TOUCHES)()
        count = int(self._code.cuda_host_touches(table, _MOST_TOUCHES))
        return [
            HostAccess(
                address=one.address, writes=bool(one.written),
                frames=tuple(one.frames[: max(0, min(_FRAMES, one.depth))]),
            )
            for one in table[:count]
        ]  # fmt: skip

    def offsets_in(self, library: Path, frames: Sequence[int]) -> list[int]:
        """Return the offsets of those code addresses that lie in a library, the innermost first."""
        found, process = [], ctypes.CDLL(None)
        for index, address in enumerate(frames):
            place = _Symbol()
            known = process.dladdr(ctypes.c_void_p(address), ctypes.byref(place))
            if known and place.file and Path(place.file.decode()) == library:
                # All but the innermost are where calls return to: behind the line that called.
                found.append(address - int(place.base) - (index > _HANDLER_FRAMES))
        return found

    def _entry(self, address: int) -> tuple[str, str, Function] | None:
        """Return name, PTX and declaration of the kernel at an address of the host's code."""
        found = _holder(self._functions, address)
        if found is None:
            return None
        entry = self._executor.module(found[1]).functions.get(found[0])
        return None if entry is None or not entry.entry else (*found, entry)

    @_answers(_INT, ctypes.POINTER(_LaunchCall), failing=LAUNCH_FAILURE)
    def _launch(self, called: Any) -> int:
        call = called[0]
        found = self._entry(call.function)
        if found is None:
            return INVALID_FUNCTION
        self._issued += 1
        name, ptx, entry = found
        grid, block, cluster = (
            (int(call.extents[i]), int(call.extents[i + 1]), int(call.extents[i + 2]))
            for i in (0, 3, 6)
        )
        how = How(
            stream=call.stream, place=_place(call.file, call.line),
            cooperative=bool(call.flags & _COOPERATIVE),
            programmatic=bool(call.flags & _PROGRAMMATIC),
            may_wait=bool(call.may_wait) and self._resumes is not None,
        )  # fmt: skip
        asked = HostLaunch(
            ptx=ptx, kernel=name, grid=grid, block=block, cluster=cluster, shared_bytes=call.shared,
            how=how,
        )  # fmt: skip
        static = static_shared_bytes(self._executor.module(ptx), entry)
        refused = limits.refusal(
            plain_name(name), entry.directives, grid=grid, block=block, cluster=cluster,
            static_bytes=static, dynamic_bytes=call.shared, arch=self._arch,
            allowed_bytes=self._allowed(call.function, static),
            cooperative_registers=_REGISTERS if how.cooperative else None,
        )  # fmt: skip
        if refused is not None:
            self._executor.refused(asked, refused.text)
            return _ERRORS[refused.limit]
        places = (ctypes.c_void_p * len(entry.params)).from_address(call.arguments or 1)
        values = tuple(
            ctypes.string_at(place, max(1, one.count) * size_of(one.type)) if place else b""
            for place, one in zip(places, entry.params, strict=True)
        )
        return self._executor.launch(replace(asked, arguments=values))

    @_answers(None, _POINTER, _SIZE, _INT, _NUMBER)
    def _allocated(self, base: int, nbytes: int, kept: int, stream: int) -> None:
        self._executor.allocated(base, nbytes, kept=Kept(kept), stream=stream)

    @_answers(None, _POINTER, _NUMBER, _TEXT, _TEXT, _INT)
    def _freed(self, base: int, stream: int, api: bytes, file: bytes | None, line: int) -> None:
        place = _place(file, line)
        where = f" at {place.file}:{place.line}" if place.line else ""
        self._executor.freed(base, stream=stream, how=f"freed by {api.decode()}{where}")

    @_answers(None, ctypes.POINTER(_Transfer))
    def _transferred(self, transfer: Any) -> None:
        one = transfer[0]
        self._executor.moved(
            Moved(
                target=one.to, source=one.from_, width=one.width, rows=one.rows,
                target_pitch=one.to_pitch, source_pitch=one.from_pitch, stream=one.stream,
                api=one.api.decode(), place=_place(one.file, one.line),
                to_host=bool(one.to_host), host_waits=bool(one.host_waits),
            )
        )  # fmt: skip

    @_answers(None, _INT, _NUMBER, _NUMBER)
    def _ordered(self, what: int, first: int, second: int) -> None:
        kind = _Ordered(what)
        for one in self.orders:
            _put_in_order(one, kind, first, second)
        if kind is _Ordered.HOST_FUNCTION:
            self._executor.waited(first if second else 0)
        elif kind in _HOST_WAITS:
            self._executor.waited(None)

    @_answers(None, _INT, _INT, _TEXT, _TEXT, _INT)
    def _noted(self, what: int, error: int, text: bytes, file: bytes | None, line: int) -> None:
        self._executor.noted(Noted(what), error, text.decode(), _place(file, line))

    @_answers(_INT, _POINTER, ctypes.POINTER(_INT), _INT, failing=-1, alone=False)
    def _sizes(self, function: int, sizes: Any, most: int) -> int:
        """Give the bytes of a kernel's parameters; return how many there are, or -1."""
        found = self._entry(function)
        if found is None or len(found[2].params) > most:
            return -1
        for index, one in enumerate(found[2].params):
            sizes[index] = max(1, one.count) * size_of(one.type)
        return len(found[2].params)

    @_answers(_POINTER, _POINTER, ctypes.POINTER(_SIZE), alone=False)
    def _symbol(self, address: int, nbytes: Any) -> int | None:
        found = _holder(self._variables, address)
        if found is None:
            return None
        name, ptx = found
        module = self._executor.module(ptx)
        memory = module_memory(module, build(module, module.entries[0]))[name]
        nbytes[0] = memory.nbytes
        address = int(memory.ctypes.data)
        self._known_variables[address] = name, memory.nbytes
        return address

    @_answers(_INT, _POINTER, ctypes.POINTER(_INT), failing=INVALID_FUNCTION, alone=False)
    def _attributes(self, function: int, values: Any) -> int:
        found = self._entry(function)
        if found is None:
            return INVALID_FUNCTION
        _, ptx, entry = found
        static = static_shared_bytes(self._executor.module(ptx), entry)
        values[0] = static
        values[1] = _most_threads(entry)
        values[2] = _REGISTERS
        values[5] = limits.chip(self._arch).shared
        values[6] = self._allowed(function, static)
        return SUCCESS

    @_answers(_INT, _POINTER, _INT, _SIZE, failing=0, alone=False)
    def _resident(self, function: int, threads: int, dynamic: int) -> int:
        found = self._entry(function)
        if found is None:
            return 0
        _, ptx, entry = found
        return limits.resident_blocks(
            threads=threads, static_bytes=static_shared_bytes(self._executor.module(ptx), entry),
            dynamic_bytes=dynamic, registers=_REGISTERS, arch=self._arch,
            most_threads=_most_threads(entry),
        )  # fmt: skip

    @_answers(_INT, ctypes.POINTER(Texels), failing=INVALID_VALUE, alone=False)
    def _textured(self, texels: Any) -> int:
        return self._executor.textured(texels[0])

    @_answers(None, _NUMBER, alone=False)
    def _untextured(self, handle: int) -> None:
        self._executor.untextured(handle)

    @_answers(_INT, _NUMBER, _INT, failing=LAUNCH_FAILURE)
    def _resume(self, token: int, last: int) -> int:
        assert self._resumes is not None
        return self._resumes(token, last=bool(last))

    @_answers(_INT, _NUMBER, _INT, failing=LAUNCH_FAILURE, alone=False)
    def _settle(self, what: int, how: int) -> int:
        assert self._settles is not None
        device, last = self.peers.current(), not has_other_threads()
        while True:
            with self.lock:
                code, issued = self._settles(what, Settle(how), device, last=last), self._issued
            if code != STILL:
                return code
            until = time.monotonic() + _OTHERS_S
            while self._issued == issued and time.monotonic() < until:
                time.sleep(_LOOK_S)
            last = self._issued == issued

    def drain(self) -> None:
        """Bring everything to its end that waits: nobody is left who could help it."""
        self._code.cuda_host_drain()

    def _allowed(self, function: int, static_bytes: int) -> int:
        """Return the dynamic shared memory that a launch of a kernel may have now, in bytes."""
        place = bisect.bisect_right(self._functions, function, key=lambda row: row[0]) - 1
        start = ctypes.c_void_p(self._functions[place][0])
        asked = int(self._code.cuda_host_dynamic_shared(start))
        return limits.default_dynamic_bytes(static_bytes) if asked == _NO_LIMIT else asked


_HOST_WAITS = (_Ordered.HOST_WAITS_STREAM, _Ordered.HOST_WAITS_EVENT, _Ordered.HOST_WAITS_ALL)


def _put_in_order(order: Order, what: _Ordered, first: int, second: int) -> None:
    match what:
        case _Ordered.CREATED:
            order.create(first, blocking=not second & 1, device=second >> 1)
        case _Ordered.DESTROYED:
            pass  # what it was given is still under way
        case _Ordered.RECORDED:
            order.record(first, second)
        case _Ordered.WAITS_EVENT:
            order.wait_event(first, second)
        case _Ordered.WAITS_STREAM:
            order.wait_stream(first, second)
        case _Ordered.STEPPED:
            order.operation(first)
        case _Ordered.HOST_FUNCTION:
            if second:
                order.operation(first)
        case _Ordered.HOST_WAITS_STREAM:
            order.host_waits_stream(first)
        case _Ordered.HOST_WAITS_EVENT:
            order.host_waits_event(first)
        case _Ordered.HOST_WAITS_ALL:
            order.host_waits_all()


def _most_threads(entry: Function) -> int:
    bound = entry.directives.get("maxntid")
    return math.prod(bound) if bound else limits.MOST_THREADS


def _place(file: bytes | None, line: int) -> Place:
    return Place(file=file.decode(errors="replace") if file else "", line=int(line))


def _holder(rows: Sequence[tuple[int, int, str, str]], address: int) -> tuple[str, str] | None:
    """Return name and PTX of the row that holds an address."""
    place = bisect.bisect_right(rows, address, key=lambda row: row[0]) - 1
    if place < 0 or address > rows[place][1]:
        return None
    return rows[place][2], rows[place][3]


def static_shared_bytes(module: Module, entry: Function) -> int:
    """Return the bytes of shared memory that a kernel declares, and that it or what it calls names.

    What other kernels of its module name alone is no memory of this one.
    """
    known = _STATIC.setdefault(module, {})
    if entry.name not in known:
        seen, waiting = {entry.name}, [entry]
        found: dict[tuple[str, str], Declaration] = {}
        while waiting:
            function = waiting.pop()
            found |= {(function.name, one.name): one for one in function.variables}
            for symbol in symbols_in(function.body):
                called = module.functions.get(symbol.name)
                if called is not None and called.name not in seen:
                    seen.add(called.name)
                    waiting.append(called)
                elif symbol.name in module.variables:
                    found["", symbol.name] = module.variables[symbol.name]
        shared = [one for one in found.values() if one.space == "shared" and not one.extern]
        known[entry.name] = sum(max(0, one.count) * size_of(one.type) for one in shared)
    return known[entry.name]
