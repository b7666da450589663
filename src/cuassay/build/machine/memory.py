"""CPU tensors as the global memory of the PTX machine: which storages there are, what is written.

Every storage that a call sees is an allocation of exactly its own bytes: the candidate's
arguments by name, and whatever torch makes while the call runs. Where storages have guard zones,
the zones belong to it: what a kernel does to them is for the zones' owner to see. Memory that
`torch.empty` and its like hand out counts as unwritten, byte by byte, until a torch operation or a
kernel writes it. This is bookkeeping in the candidate's process: what it says can only be in its
favour.
"""

from __future__ import annotations

import bisect
import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch.multiprocessing import reductions
from torch.overrides import TorchFunctionMode

from cuassay.build import zones
from cuassay.build.machine.operations import written_tensors
from cuassay.build.recording.unwritten import UNWRITTEN
from cuassay.dispatch_modes import UntracedMode, outside_of_compiler, tensors_in
from cuassay.model.recording import RecordedResult
from ptxsan.launch import Buffer, Pointer

_POINTER = struct.Struct("<Q")
_READS = frozenset((torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.__array__))
_LARGE_BYTES = 1 << 30
_NO_BYTES = np.zeros(0, np.uint8)


@dataclass(slots=True, eq=False)
class HeldRegion:
    """One allocation: torch's storage, if it is one, is kept alive; the machine sees `buffer`.

    The storage begins `zone_bytes` behind `base`, and ends as much before the buffer does. `given`
    are the call's arguments; `changed` are those of them that host code, or an operation of torch,
    has written to since. `pending`: it holds nothing yet of what launches that are recorded, and
    not run, write there, or what is made of that.
    """

    base: int
    storage: torch.UntypedStorage | None
    buffer: Buffer
    zone_bytes: int = 0
    given: bool = False
    changed: bool = False
    pending: bool = False

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.base + self.buffer.data.nbytes


@dataclass(frozen=True, slots=True)
class _Earlier:
    """An allocation that a call before this one saw, as long as its storage lives.

    Its bytes are not held: an array of them would keep the storage alive.
    """

    storage: Any
    name: str
    nbytes: int
    initialised: np.ndarray[Any, Any] | None
    zone_bytes: int


