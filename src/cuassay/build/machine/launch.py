"""Launches on a machine without a GPU: PTX executed by cuassay's PTX machine on CPU tensors.

This runs in the candidate's process and computes its numbers, nothing more: the machine's
judgements on a launch are made elsewhere, from what `recorded` ships. See docs/machine.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cuassay.build.cuda.driver import NOT_FOUND, DriverError, parameter_bytes
from cuassay.build.cuda.tile_maps import Encoded, machine_bytes
from cuassay.build.machine.operations import (
    argument_of,
    bytes_of,
    candidate_line,
    is_view,
    place_of,
    written_tensors,
)
from cuassay.build.untraced import untraced
from cuassay.dispatch_modes import tensors_in
from cuassay.errors import MissingToolError, UncoveredError
from cuassay.model.recording import (
    OPERATIONS,
    CallerOrder,
    RecordedLaunch,
    RecordedOperation,
    RecordedTensor,
    Recording,
    Region,
)

if TYPE_CHECKING:
    from cuassay.build.machine.memory import StorageArena
    from cuassay.build.machine.streams import CallStreams
    from ptxsan.findings import MachineReport
    from ptxsan.syntax import Module

Dim3 = tuple[int, int, int]
_RECORDED_BYTES = 1 << 30
_REFUSED = 64  # launches of one call
_KNOWN_BYTES = 1 << 24  # of an allocation of an outline that holds what a launch would find
_VARIABLES_BYTES = 1 << 22  # of a module's own variables, kept with every launch
_LIMIT_S = 50.0  # of one call: a little less than a step may take
_FUEL_BESIDE_RANKS = 16  # iterations of a loop in one turn of a block
# Of blocks, until other ranks have one: a loop that counts while it waits never stands still.
_TURNS_BESIDE_RANKS = 256
# A late rank's kernel stops so often, at barriers and in loops, and so long: meanwhile another rank
# ends its call and begins the next one.
_LATE_PAUSES, _LATE_PAUSE_S = 24, 0.05
# Between two looks at memory of other ranks. While nothing changes each is a little longer, about a
# twentieth of what was waited: a rank that waits for long takes so little of a processor that it is
# told from one that computes, and one that waits shortly goes on at once.
_LEAST_PAUSE_S, _MOST_PAUSE_S, _PAUSE_GROWS = 0.0002, 0.1, 1.05
_FATAL = {
    "deadlock": "the launch timed out and was terminated",
    "trap": "unspecified launch failure",
    "assert": "device-side assert triggered",
}

# An address so far from every allocation is nobody's, and a GPU says so of the launch.
_OUTSIDE, _NOWHERE_BYTES = ("out-of-bounds", "address-overflow"), 1 << 34


# The file (by its descriptor) that ranks with symmetric memory lock while a kernel runs in it.
lock_of_ranks: int | None = None
is_late = False  # whether this process is a rank that the others are ahead of


class LaunchFault(RuntimeError):
    """A launch that no GPU would have ended normally; worded as CUDA words it."""


@dataclass(slots=True)
class _OtherRanks:
    """What a launch waits with whose blocks all wait for memory: other ranks may change it.

    It never gives up. Who started the ranks sees that none of them goes on, and ends them. With
    `pauses` the launch is that of a late rank: it stops after every turn, so often.
    """

    lock: int
    pauses: int = 0
    waited: bool = False
    beside: bool = True
    _pause_s: float = _LEAST_PAUSE_S

    @property
    def turns(self) -> int:
        """After how many turns of blocks others have one."""
        return 1 if self.pauses else _TURNS_BESIDE_RANKS

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let kernels of the other ranks wait meanwhile."""
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def wait(self, *, moved: bool) -> bool:
        """Give way to other processes, the longer the longer nothing changes."""
        self.waited = True
        if moved and self.pauses:
            self.pauses -= 1
            time.sleep(_LATE_PAUSE_S)
            return True
        longer_s = min(_PAUSE_GROWS * self._pause_s, _MOST_PAUSE_S)
        self._pause_s = _LEAST_PAUSE_S if moved else longer_s
        time.sleep(self._pause_s)
        return True


