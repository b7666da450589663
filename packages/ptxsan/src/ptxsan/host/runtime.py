"""The Python side of the CUDA runtime: what host code asks for, answered in this process."""

from __future__ import annotations

import bisect
import ctypes
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from ptxsan import limits
from ptxsan.declarations import size_of
from ptxsan.errors import MachineError
from ptxsan.globals import module_memory
from ptxsan.host.build import ANCHOR, Linked
from ptxsan.limits import Limit
from ptxsan.program import build
from ptxsan.syntax import Function, Module

Dim3 = tuple[int, int, int]
# CUDA Runtime API, enum cudaError
SUCCESS, INVALID_VALUE, INVALID_CONFIGURATION, INVALID_FUNCTION = 0, 1, 9, 98
LAUNCH_FAILURE, NOT_SUPPORTED = 719, 801
_ERRORS = {
    Limit.EXTENTS: INVALID_CONFIGURATION, Limit.THREADS: INVALID_CONFIGURATION,
    Limit.CLUSTER: INVALID_CONFIGURATION, Limit.BOUND: INVALID_VALUE,
    Limit.STATIC: INVALID_VALUE, Limit.DYNAMIC: INVALID_VALUE, Limit.SHARED: INVALID_VALUE,
}  # fmt: skip
_ARCH = 90
_REGISTERS = 32  # a thread's: what ptxas would give is not known here


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

    def launch(
        self,
        ptx: str,
        entry: str,
        *,
        grid: Dim3,
        block: Dim3,
        cluster: Dim3,
        shared_bytes: int,
        arguments: Sequence[bytes],
    ) -> int:
        """Execute a launch to its end; return CUDA's error code. May raise."""

    def allocated(self, base: int, nbytes: int, *, initialised: bool) -> None:
        """Learn of memory that the program was given."""

    def freed(self, base: int) -> None:
        """Learn that memory is gone."""

    def written(self, base: int, nbytes: int, source: int | None) -> None:
        """Learn that the host wrote memory: copied from `source`, where that is known."""

    def textured(self, texels: Texels) -> int:
        """Learn what the handle of a texture or surface means; return CUDA's error code."""

    def untextured(self, handle: int) -> None:
        """Learn that a handle means nothing any more."""