@dataclass(slots=True)
class StorageArena:
    """The storages of one call, by address."""

    _regions: dict[int, HeldRegion] = field(default_factory=dict)
    _count: int = 0
    _earlier: dict[int, _Earlier] = field(default_factory=dict)
    results_read: bool = False  # whether numbers were taken out of memory that is pending
    _pending: bool = False

    def clear(self) -> None:
        """Forget everything: the next call has memory of its own.

        Tensors that code which is not Python's keeps over calls are found again by `pointer`.
        """
        for base, region in self._regions.items():
            if region.storage is not None:
                # What says whether a storage lives, without keeping it alive.
                weak: Any = reductions.StorageWeakRef
                reference = weak(region.storage)
                buffer = region.buffer
                self._earlier[base] = _Earlier(
                    storage=reference,
                    name=buffer.name,
                    nbytes=buffer.data.nbytes,
                    initialised=buffer.initialised,
                    zone_bytes=region.zone_bytes,
                )
        self._regions.clear()
        self._earlier = {b: one for b, one in self._earlier.items() if not one.storage.expired()}
        self._count = 0
        self.results_read = self._pending = False

    @property
    def regions(self) -> tuple[HeldRegion, ...]:
        """Every allocation known, in the order of their addresses."""
        return tuple(self._regions[base] for base in sorted(self._regions))

    def add(self, tensor: torch.Tensor, name: str = "", *, written: bool = True) -> None:
        """Make a tensor's storage known, unless it is; a name replaces a made-up one."""
        with torch._C.DisableTorchFunction():  # a facade may say that it lies on a GPU
            self._add(tensor, name, written=written)

    def _add(self, tensor: torch.Tensor, name: str, *, written: bool) -> None:
        if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        base, size = storage.data_ptr(), storage.nbytes()
        if not size or not base:
            return
        zone = zones.bytes_at(base)
        held = self._regions.get(base - zone)
        if held is not None and held.buffer.data.nbytes == size + 2 * zone:
            held.buffer.name = name or held.buffer.name
            held.given |= bool(name)
            return
        self._count += 1
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        dtype = str(tensor.dtype).removeprefix("torch.")
        made = name or f"allocation {self._count} ({dtype} {shape})"
        flags = None
        if not written and size < _LARGE_BYTES:
            flags = np.zeros(size + 2 * zone, dtype=np.bool_)
        elif not written:
            # A tensor without memory may have more bytes than this machine: pages that are touched
            from ptxsan import pages

            flags = pages.zeros(size + 2 * zone, reserved=False).view(np.bool_)
        if flags is not None and zone:
            flags[:zone] = flags[-zone:] = True
        data = _bytes_around(base, size, zone) if zone else _bytes_of(storage)
        base -= zone
        buffer = Buffer(
            name=made, data=data, initialised=flags, alignment=_alignment(base), address=base
        )
        self._regions[base] = HeldRegion(base, storage, buffer, zone, given=bool(name))

    def place(
        self,
        base: int,
        name: str,
        data: np.ndarray[Any, Any],
        initialised: np.ndarray[Any, Any] | None,
    ) -> None:
        """Put an allocation with contents (uint8) and flags (bool a byte) at an address."""
        buffer = Buffer(
            name=name, data=data, initialised=initialised, alignment=_alignment(base), address=base
        )
        self._regions[base] = HeldRegion(base, None, buffer)

    def provide(
        self,
        base: int,
        name: str,
        data: np.ndarray[Any, Any],
        initialised: np.ndarray[Any, Any] | None,
    ) -> None:
        """Put an allocation as `place` does, unless it is there."""
        if base not in self._regions:
            self.place(base, name, data, initialised)

    def bury(self, arguments: Sequence[bytes]) -> None:
        """Take the bytes of allocations to which a launch points and that nobody holds any more.

        A temporary whose address was taken has died then: a GPU's allocator may have given its
        memory to others. Its addresses stay taken, so that they are nobody else's.
        """
        for data in arguments:
            for place in range(0, len(data) - 7, 8):
                found = self.pointer(_POINTER.unpack_from(data, place)[0])
                for base, held in self._regions.items() if found is not None else ():
                    if found is not None and held.buffer is found.buffer and self._is_alone(held):
                        name = f"{held.buffer.name}, freed before this launch"
                        gone = Buffer(
                            name=name, data=_NO_BYTES, alignment=held.buffer.alignment, address=base
                        )
                        self._regions[base] = HeldRegion(base, held.storage, gone)
                        break

    @staticmethod
    def _is_alone(held: HeldRegion) -> bool:
        """Whether an allocation lives only because it is kept here."""
        if held.storage is None or held.given:
            return False
        count: Any = torch._C._storage_Use_Count
        own = 1 if held.zone_bytes else 2  # the storage itself, and the view of its bytes
        return bool(count(held.storage._cdata) <= own)

    def drop(self, base: int) -> None:
        """Forget an allocation, if there is one."""
        self._regions.pop(base, None)

    def mark_bytes(self, base: int, nbytes: int) -> None:
        """Note that host code wrote bytes at an address."""
        found = self.pointer(base)
        if found is None:
            return
        for held in self._regions.values():
            held.changed |= held.given and held.buffer is found.buffer
        if found.buffer.initialised is not None:
            found.buffer.initialised[found.offset : found.offset + nbytes] = True

    def postpone(self, arguments: Sequence[bytes]) -> None:
        """Note that a launch with these arguments was recorded and not run."""
        for data in arguments:
            for place in range(0, len(data) - 7, 8):
                self._postpone_at(_POINTER.unpack_from(data, place)[0])

    def copied(self, base: int, source: int) -> None:
        """Note that host code copied bytes between two addresses."""
        found = self.pointer(source) if self._pending else None
        if found is None or not any(
            held.pending for held in self._regions.values() if held.buffer is found.buffer
        ):
            return
        if self.pointer(base) is None:
            self.results_read = True
        else:
            self._postpone_at(base)

    def followed(self, func: Any, read: Any, made: Any) -> None:
        """Note what an operation of torch read, and what it made or wrote."""
        if not self._pending or not any(map(self.is_pending, tensors_in(read))):
            return
        tags = func.tags
        masks = [one for one in tensors_in(read) if one.dtype in (torch.bool, torch.uint8)]
        shaped = torch.Tag.dynamic_output_shape in tags and (
            func is not torch.ops.aten.index.Tensor or any(map(self.is_pending, masks))
        )
        if shaped or torch.Tag.data_dependent_output in tags:
            self.results_read = True
        for tensor in tensors_in(made):
            held = self.held(tensor)
            if held is not None:
                held.pending = True

    def is_pending(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lacks what launches that were not run would have written."""
        held = self.held(tensor) if self._pending else None
        return held is not None and held.pending

    def _postpone_at(self, address: int) -> None:
        found = self.pointer(address)
        for held in self._regions.values() if found is not None else ():
            if found is not None and held.buffer is found.buffer:
                held.pending = self._pending = True

    def keep(self, bases: set[int]) -> None:
        """Forget every allocation but those at these addresses."""
        self._regions = {base: held for base, held in self._regions.items() if base in bases}

    def mark(self, tensor: torch.Tensor) -> None:
        """Note that a torch operation wrote every element of `tensor`."""
        with torch._C.DisableTorchFunction():  # a facade may say that it lies on a GPU
            self._mark(tensor)

    def _mark(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            return
        base = tensor.untyped_storage().data_ptr()
        zone = zones.bytes_at(base)
        held = self._regions.get(base - zone)
        if held is None or not tensor.numel():
            return
        held.changed |= held.given
        if held.buffer.initialised is None:
            return
        size, flags = tensor.element_size(), torch.from_numpy(held.buffer.initialised)
        strides = (*(step * size for step in tensor.stride()), 1)
        first = tensor.storage_offset() * size + zone
        flags.as_strided((*tensor.shape, size), strides, first).fill_(True)

    def held(self, tensor: torch.Tensor) -> HeldRegion | None:
        """Return the allocation that a tensor lies in, if it is known."""
        with torch._C.DisableTorchFunction():  # a facade may say that it lies on a GPU
            if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
                return None
            base = tensor.untyped_storage().data_ptr()
            return self._regions.get(base - zones.bytes_at(base)) if base else None

    def region_at(self, base: int) -> HeldRegion | None:
        """Return the allocation at an address."""
        return self._regions.get(base)

    def pointer(self, address: int) -> Pointer | None:
        """Return where an address points, one past an allocation's end included."""
        bases = sorted(self._regions)
        place = bisect.bisect_right(bases, address) - 1
        held = self._regions[bases[place]] if place >= 0 else None
        held = held if held is not None and address <= held.end else None
        if held is None or address == held.end:  # perhaps the first byte of an earlier one
            held = self._revived(address) or held
        return None if held is None else Pointer(buffer=held.buffer, offset=address - held.base)

    def _revived(self, address: int) -> HeldRegion | None:
        """Return an allocation of an earlier call that still lives, and know it again."""
        for base, one in self._earlier.items():
            if not base <= address < base + one.nbytes or one.storage.expired():
                continue
            storage = torch.UntypedStorage._new_with_weak_ptr(one.storage.cdata)
            if storage is not None and base not in self._regions:
                zone, size = one.zone_bytes, storage.nbytes()
                data = _bytes_around(base + zone, size, zone) if zone else _bytes_of(storage)
                if data.nbytes != one.nbytes:  # resized since
                    continue
                buffer = Buffer(
                    name=one.name, data=data, initialised=one.initialised,
                    alignment=_alignment(base), address=base,
                )  # fmt: skip
                self._regions[base] = HeldRegion(base, storage, buffer, zone)
                return self._regions[base]
        return None

    def recall(
        self, arguments: Sequence[bytes], *, holds: Callable[[int], bool] | None = None
    ) -> None:
        """Know again what earlier calls kept and a launch with these arguments reaches.

        Addresses lie in the arguments, and in the memory that these lead to. Where `holds` says no
        of a storage's address, there is no data to look for addresses in (`pages.mirror`).
        """
        words = [
            _POINTER.unpack_from(data, place)[0]
            for data in arguments
            for place in range(0, len(data) - 7, 8)
        ]
        seen: set[int] = set()
        while self._earlier and words:
            for word in words:
                self.pointer(word)
            fresh = [region for region in self.regions if region.base not in seen]
            seen.update(region.base for region in fresh)
            words = [
                int(word)
                for region in fresh
                # Gigabytes of addresses show the same zeros: reading them is all that they cost.
                if holds is None or holds(region.base + region.zone_bytes)
                for word in self._earlier_addresses(region)
            ]

    def _earlier_addresses(self, region: HeldRegion) -> np.ndarray[Any, Any]:
        """Return the words of an allocation that may be addresses of what earlier calls kept."""
        low = min(self._earlier)
        high = max(base + one.nbytes for base, one in self._earlier.items())
        data = region.buffer.data
        words = data[: data.nbytes & ~7].view(np.uint64)
        found = words[(words >= low) & (words < high)]
        return np.unique(found) if found.size else found

    def argument(self, data: bytes) -> Pointer | bytes:
        """Return a parameter as a pointer where its eight bytes are an address of this memory."""
        found = self.pointer(_POINTER.unpack(data)[0]) if len(data) == _POINTER.size else None
        return found if found is not None else data

    @contextmanager
    def watching(
        self,
        named: Mapping[str, object],
        unwritten: Sequence[str],
        recorder: OperationKeeper | None = None,
    ) -> Iterator[None]:
        """Watch what torch allocates and writes in this block; the memory is forgotten after it.

        `named` are the call's arguments, of which those in `unwritten` are outputs. `recorder` is
        shown every operation of torch.
        """
        self.clear()
        for name, value in named.items():
            if isinstance(value, torch.Tensor):
                self.add(value, name, written=name not in unwritten)
        try:
            with outside_of_compiler(_Watch)(self, recorder), _Reads(self):
                yield
        finally:
            self.clear()


class OperationKeeper(Protocol):
    """Keeps operations of torch with the memory that they read and left."""

    @property
    def keeps_operations(self) -> bool:
        """Whether it wants to be shown operations now."""

    def before_operation(
        self, arena: StorageArena, args: Any, kwargs: Mapping[str, Any]
    ) -> Mapping[int, tuple[bytes, bytes]]:
        """Return the memory that an operation is about to read and that nobody has kept."""

    def after_operation(
        self,
        arena: StorageArena,
        before: Mapping[int, tuple[bytes, bytes]],
        func: Any,
        args: Any,
        kwargs: Mapping[str, Any],
        made: Any,
    ) -> None:
        """Keep an operation that has run."""


class _Watch(UntracedMode):
    """Tells the arena what every torch operation makes and writes."""

    def __init__(self, arena: StorageArena, recorder: OperationKeeper | None) -> None:
        super().__init__()
        self._arena, self._recorder = arena, recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._recorder is None or not self._recorder.keeps_operations:
            return self._run(func, args, kwargs)
        with torch._C.DisableTorchFunction():  # a facade may say that tensors lie on a GPU
            before = self._recorder.before_operation(self._arena, args, kwargs)
        made = self._run(func, args, kwargs)
        if func not in UNWRITTEN:  # what lies there is known when it is read
            with torch._C.DisableTorchFunction():
                self._recorder.after_operation(self._arena, before, func, args, kwargs, made)
        return made

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        made = func(*args, **kwargs)
        if func in UNWRITTEN:
            self._arena.add(made, written=False)
            return made
        written = written_tensors(func._schema, args, kwargs) if func._schema.is_mutable else ()
        for tensor in written:
            self._arena.mark(tensor)
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, torch.Tensor):
                self._arena.add(tensor)
        self._arena.followed(func, (args, kwargs), [made, *written])
        return made


