"""Guarded tensors on the CPU, and the dispatch mode that hands them to the candidate.

The tensor's storage is exactly its data: neither an offset nor a larger storage tells that
there are zones around it. Tensors that torch's operators allocate inside of them, other than
those listed here, stay plain.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from cuassay.dispatch_modes import UntracedMode
from cuassay.sandbox.guest.memory.guard_zones import GuardedBlock, ZoneLedger, guard_bytes

_ALIGNMENT, _LEAST = 64, 4096
_LARGEST = 1 << 28  # bytes of a tensor that is still guarded
_SET = torch.Tensor.set_
_COPY = torch.Tensor.copy_
_PACKET = torch.ops.aten
_UNFILLED = frozenset(
    {
        _PACKET.empty.memory_format,
        _PACKET.empty_strided.default,
        _PACKET.empty_like.default,
        _PACKET.new_empty.default,
        _PACKET.new_empty_strided.default,
    }
)
_FILLED = frozenset(
    {
        _PACKET.zeros.default,
        _PACKET.zeros_like.default,
        _PACKET.new_zeros.default,
        _PACKET.ones.default,
        _PACKET.ones_like.default,
        _PACKET.new_ones.default,
        _PACKET.full.default,
        _PACKET.full_like.default,
        _PACKET.new_full.default,
        _PACKET.clone.default,
        _PACKET._to_copy.default,
    }
)


class HostAccess:
    """This process's own memory."""

    def read(self, places: Iterable[tuple[int, int]]) -> Iterator[bytes]:
        """Yield the bytes of each (address, size)."""
        for address, size in places:
            yield ctypes.string_at(address, size)

    def write(self, places: Iterable[tuple[int, bytes]]) -> None:
        """Write bytes at each address."""
        for address, data in places:
            ctypes.memmove(address, data, len(data))

    def free(self, block: GuardedBlock) -> None:
        """Let the owner of the memory go."""
        block.keep = None


_HOST = HostAccess()


class HostGuards:
    """Makes guarded tensors; `byte` is what their data holds first, None leaves it alone."""

    def __init__(self, ledger: ZoneLedger) -> None:
        self._ledger = ledger
        self._owners: dict[int, weakref.ref[Any]] = {}
        self.byte: int | None = None

    def tensor(
        self,
        shape: Sequence[int],
        dtype: torch.dtype,
        *,
        strides: Sequence[int],
        size: int,
        label: str = "",
    ) -> torch.Tensor:
        """Return a tensor on a storage of `size` bytes between two zones."""
        guard = guard_bytes(size, least=_LEAST, multiple=_ALIGNMENT)
        whole = np.empty(size + 2 * guard + _ALIGNMENT, np.uint8)
        start = guard + -(whole.ctypes.data + guard) % _ALIGNMENT
        data = whole[start : start + size]
        address = int(data.ctypes.data)
        if self.byte is not None:
            ctypes.memset(address, self.byte, size)
        self._ledger.add(
            GuardedBlock(
                address=address, size=size, guard=guard, access=_HOST, label=label, keep=whole
            )
        )

        # The storage alone holds this view: it dies with the last tensor on it.
        def ended(_: object) -> None:
            self._owners.pop(address, None)
            self._ledger.freed(address)

        self._owners[address] = weakref.ref(data, ended)
        storage = torch.frombuffer(data, dtype=torch.uint8).untyped_storage()
        return _SET(torch.empty(0, dtype=dtype), storage, 0, tuple(shape), tuple(strides))

    def instead_of(self, made: torch.Tensor, *, filled: bool) -> torch.Tensor:
        """Return a guarded tensor like a fresh one, or that one where it cannot be guarded."""
        if type(made) is not torch.Tensor or made.layout is not torch.strided:
            return made
        if made.device.type != "cpu" or not made.numel() or made.storage_offset():
            return made
        size = made.untyped_storage().nbytes()
        if size > _LARGEST or made.is_conj() or made.is_neg():
            return made
        guarded = self.tensor(made.shape, made.dtype, strides=made.stride(), size=size)
        return _COPY(guarded, made) if filled else guarded

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor lies on a guarded storage."""
        return tensor.untyped_storage().data_ptr() in self._owners


@contextlib.contextmanager
def guarded_compiled_code(guards: HostGuards) -> Iterator[None]:
    """Let code that torch's compiler makes for a CPU have guarded tensors; no mode sees it ask."""
    home: Any = torch._C._dynamo.guards
    take = home._empty_strided_cpu
    home._empty_strided_cpu = lambda *asked: guards.instead_of(take(*asked), filled=False)
    try:
        yield
    finally:
        home._empty_strided_cpu = take


class GuardMode(UntracedMode):
    """Gives guarded tensors where the candidate asks torch for fresh ones."""

    def __init__(self, guards: HostGuards) -> None:
        super().__init__()
        self._guards = guards

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let torch compile and run compiled functions as if this mode were not there."""
        return True

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call the operator; guard what it allocated."""
        named = kwargs or {}
        try:
            made = func(*args, **named)
        except RuntimeError as error:
            if "not resizable" not in str(error) or not self._unguard((*args, *named.values())):
                raise
            return func(*args, **named)
        if (func in _UNFILLED or func in _FILLED) and not named.get("pin_memory"):
            try:
                return self._guards.instead_of(made, filled=func in _FILLED)
            except Exception:  # never the candidate's problem
                return made
        return made

    def _unguard(self, values: Sequence[Any]) -> bool:
        """Move guarded tensors that are to grow to plain memory; whether there were any."""
        moved = False
        for value in values:
            if type(value) is torch.Tensor and self._guards.holds(value):
                size = value.untyped_storage().nbytes()
                # The refused operator has set the new shape already.
                lengths = zip(value.shape, value.stride(), strict=True)
                last = sum((size - 1) * stride for size, stride in lengths)
                plain = torch.empty(
                    max(size, int(value.storage_offset() + last + 1) * value.element_size()),
                    dtype=torch.uint8,
                )
                whole = torch.empty(0, dtype=torch.uint8)
                _COPY(plain[:size], _SET(whole, value.untyped_storage()))
                place = value.storage_offset(), tuple(value.shape), value.stride()
                _SET(value, plain.untyped_storage(), *place)
                moved = True
        return moved
