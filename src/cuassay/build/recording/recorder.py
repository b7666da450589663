"""Keeps launches that a GPU executes: what they began on, and what they left.

Around every launch everything else is waited for, so that memory before and after is that of
this launch alone. A launch that cannot be kept runs as it would have, and the recording says
which and why. What a launch reaches are the allocations of its arguments, and those that
addresses stored in them lie in: tables of pointers.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cuassay.build.recording.gpu_memory import Allocation, TorchMemory
from cuassay.build.recording.unwritten import unwritten
from cuassay.errors import MissingToolError
from cuassay.model.recording import RecordedLaunch, Recording, Region

_ADDRESSES = 4096  # stored in one allocation that are looked up
_TEXT, _SOURCES, _NOTES = 300, 64, 256
Dim3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLaunch:
    """One launch as whoever intercepts it sees it.

    `tensors` are those that arguments point to, by name; `scratch` are stand-ins, on the host,
    for memory that the launcher adds on its own: unwritten, and nobody's result. `variables` are
    what those of the module hold before the launch, by name.
    """

    ptx: str
    kernel: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    arguments: Sequence[bytes]
    cluster: Dim3 = (1, 1, 1)
    tensors: Sequence[tuple[str, Any]] = ()
    scratch: Sequence[Any] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    assumes: str = ""
    variables: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which launches are kept, and how much of them.

    `kernels` are names or shell patterns, none for all; `skip` launches of those are passed
    over, then `most` kept, with `max_bytes` of different memory in all. `outcome` keeps what
    they left as well. `pattern` marks unwritten memory; a launch that takes longer than
    `limit_s` is saved while it is waited for.
    """

    kernels: tuple[str, ...] = ()
    most: int = 64
    skip: int = 0
    max_bytes: int = 1 << 30
    outcome: bool = True
    pattern: bytes = b""
    limit_s: float = 60.0