@dataclass(slots=True)
class MachineRecorder:
    """Keeps launches with the memory that they started from, while `on`.

    With `outline` launches are kept without memory, and are not executed; with `operations` those
    of torch are kept among them. `holds` says of an address of an outline whether what lies there
    is real: it is kept then, where it is small.
    """

    on: bool = False
    outline: bool = False
    operations: bool = False
    modules: dict[str, int] = field(default_factory=dict)
    launches: list[RecordedLaunch] = field(default_factory=list)
    refused: list[RecordedLaunch] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    holds: Callable[[int], bool] | None = None
    _left: dict[int, bytes] = field(default_factory=dict)  # base -> digest after a launch
    _bytes: int = 0
    _operations: list[RecordedOperation] = field(default_factory=list)

    def start(
        self,
        *,
        outline: bool = False,
        operations: bool = False,
        holds: Callable[[int], bool] | None = None,
    ) -> None:
        """Forget what was recorded and record from now on."""
        self.on, self.outline, self.operations = True, outline, operations
        self.holds = holds
        self.modules, self.launches, self._left, self._bytes = {}, [], {}, 0
        self._operations, self.refused = [], []

    @property
    def keeps_operations(self) -> bool:
        """Whether operations of torch are kept now."""
        return self.on and self.operations

    def before_operation(
        self, arena: StorageArena, args: Any, kwargs: Mapping[str, Any]
    ) -> dict[int, tuple[bytes, bytes]]:
        """Return memory that an operation may read and that is not what was left there.

        By the addresses of allocations: their bytes, and the flags of what was ever written.
        """
        found: dict[int, tuple[bytes, bytes]] = {}
        for tensor in tensors_in((args, kwargs)):
            arena.add(tensor)
            held = arena.held(tensor)
            if held is None or self._left.get(held.base) == _digest(held.buffer):
                continue
            flags = held.buffer.initialised
            partly = flags is not None and not flags.all()
            found[held.base] = held.buffer.data.tobytes(), _packed(flags) if partly else b""
        return found

    def after_operation(
        self,
        arena: StorageArena,
        before: Mapping[int, tuple[bytes, bytes]],
        func: Any,
        args: Any,
        kwargs: Mapping[str, Any],
        made: Any,
    ) -> None:
        """Keep an operation of torch that has run, unless it is a view."""
        if is_view(func._schema, args, kwargs, made):
            return
        written = written_tensors(func._schema, args, kwargs)
        results = list({id(one): one for one in (*tensors_in(made), *written)}.values())
        places = [place_of(one) for one in results]
        left = tuple(bytes_of(one) for one in results)
        self._add_bytes(sum(map(len, left)) + sum(len(data) for data, _ in before.values()))
        for base in {*before, *(one.base for one in map(arena.held, results) if one is not None)}:
            region = arena.region_at(base)
            if region is not None:
                self._left[base] = _digest(region.buffer)
        if len(self._operations) == OPERATIONS:
            raise MissingToolError(
                f"the call runs more than {OPERATIONS:,} operations of torch, which are not kept"
            )
        plain = all(isinstance(one, RecordedTensor) for one in places)
        self._operations.append(
            RecordedOperation(
                name=func._schema.name + "." + func._overloadname,
                launches=len(self.launches),
                arguments=tuple(argument_of(one) for one in args),
                named={name: argument_of(one) for name, one in kwargs.items()},
                results=tuple(one for one in places if isinstance(one, RecordedTensor)),
                left=left if plain else (),
                contents={base: data for base, (data, _) in before.items()},
                written={base: flags for base, (_, flags) in before.items() if flags},
                line=candidate_line(),
            )
        )

    def before(self, ptx: str, launch: RecordedLaunch, arena: StorageArena) -> None:
        """Keep a launch about to run: what of its memory is new since the last one."""
        contents: dict[int, bytes] = {}
        written: dict[int, bytes] = {}
        for place, region in enumerate(arena.regions):
            if self._left.get(region.base) == _digest(region.buffer):
                continue
            contents[place] = region.buffer.data.tobytes()
            flags = region.buffer.initialised
            if _partly_unwritten(region.buffer):
                written[place] = _packed(flags)
        self._add_bytes(sum(map(len, contents.values())))
        self.keep(ptx, _replaced(launch, {"contents": contents, "written": written}))

    def known(self, arena: StorageArena) -> dict[int, bytes]:
        """Return the bytes of what is real in an outline, by the places of regions."""
        if self.holds is None:
            return {}
        return {
            place: region.buffer.data.tobytes()
            for place, region in enumerate(arena.regions)
            if region.buffer.data.nbytes <= _KNOWN_BYTES
            and not region.pending
            and not _partly_unwritten(region.buffer)
            and self.holds(region.base + region.zone_bytes)
        }

    def _add_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes > _RECORDED_BYTES:
            raise MissingToolError(
                f"the launches' memory is more than {_RECORDED_BYTES >> 20} MiB, which is not "
                "recorded; use a smaller workload"
            )

    def keep(self, ptx: str, launch: RecordedLaunch) -> None:
        """Keep a launch of a module."""
        number = self.modules.setdefault(ptx, len(self.modules))
        self.launches.append(_replaced(launch, {"module": number}))

    def keep_refused(self, ptx: str, launch: RecordedLaunch) -> None:
        """Keep a launch that CUDA would refuse, where launches are kept and not run."""
        if self.on and self.outline and len(self.refused) < _REFUSED:
            number = self.modules.setdefault(ptx, len(self.modules))
            self.refused.append(_replaced(launch, {"module": number}))

    def note_results_read(self) -> None:
        """Note that host code read what launches that were not run would have written."""
        if self.on and self.launches:
            self.launches[-1] = _replaced(self.launches[-1], {"results_read": True})

    def keep_orders(self, orders: Mapping[int, CallerOrder]) -> None:
        """Keep which callers the launches of these numbers are in order for."""
        for number, order in orders.items():
            self.launches[number] = _replaced(self.launches[number], {"order": order})

    def keep_variables(self, variables: Mapping[str, bytes]) -> None:
        """Keep the values of a module's own variables with the launch that is about to run."""
        if variables:
            self.launches[-1] = _replaced(self.launches[-1], {"variables": dict(variables)})

    def after(self, arena: StorageArena) -> None:
        """Remember what a launch left behind."""
        self._left = {region.base: _digest(region.buffer) for region in arena.regions}

    def recording(self) -> Recording:
        """Return what was recorded since `start`."""
        return Recording(
            modules=tuple(self.modules),
            launches=tuple(self.launches),
            sources=dict(self.sources),
            operations=tuple(self._operations),
            refused=tuple(self.refused),
        )