class Runtime:
    """The CUDA runtime of this process, connected to an executor.

    An exception that the executor raises ends the launch with an error code, as host code
    expects, and is kept in `failure` for who called the host code.
    """

    def __init__(
        self, library: Path, executor: Executor, *, multiprocessors: int = 4, strict: bool = False
    ) -> None:
        self.failure: BaseException | None = None
        self._executor = executor
        self._code = ctypes.CDLL(str(library))
        self._functions: list[tuple[int, int, str, str]] = []  # start, end, name, PTX
        self._variables: list[tuple[int, int, str, str]] = []
        pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        functions: tuple[tuple[Any, Callable[..., Any]], ...] = (
            (ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, size, pointer), self._launch),
            (ctypes.CFUNCTYPE(None, pointer, size, ctypes.c_int), self._allocated),
            (ctypes.CFUNCTYPE(None, pointer), self._freed),
            (ctypes.CFUNCTYPE(None, pointer, size, pointer), self._written),
            (ctypes.CFUNCTYPE(pointer, pointer, ctypes.POINTER(size)), self._symbol),
            (ctypes.CFUNCTYPE(integer, pointer, ctypes.POINTER(integer)), self._attributes),
            (ctypes.CFUNCTYPE(integer, ctypes.POINTER(Texels)), self._textured),
            (ctypes.CFUNCTYPE(None, ctypes.c_uint64), executor.untextured),
        )  # fmt: skip
        self._alive = [kind(function) for kind, function in functions]
        table = (pointer * len(functions))(*(ctypes.cast(one, pointer) for one in self._alive))
        self._code.cuda_host_connect(table, multiprocessors, _ARCH // 10, _ARCH % 10, int(strict))

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
        return code

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

    def _function(self, address: int) -> tuple[str, str] | None:
        return _holder(self._functions, address)

    def _launch(self, function: int, extents: int, shared: int, arguments: int) -> int:
        try:
            found = self._function(function)
            if found is None:
                return INVALID_FUNCTION
            name, ptx = found
            entry = self._executor.module(ptx).functions.get(name)
            if entry is None or not entry.entry:
                return INVALID_FUNCTION
            numbers = (ctypes.c_uint * 9).from_address(extents)
            grid, block, cluster = (
                (int(numbers[i]), int(numbers[i + 1]), int(numbers[i + 2])) for i in (0, 3, 6)
            )
            place = bisect.bisect_right(self._functions, function, key=lambda row: row[0]) - 1
            allowed = int(
                self._code.cuda_host_dynamic_shared(ctypes.c_void_p(self._functions[place][0]))
            )
            refused = limits.refusal(
                name, entry.directives, grid=grid, block=block, cluster=cluster,
                static_bytes=static_shared_bytes(self._executor.module(ptx), entry),
                dynamic_bytes=shared, arch=_ARCH, allowed_bytes=allowed,
            )  # fmt: skip
            if refused is not None:
                return _ERRORS[refused.limit]
            places = (ctypes.c_void_p * len(entry.params)).from_address(arguments)
            values = [
                ctypes.string_at(place, max(1, one.count) * size_of(one.type)) if place else b""
                for place, one in zip(places, entry.params, strict=True)
            ]
            return self._executor.launch(
                ptx, name, grid=grid, block=block, cluster=cluster, shared_bytes=shared,
                arguments=values,
            )  # fmt: skip
        except BaseException as error:
            self.failure = self.failure or error
            return LAUNCH_FAILURE

    def _allocated(self, base: int, nbytes: int, initialised: int) -> None:
        self._executor.allocated(base, nbytes, initialised=bool(initialised))

    def _freed(self, base: int) -> None:
        self._executor.freed(base)

    def _written(self, base: int, nbytes: int, source: int | None) -> None:
        self._executor.written(base, nbytes, source)

    def _textured(self, texels: Any) -> int:
        return self._executor.textured(texels[0])

    def _symbol(self, address: int, nbytes: Any) -> int | None:
        try:
            found = _holder(self._variables, address)
            if found is None:
                return None
            name, ptx = found
            module = self._executor.module(ptx)
            memory = module_memory(module, build(module, module.entries[0]))[name]
            nbytes[0] = memory.nbytes
            return int(memory.ctypes.data)
        except BaseException as error:
            self.failure = self.failure or error
            return None

    def _attributes(self, function: int, values: Any) -> int:
        try:
            found = self._function(function)
            if found is None:
                return INVALID_FUNCTION
            entry = self._executor.module(found[1]).functions.get(found[0])
            if entry is None:
                return INVALID_FUNCTION
            bound = entry.directives.get("maxntid")
            values[0] = static_shared_bytes(self._executor.module(found[1]), entry)
            values[1] = math.prod(bound) if bound else limits.MOST_THREADS
            values[2] = _REGISTERS
            return SUCCESS
        except MachineError as error:
            self.failure = self.failure or error
            return INVALID_FUNCTION


def _holder(rows: Sequence[tuple[int, int, str, str]], address: int) -> tuple[str, str] | None:
    """Return name and PTX of the row that holds an address."""
    place = bisect.bisect_right(rows, address, key=lambda row: row[0]) - 1
    if place < 0 or address > rows[place][1]:
        return None
    return rows[place][2], rows[place][3]


def static_shared_bytes(module: Module, entry: Function) -> int:
    """Return the bytes of shared memory that a kernel declares, of its own or of its module's."""
    own = {one.name: one for one in (*module.variables.values(), *entry.variables)}
    named = [one for one in own.values() if one.space == "shared" and not one.extern]
    return sum(max(0, one.count) * size_of(one.type) for one in named)