class LaunchRecorder:
    """The launches of one recording; safe to call from any thread.

    `save` is called with the recording so far where the process may not live to the end: a
    launch that failed, or one that does not end.
    """

    def __init__(
        self, wish: Wish, memory: TorchMemory, *, save: Callable[[Recording], None] | None = None
    ) -> None:
        self._wish, self._memory, self._save = wish, memory, save
        self._lock = threading.RLock()
        self._paused = 0
        self._seen = 0
        self._bytes = 0
        self._blobs: dict[bytes, bytes] = {}
        self._modules: dict[str, int] = {}
        self._launches: list[RecordedLaunch] = []
        self._sources: dict[str, str] = {}
        self._left_out: Counter[tuple[str, str]] = Counter()
        self._missed = 0  # launches that are not kept at all

    @property
    def pattern(self) -> bytes:
        """The pattern that unwritten memory is known by; empty where it is not looked for."""
        return self._wish.pattern

    @property
    def kept(self) -> int:
        """How many launches were kept so far."""
        return len(self._launches)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let launches pass unseen in this block: those of a benchmark."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def launch(self, kernel: str, describe: Callable[[], SeenLaunch], go: Callable[[], Any]) -> Any:
        """Do a launch, and keep it where it is wanted and can be kept. Raises what `go` does."""
        with self._lock:
            place = self._begun(kernel, describe) if self._wanted(kernel) else None
            if place is None:
                return go()
            try:
                returned = go()
                limit_s = self._wish.limit_s
                # One that may never end is saved, so that whoever ends the process keeps it.
                late = f"it had not ended after {limit_s:g} s"
                self._memory.wait(limit_s=limit_s, late=lambda: self._failed(place, late))
            except BaseException as error:  # also who waits no longer for one that hangs
                self._failed(place, f"{type(error).__name__}: {error}".removesuffix(": "))
                raise
            launch = replace(self._launches[place.number], failure="")
            after = None
            try:
                if self._wish.outcome:
                    after = {
                        number: self._blob(self._memory.read(one))
                        for number, one in enumerate(place.allocations)
                        if not one.private
                    }
            except Exception as error:
                self._leave_out(launch.kernel, f"what it left was not kept: {error}")
            self._launches[place.number] = replace(launch, after=after)
            return returned

    def pass_over(self, kernel: str, why: str) -> None:
        """Count a launch that cannot be described, and say why."""
        with self._lock:
            if not self._paused:
                self._missed += 1
                self._leave_out(kernel, why)

    def recording(self) -> Recording:
        """Return what was kept so far."""
        with self._lock:
            return Recording(
                modules=tuple(self._modules),
                launches=tuple(self._launches),
                sources=dict(self._sources),
                device=self._memory.device,
                notes=tuple(self.notes()),
                left_out=self._missed,
            )

    def notes(self) -> Iterator[str]:
        """Yield, one sentence each, which launches were not kept and why."""
        for (kernel, why), count in self._left_out.items():
            launches = "1 launch" if count == 1 else f"{count} launches"
            yield f"{launches} of '{kernel}': {why}"

    def _leave_out(self, kernel: str, why: str) -> None:
        key = kernel[:_TEXT], why[:_TEXT]
        known = key in self._left_out or len(self._left_out) < _NOTES
        self._left_out[key if known else ("others", "for reasons of their own")] += 1

    def _wanted(self, kernel: str) -> bool:
        wish = self._wish
        if self._paused or (
            wish.kernels and not any(fnmatch.fnmatchcase(kernel, one) for one in wish.kernels)
        ):
            return False
        self._seen += 1
        if self._seen <= wish.skip:
            return False
        if len(self._launches) >= wish.most:
            self._missed += 1
            self._leave_out(kernel, f"{wish.most} were kept before, which is the most asked for")
            return False
        if self._memory.capturing():
            self._missed += 1
            self._leave_out(kernel, "captured in a CUDA graph, whose launches are not recorded")
            return False
        return True

    def _begun(self, kernel: str, describe: Callable[[], SeenLaunch]) -> _Place | None:
        """Keep a launch about to run; None, with a note, where that cannot be done."""
        held = len(self._blobs)
        try:
            self._memory.settle()
            return self._keep(describe())
        except Exception as error:  # the program's launch must not fail for ours
            while len(self._blobs) > held:
                self._bytes -= len(self._blobs.popitem()[1])
            own = isinstance(error, MissingToolError)
            self._missed += 1
            self._leave_out(kernel, str(error) if own else f"{type(error).__name__}: {error}")
            return None

    def _keep(self, seen: SeenLaunch) -> _Place:
        allocations, contents, written = [], {}, {}
        for place, (allocation, data) in enumerate(self._reached(seen)):
            allocations.append(allocation)
            contents[place] = self._blob(data)
            blank = np.ones(data.size, np.bool_) if allocation.private else None
            flags = blank if blank is not None else unwritten(data, self._wish.pattern)
            if flags is not None:
                written[place] = np.packbits(~flags, bitorder="little").tobytes()
        names = _distinct([allocation.name for allocation in allocations])
        regions = tuple(
            Region(name=name, base=one.base, nbytes=one.nbytes, dtype=one.dtype)
            for name, one in zip(names, allocations, strict=True)
        )
        for name, text in list(seen.sources.items())[:_SOURCES]:
            self._sources.setdefault(name, text)
        self._launches.append(
            RecordedLaunch(
                module=self._modules.setdefault(seen.ptx, len(self._modules)),
                kernel=seen.kernel,
                grid=seen.grid,
                block=seen.block,
                cluster=seen.cluster,
                shared_bytes=seen.shared_bytes,
                arguments=tuple(seen.arguments),
                regions=regions,
                contents=contents,
                written=written,
                assumes=seen.assumes,
                variables=dict(seen.variables),
            )
        )
        return _Place(len(self._launches) - 1, tuple(allocations))

    def _reached(self, seen: SeenLaunch) -> Iterator[tuple[Allocation, np.ndarray[Any, Any]]]:
        """Yield every allocation that a launch reaches, with its bytes."""
        found = [self._memory.of(tensor, name) for name, tensor in seen.tensors]
        found += [self._memory.of(one, "scratch", private=True) for one in seen.scratch]
        words = [  # of structures by value too
            int.from_bytes(one[at : at + 8], "little")
            for one in seen.arguments
            for at in range(0, len(one) - 7, 8)
        ]
        pending = [one for one in found if one is not None]
        known: list[Allocation] = []
        while pending or words:
            if not pending:
                address = words.pop()
                inside = any(one.base <= address < one.end for one in known)
                target = None if inside else self._memory.at(address)
                pending += [target] if target is not None else []
                continue
            one = pending.pop(0)
            if any(one.base < other.end and other.base < one.end for other in known):
                continue
            known.append(one)
            if one.nbytes > self._wish.max_bytes:
                raise MissingToolError(
                    _too_much(f"'{one.name}' ({one.nbytes:,} bytes)", self._wish)
                )
            data = self._memory.read(one)
            # Addresses of torch's memory may lie in memory too: tables of pointers.
            low, high = self._memory.span()
            numbers = data[: data.size & ~7].view(np.uint64)
            hits = numbers[(numbers >= low) & (numbers < high)]
            words += [int(word) for word in np.unique(hits)[:_ADDRESSES]]
            yield one, data

    def _blob(self, data: Any) -> bytes:
        """Return bytes that are held once however often they come."""
        key = hashlib.blake2b(data, digest_size=32).digest()
        if key not in self._blobs:
            if self._bytes + data.size > self._wish.max_bytes:
                raise MissingToolError(_too_much("all memory kept", self._wish))
            self._blobs[key] = data.tobytes()
            self._bytes += data.size
        return self._blobs[key]

    def _failed(self, place: _Place, why: str) -> None:
        self._launches[place.number] = replace(self._launches[place.number], failure=why[:_TEXT])
        if self._save is not None:
            self._save(self.recording())


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a launch stands in the recording, and the allocations that it reaches."""

    number: int
    allocations: tuple[Allocation, ...]


def _distinct(names: Sequence[str]) -> Iterator[str]:
    """Yield names with a number behind those that came before."""
    times: Counter[str] = Counter()
    for name in names:
        times[name] += 1
        yield name if times[name] == 1 else f"{name} ({times[name]})"


def _too_much(what: str, wish: Wish) -> str:
    return (
        f"{what} would be more than the {wish.max_bytes:,} bytes allowed; raise max_bytes, record "
        "fewer launches, or a smaller problem"
    )