@dataclass(slots=True)
class MachineLauncher:
    """Runs launches one after another on an arena's memory; modules live as long as it does."""

    arena: StorageArena
    recorder: MachineRecorder = field(default_factory=MachineRecorder)
    _modules: dict[str, Module] = field(default_factory=dict)
    _functions: list[tuple[str, str]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _until: float = 0.0  # when the call under way has taken too long
    streams: CallStreams | None = None  # where host code has streams of its own
    failure: Exception | None = None  # what cannot be raised through native code

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Raise what went wrong in the machine below native code, after the block that ran it."""
        self.failure = None
        try:
            yield
        except Exception:
            if self.failure is None:
                raise
        if self.failure is not None:
            raise self.failure

    def begin_call(self) -> None:
        """Begin a call, on the streams that host code has."""
        self.allow_time()
        if self.streams is not None:
            self.streams.begin()

    def allow_time(self) -> None:
        """Give the launches from now on the seconds of one call."""
        self._until = time.monotonic() + _LIMIT_S

    def end_call(self) -> None:
        """Say of what was recorded what only the end tells: its order, and results read."""
        if self.streams is not None:
            self.recorder.keep_orders(self.streams.end())
        if self.arena.results_read:
            self.recorder.note_results_read()

    def function(self, cubin: bytes, name: str) -> int:
        """Parse PTX (once) and return a handle of its kernel `name`. Raises DriverError."""
        text = cubin.decode()
        module = self.module(text)
        if name not in module.entries:
            why = f"named symbol not found: {name}; the module has {module.entries}"
            raise DriverError(why, status=NOT_FOUND)
        if (text, name) not in self._functions:
            self._functions.append((text, name))
        return self._functions.index((text, name))

    def launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        *,
        shared_bytes: int,
        stream: int,
        arguments: Sequence[Any],
        cluster: Dim3 = (1, 1, 1),
    ) -> None:
        """Run one launch of a raw kernel to its end; arguments are ctypes values."""
        text, name = self._functions[function]
        self(
            text, name, grid=grid, block=block, shared_bytes=shared_bytes,
            arguments=parameter_bytes(self.module(text).functions[name], arguments),
            cluster=cluster,
        )  # fmt: skip

    def tensor_map(self, one: Encoded) -> bytes:
        """Return the machine's 128 bytes of a tensor map. Raises BuildError."""
        return machine_bytes(one)

    @untraced()
    def __call__(
        self,
        ptx: str,
        entry: str,
        *,
        grid: Dim3,
        block: Dim3,
        shared_bytes: int,
        arguments: Sequence[bytes],
        cluster: Dim3 = (1, 1, 1),
        tensors: Sequence[Any] = (),
        assumes: str = "",
    ) -> None:
        """Run one launch to its end; `assumes` is kept with it (RecordedLaunch).

        Raises LaunchFault, MissingToolError.
        """
        with self._lock:
            for tensor in tensors:
                self.arena.add(tensor)
            outline = self.recorder.on and self.recorder.outline
            # Before the regions that are recorded are listed.
            self.arena.recall(arguments, holds=self.recorder.holds if outline else None)
            regions = tuple(
                Region(
                    name=item.buffer.name,
                    base=item.base,
                    nbytes=item.buffer.data.nbytes,
                    unwritten=outline and _partly_unwritten(item.buffer),
                    changed=outline and item.changed,
                )
                for item in self.arena.regions
            )
            plain = RecordedLaunch(
                module=0,
                kernel=entry,
                grid=grid,
                block=block,
                cluster=cluster,
                shared_bytes=shared_bytes,
                arguments=tuple(arguments),
                regions=regions,
                results_read=outline and self.arena.results_read,
                assumes=assumes,
            )
            if outline:
                known = self.recorder.known(self.arena)
                self.recorder.keep(ptx, _replaced(plain, {"known": known}) if known else plain)
                self.recorder.keep_variables(self._variables(ptx, entry))
                self.arena.postpone(plain.arguments)
                return
            if self.recorder.on:
                self.recorder.before(ptx, plain, self.arena)
                self.recorder.keep_variables(self._variables(ptx, entry))
            raise_fault(entry, self._run(ptx, plain))
            if self.recorder.on:
                self.recorder.after(self.arena)

    def _variables(self, ptx: str, entry: str) -> dict[str, bytes]:
        """Return the values of a module's own variables: what the host or a launch left there."""
        from ptxsan.errors import MachineError
        from ptxsan.globals import module_memory
        from ptxsan.program import build

        module = self.module(ptx)
        if not any(one.space in ("global", "const") for one in module.variables.values()):
            return {}
        try:
            memory = module_memory(module, build(module, entry))
        except MachineError:  # the launch itself will say so
            return {}
        if sum(data.nbytes for data in memory.values()) > _VARIABLES_BYTES:
            return {}
        return {name: data.tobytes() for name, data in memory.items()}

    def _run(self, ptx: str, launch: RecordedLaunch) -> MachineReport:
        from ptxsan.errors import LaunchError, MachineError
        from ptxsan.options import Options
        from ptxsan.run import run

        left_s = self._until - time.monotonic() if self._until else _LIMIT_S
        if left_s <= 0:
            raise not_covered(launch.kernel, f"the call's launches take more than {_LIMIT_S:g} s")
        # Numbers alone are wanted here: what else can be said is said by the judge's own run.
        options = Options(shadow=False, races=False, optimise=False, limit_s=left_s)
        others = None
        if lock_of_ranks is not None:  # who waits for another rank notes it soon
            options = replace(options, fuel=1 if is_late else _FUEL_BESIDE_RANKS)
            others = _OtherRanks(lock_of_ranks, pauses=_LATE_PAUSES if is_late else 0)
        try:
            return run(
                self.module(ptx),
                prepared(launch, self.arena),
                options=options,
                meanwhile=others,
            )
        except LaunchError as error:
            raise LaunchFault(f"CUDA error: invalid configuration argument: {error}") from None
        except MachineError as error:
            raise not_covered(launch.kernel, str(error)) from error

    def module(self, text: str) -> Module:
        """Return a parsed module, always the same. Raises MissingToolError."""
        from ptxsan.errors import MachineError
        from ptxsan.parser import parse

        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self._modules:
            try:
                self._modules[key] = parse(text)
            except MachineError as error:
                raise not_covered("a module", str(error)) from error
        return self._modules[key]


def prepared(launch: RecordedLaunch, arena: StorageArena) -> Any:
    """Return a launch as the machine takes it, the addresses of its arguments resolved."""
    from ptxsan.host.memory import pointers_in_structures
    from ptxsan.launch import Launch
    from ptxsan.runtime.layout import T_BASE, T_BYTES

    maps = {n: data for n, data in enumerate(launch.arguments) if len(data) == T_BYTES}
    over = [  # the memory that tensor maps are over
        (index, T_BASE, pointer)
        for index, data in maps.items()
        if (pointer := arena.pointer(int.from_bytes(data[T_BASE : T_BASE + 8], "little")))
    ]
    structures = [b"" if n in maps else data for n, data in enumerate(launch.arguments)]
    return Launch(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        dynamic_shared_bytes=launch.shared_bytes,
        arguments=tuple(arena.argument(data) for data in launch.arguments),
        pointers_inside=(
            *over,
            *pointers_in_structures(structures, arena.pointer),
        ),
        buffers=tuple(region.buffer for region in arena.regions),
    )


def not_covered(kernel: str, why: str) -> UncoveredError:
    """Return the error of a kernel (named, if known) that the machine cannot execute.

    No verdict follows from it.
    """
    named = f"'{kernel}'" if kernel else "a kernel"
    return UncoveredError(
        f"the PTX machine does not cover {named}: {why}; judge it on an NVIDIA GPU"
    )


def raise_fault(kernel: str, report: MachineReport) -> None:
    """Raise what CUDA would report of a launch, if anything."""
    for finding in report.findings:
        words = _FATAL.get(finding.kind.value)
        if finding.kind.value in _OUTSIDE and abs(finding.offset or 0) >= _NOWHERE_BYTES:
            words = "an illegal memory access was encountered"
        if words:
            raise LaunchFault(f"CUDA error: {words} (kernel '{kernel}': {finding.text})")
    if report.inconclusive:
        raise not_covered(kernel, report.inconclusive)


def _digest(buffer: Any) -> bytes:
    found = hashlib.blake2b(buffer.data, digest_size=16)
    if buffer.initialised is not None:
        found.update(buffer.initialised)
    return found.digest()


def _partly_unwritten(buffer: Any) -> bool:
    return buffer.initialised is not None and not buffer.initialised.all()


def _packed(flags: Any) -> bytes:
    import numpy as np

    return np.packbits(flags, bitorder="little").tobytes()


def _replaced(launch: RecordedLaunch, fields: Mapping[str, Any]) -> RecordedLaunch:
    from dataclasses import replace

    return replace(launch, **fields)
