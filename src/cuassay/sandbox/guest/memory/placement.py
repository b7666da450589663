"""Where tensors lie before the candidate sees them: allocation, poison, recycled addresses.

On the CPU fresh memory is poisoned through glibc's M_PERTURB: every block that malloc hands
out while a call runs holds the pattern, whether Python, C++ or a compiled graph asks for it,
and no torch mode is active that a compiled callable would notice. On CUDA the caching
allocator's free blocks are filled in place before the call. Memory that a kernel takes from
the driver by itself (cudaMalloc, mmap) is out of reach.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

from cuassay.model.device import Device
from cuassay.model.scenario import Poison

# Taken before any candidate runs, so that a patched torch.Tensor does not reach us.
_COPY = torch.Tensor.copy_
_DATA_PTR = torch.Tensor.data_ptr
_FILL = torch.Tensor.fill_
_VIEW = torch.Tensor.view
_STRIDED = torch.Tensor.as_strided
_STORAGE = torch.Tensor.untyped_storage
_ALIAS: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.data.__get__  # type: ignore[attr-defined]

_LIBC = ctypes.CDLL(None, use_errno=True)
_M_PERTURB = -6
_CACHED_BYTES = 2048  # a little above what glibc caches per thread
_M_MMAP_MAX = -4
_KEPT_BYTES = 1 << 29  # of unused GPU memory that an allocator may keep between scenarios
_M_TRIM_THRESHOLD = -1
_NATIVE_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def byte_of(poison: Poison) -> int | None:
    """Return the byte that fresh memory is filled with, None where it is left alone."""
    match poison:
        case Poison.NAN | Poison.ONES:
            return 0xFF  # NaN in every IEEE format, in bfloat16 and in both 8-bit formats
        case Poison.ZEROS:
            return 0x00
        case _:
            return None


class Surrounding(Protocol):
    """What guards this process's allocations, in guarded mode (see `guards`)."""

    def allocate(
        self, shape: Sequence[int], dtype: torch.dtype, device: Device, label: str
    ) -> torch.Tensor:
        """Return an unfilled contiguous tensor between guard zones."""

    def name(self, tensor: torch.Tensor, label: str) -> None:
        """Remember what a tensor is, unless that is known."""

    def poisoned(self, poison: Poison) -> AbstractContextManager[None]:
        """While active, fresh memory holds the pattern."""

    @property
    def exhausted(self) -> bool:
        """Whether the device had no memory left for an allocation."""


guards: Surrounding | None = None  # set once, before the candidate is built


def allocate(
    shape: Sequence[int], dtype: torch.dtype, device: Device, *, label: str = ""
) -> torch.Tensor:
    """Return an unfilled contiguous tensor of the worker's own; `label` says what it is."""
    if guards is not None:
        return guards.allocate(shape, dtype, device, label)
    return torch.empty(tuple(shape), dtype=dtype, device=device)


def name_all(held: Sequence[tuple[str, object]]) -> None:
    """Let the guards, if there are any, know a call's results by name."""
    for name, value in held if guards is not None else ():
        if isinstance(value, torch.Tensor) and guards is not None:
            guards.name(value, name)


def own_copy(source: torch.Tensor, device: Device, *, label: str = "") -> torch.Tensor:
    """Return a contiguous copy of `source` on `device` in an allocation of its own."""
    copy = allocate(source.shape, source.dtype, device, label=label)
    copy_into(copy, source)
    return copy


def read_only_copy(source: torch.Tensor) -> torch.Tensor:
    """Return a contiguous copy of `source` in pages of the host that nothing may write."""
    size = source.numel() * source.element_size()
    if not size:
        return source.clone()
    pages = mmap.mmap(-1, size)
    whole = torch.frombuffer(pages, dtype=torch.uint8, count=size)
    copy = whole.view(source.dtype).reshape(source.shape)
    copy_into(copy, source)
    if _LIBC.mprotect(ctypes.c_void_p(_DATA_PTR(whole)), ctypes.c_size_t(size), mmap.PROT_READ):
        raise OSError(ctypes.get_errno(), "mprotect refuses to make memory read-only")
    return copy