class _Reads(TorchFunctionMode):
    """Tells the arena of reads that are no operations of torch: `tolist`, `numpy`."""

    def __init__(self, arena: StorageArena) -> None:
        super().__init__()
        self._arena = arena

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _READS and any(map(self._arena.is_pending, tensors_in(args))):
            self._arena.results_read = True
        return func(*args, **(kwargs or {}))


def element_offsets(result: RecordedResult) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the place of each element of a result in its allocation: bytes, int64 [*shape]."""
    offsets = np.full(result.shape, result.offset, np.int64)
    for axis, (count, step) in enumerate(zip(result.shape, result.strides, strict=True)):
        along = [-1 if axis == each else 1 for each in range(len(result.shape))]
        offsets += (np.arange(count, dtype=np.int64) * step).reshape(along)
    return offsets


def _bytes_of(storage: torch.UntypedStorage) -> np.ndarray[Any, Any]:
    view = torch.empty(0, dtype=torch.uint8).set_(storage)
    found: np.ndarray[Any, Any] = view.numpy()
    return found


def _bytes_around(base: int, size: int, zone: int) -> np.ndarray[Any, Any]:
    """Return a storage's bytes with those of its guard zones, which its owner keeps."""
    whole = (ctypes.c_uint8 * (size + 2 * zone)).from_address(base - zone)
    return np.ctypeslib.as_array(whole)


def _alignment(base: int) -> int:
    """Return the alignment of an address, at most 256: the least that a GPU's allocator gives."""
    return min(256, base & -base)