def copy_into(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copy values of the same dtype and shape; bytes where torch has no copy for the dtype.

    Writes through an alias without a version counter, as raw kernels and optimizers do: a
    cache keyed on the address and the version must not look fresh.
    """
    if target.numel() == 0:
        return
    target = _ALIAS(target)
    with torch.no_grad():
        if target.element_size() == 1 and target.is_contiguous() and source.is_contiguous():
            _COPY(_VIEW(target, torch.uint8), _VIEW(source, torch.uint8))
        else:
            _COPY(target, source)


def fill(tensor: torch.Tensor, poison: Poison, answer: torch.Tensor | None = None) -> None:
    """Fill a contiguous tensor with the pattern; `answer` serves NEGATED and RIGHT.

    No version counter tells of it, as with `copy_into`.
    """
    if tensor.numel() == 0 or poison is Poison.NONE:
        return
    tensor = _ALIAS(tensor)
    wanted = poison in (Poison.NEGATED, Poison.RIGHT)
    if (
        wanted
        and answer is not None
        and (answer.shape == tensor.shape and answer.dtype == tensor.dtype)
    ):
        copy_into(tensor, _negated(answer) if poison is Poison.NEGATED else answer)
        return
    if poison is Poison.NAN and tensor.dtype in _NATIVE_FLOATS:
        _FILL(tensor, float("nan"))
        return
    byte = byte_of(poison)
    _FILL(as_bytes(tensor), 0xFF if byte is None else byte)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the bytes of a contiguous tensor as a one-dimensional uint8 tensor sharing them.

    One element counts as contiguous whatever its strides, and keeps them in any reshape.
    """
    return _VIEW(_STRIDED(tensor, (tensor.numel(),), (1,)), torch.uint8)


def _negated(answer: torch.Tensor) -> torch.Tensor:
    if answer.dtype is torch.bool:
        return ~answer
    if answer.dtype in _NATIVE_FLOATS or not answer.dtype.is_floating_point:
        return -answer
    flipped = answer.clone()  # 8-bit floats: flip the sign bit of every byte
    flipped.view(torch.uint8).bitwise_xor_(0x80)
    return flipped


def recycle_addresses() -> bool:
    """Make freed CPU blocks stay in the heap, so that their addresses are used again.

    For the worker process only: memory is never given back to the system. False where the
    C library has no mallopt.
    """
    return _mallopt(_M_MMAP_MAX, 0) and _mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def _mallopt(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except AttributeError:
        return False


@contextmanager
def poisoned_memory(
    poison: Poison, device: Device, answers: Sequence[torch.Tensor] = ()
) -> Iterator[None]:
    """While active, memory that the candidate allocates holds the pattern (see the module).

    With NEGATED or RIGHT, blocks of the answers' sizes are filled with them and freed, which
    is what a reference that ran before leaves behind.
    """
    byte = byte_of(poison)
    if guards is not None:
        with guards.poisoned(poison):
            yield
    elif byte is None:
        if poison in (Poison.NEGATED, Poison.RIGHT):
            blocks = [torch.empty_like(answer) for answer in answers]
            for block, answer in zip(blocks, answers, strict=True):
                fill(block, poison, answer)
        yield
    elif not device.on_gpu:
        with perturbed(byte):
            yield
    else:
        fill_free_cuda_blocks(byte)
        yield


@contextmanager
def perturbed(byte: int | None) -> Iterator[None]:
    """While active, glibc fills every new block with `byte`."""
    if byte is None:
        yield
        return
    # It takes the low byte of (value ^ 0xFF); 0 would switch it off.
    _mallopt(_M_PERTURB, byte ^ 0xFF or 0x100)
    try:
        yield
    finally:
        _mallopt(_M_PERTURB, 0)


def reserve_cuda_blocks(shapes: Sequence[tuple[tuple[int, ...], torch.dtype]]) -> None:
    """Let the caching allocator hold a free block for each shape, so that it can be filled."""
    blocks = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in shapes]
    del blocks


def give_back_cuda_memory() -> None:
    """Return what torch's allocator keeps to the device, if it is much.

    The judge plans for one case at a time: what an earlier scenario took must not stand beside
    the next one.
    """
    with contextlib.suppress(RuntimeError):  # an allocator of our own keeps no statistics
        if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > _KEPT_BYTES:
            torch.cuda.empty_cache()


def fill_free_cuda_blocks(byte: int) -> int:
    """Fill every free block of the caching allocator with `byte`; return the bytes filled."""
    torch.cuda.synchronize()  # a block may be free for the host while a kernel still reads it
    filled = 0
    for segment in torch.cuda.memory_snapshot():  # type: ignore[no-untyped-call]
        address = int(segment["address"])
        for block in segment["blocks"]:
            if block["state"] == "inactive" and not segment.get("is_expandable", False):
                _FILL(cuda_bytes(int(block.get("address", address)), block["size"]), byte)
                filled += block["size"]
            address += block["size"]
    torch.cuda.synchronize()
    return filled


class _RawCuda:
    """Device memory described to torch by the CUDA array interface, version 3."""

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def cuda_bytes(pointer: int, size: int) -> torch.Tensor:
    """Return device memory [pointer, pointer + size) as a uint8 tensor that owns nothing."""
    return torch.as_tensor(_RawCuda(pointer, size), device="cuda")


def fill_bytes(storage: torch.UntypedStorage, byte: int, device: Device) -> None:
    """Fill a whole storage with one byte."""
    view = torch.empty(0, dtype=torch.uint8, device=device)
    _FILL(view.set_(storage), byte)


def poison_small_blocks(shapes: Sequence[tuple[tuple[int, ...], torch.dtype]], byte: int) -> None:
    """Leave freed CPU blocks of these shapes that hold the pattern.

    glibc hands small blocks out of its per-thread cache unperturbed, unless the cache is
    switched off, as it is in workers.
    """
    small = [(s, d) for s, d in shapes if 0 < math.prod(s) * d.itemsize <= _CACHED_BYTES]
    blocks = [torch.empty(shape, dtype=dtype) for shape, dtype in small for _ in range(8)]
    for block in blocks:
        _FILL(_VIEW(block.reshape(-1), torch.uint8), byte)
