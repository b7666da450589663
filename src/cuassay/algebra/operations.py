"""Recorded operations of torch, followed in residues on the memory that kernels share with them.

Each operation goes through the evaluator that a reference goes through (`follow`), in float64 on
the numbers that its tensors hold. What it left in memory are the bytes that were recorded: they
decide what later kernels do. What it left beside them are residues.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch._ops import OpOverload

from cuassay.algebra.follow import Follower
from cuassay.algebra.rules import Unfollowed
from cuassay.build.machine.memory import StorageArena
from cuassay.dispatch_modes import tensors_in
from cuassay.errors import CuassayError
from cuassay.hooks import Operation
from cuassay.model.recording import Argument, RecordedOperation, RecordedTensor, TorchWord
from cuassay.oracle.lift.traits import traits_of
from ptxsan import pages
from ptxsan.errors import MachineError
from ptxsan.launch import Buffer
from ptxsan.numerics.formats import BY_NAME
from ptxsan.numerics.residues import INPUT, NONE
from ptxsan.residues import Residues
from ptxsan.runtime import layout as L
from ptxsan.runtime.algebra import of_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMATS = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
            torch.float64: "f64"}  # fmt: skip
_CODES = {2: np.uint16, 4: np.uint32, 8: np.int64}
_MOST_ELEMENTS = 1 << 24
_FAR = 0.05  # of the largest result: no rounding of 16 bits is so far off


def perform(operation: RecordedOperation, arena: StorageArena, residues: Residues) -> None:
    """Follow one operation on an arena's memory, and leave there what it left.

    Raises MachineError, with the candidate's line, for what has no residues and for a recording
    that does not hold.
    """
    try:
        for base, data in operation.contents.items():
            flags: NDArray[np.bool_] | None = None
            if base in operation.written:
                packed = np.frombuffer(operation.written[base], np.uint8)
                flags = np.unpackbits(packed, count=len(data), bitorder="little").astype(np.bool_)
            arena.place(base, "memory", np.frombuffer(bytearray(data), np.uint8), flags)
        op = _overload(operation.name)
        traits = traits_of(op)
        if traits.refusal or traits.random:
            raise Unfollowed(traits.refusal or "it draws random numbers")
        if traits.view:
            raise Unfollowed("it takes the bits of numbers for those of another type")
        if traits.written and (traits.functional is None or traits.metadata):
            raise Unfollowed("it writes memory in a way that is not followed")
        # What these write is nothing that they read
        sets = op._schema.name.removeprefix("aten::") in ("copy_", "zero_", "fill_")
        sets = sets or any(argument.is_out for argument in op._schema.arguments)
        overwritten = {name for _, name in traits.written} if sets else set()
        follower = Follower(residues.key, lambda: operation.line)
        names = [argument.name for argument in op._schema.arguments]

        def given(name: str, value: Argument) -> Any:
            return _given(value, arena, residues, follower, unread=name in overwritten)

        arguments = [
            given(name, one) for name, one in zip(names, operation.arguments, strict=False)
        ]
        named = {name: given(name, one) for name, one in operation.named.items()}
        functional = traits.functional if traits.written else op
        assert functional is not None
        taken = traits_of(functional).names
        if any(argument.is_out for argument in op._schema.arguments):
            named = {name: one for name, one in named.items() if name in taken}
        low = Operation(functional, arguments, named)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            found = follower.replace(low)
            if found is NotImplemented:
                found = low.run()
            found = follower.after(low, found)
        finally:
            torch.set_default_dtype(before)
        made = list(tensors_in(found))
        if len(made) != len(operation.results):
            raise MachineError(f"it gave {len(operation.results)} tensors, expected {len(made)}")
        for place, data, number in zip(operation.results, operation.left, made, strict=True):
            _leave(place, data, number, follower.output(number), arena, residues)
    except (Unfollowed, MachineError) as error:
        raise MachineError(f"{operation.name} at {operation.line}: {error}") from None
    except (CuassayError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        text = str(error).split("\n", 1)[0][:200]
        where = f"{operation.name} at {operation.line}"
        raise MachineError(f"{where} is not followed: {text}") from None


@functools.cache
def _overload(name: str) -> OpOverload:
    """Return torch's own operation of a name such as `aten::add.Tensor`."""
    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    if space not in ("aten", "prims"):
        raise Unfollowed("it is no operation of torch")
    found = getattr(getattr(getattr(torch.ops, space), packet, None), overload or "default", None)
    if not isinstance(found, OpOverload):
        raise Unfollowed("this torch has no such operation")
    return found


def _given(
    value: Argument, arena: StorageArena, residues: Residues, follower: Follower, *, unread: bool
) -> Any:
    """Return an argument as the evaluator takes it: floats in float64, with their slots."""
    match value:
        case RecordedTensor():
            return _lifted(value, arena, residues, follower, unread=unread)
        case TorchWord(kind="device"):
            return torch.device("cpu")
        case TorchWord(kind="dtype" | "layout" | "memory_format"):
            found = getattr(torch, value.name, None)
            return torch.float64 if found in _FORMATS else found
        case TorchWord():
            raise Unfollowed(f"an argument is a {value.kind}")
        case tuple():
            return [_given(one, arena, residues, follower, unread=unread) for one in value]
        case _:
            return value


def _lifted(
    place: RecordedTensor,
    arena: StorageArena,
    residues: Residues,
    follower: Follower,
    *,
    unread: bool,
) -> Tensor:
    dtype: Any = getattr(torch, place.dtype, None)
    if not isinstance(dtype, torch.dtype) or dtype.is_complex:
        raise Unfollowed(f"tensors of {place.dtype} are not followed")
    if not math.prod(place.shape):
        return torch.empty(place.shape, dtype=torch.float64 if dtype in _FORMATS else dtype)
    buffer, offsets = _located(place, arena, dtype.itemsize)
    if not unread and buffer.initialised is not None:
        ends = [buffer.initialised[offsets + byte].all() for byte in range(dtype.itemsize)]
        if not all(ends):
            raise Unfollowed("it reads memory that nobody wrote")
    raw = np.stack([buffer.data[offsets + byte] for byte in range(dtype.itemsize)], axis=-1)
    values = torch.from_numpy(np.ascontiguousarray(raw)).view(dtype).reshape(place.shape)
    flat = offsets.reshape(-1)
    cells = np.zeros(flat.size, np.uint32)
    if buffer.shadow is not None:
        cells = buffer.shadow.view(np.uint32)[flat >> 1]
    if dtype not in _FORMATS:
        if dtype.is_floating_point:
            raise Unfollowed(f"tensors of {place.dtype} are not followed")
        if (cells > INPUT).any():
            raise Unfollowed("it takes the bits of floats for integers")
        return values
    codes = np.ascontiguousarray(raw).reshape(-1).view(_CODES[dtype.itemsize]).astype(np.int64)
    index = BY_NAME[_FORMATS[dtype]].index
    slots = of_memory(codes, cells, residues.table, index)
    lifted = values.double()
    follower.put(lifted, torch.from_numpy(slots).reshape(place.shape))
    return lifted


def _located(
    place: RecordedTensor, arena: StorageArena, width: int
) -> tuple[Buffer, NDArray[np.int64]]:
    """Return the memory of a tensor and its elements' byte offsets there, in its shape."""
    held = arena.pointer(place.base)
    count = math.prod(place.shape)
    if held is None or count > _MOST_ELEMENTS:
        raise MachineError(f"{count} elements of memory that is not known")
    start = held.offset + place.offset
    offsets = np.full(place.shape, start, np.int64)
    for axis, step in enumerate(place.strides):
        shape = [-1 if axis == each else 1 for each in range(len(place.shape))]
        offsets += (np.arange(place.shape[axis], dtype=np.int64) * step).reshape(shape)
    if count and not 0 <= start <= int(offsets.max()) <= held.buffer.data.nbytes - width:
        raise MachineError("a tensor leaves its memory")
    return held.buffer, offsets


def _leave(
    place: RecordedTensor,
    data: bytes,
    number: Tensor,
    slots: Tensor | None,
    arena: StorageArena,
    residues: Residues,
) -> None:
    """Put a result's bytes and residues where it lies."""
    dtype: Any = getattr(torch, place.dtype, None)
    count = math.prod(place.shape)
    if not isinstance(dtype, torch.dtype) or tuple(number.shape) != place.shape:
        raise MachineError(f"a result of shape {place.shape}, expected {tuple(number.shape)}")
    if len(data) != count * dtype.itemsize or (slots is None) is (dtype in _FORMATS):
        raise MachineError(f"a result of {place.dtype} with {len(data)} bytes")
    if not count:
        return
    held = arena.pointer(place.base)
    if held is None or held.offset + place.offset + dtype.itemsize > held.buffer.data.nbytes:
        flags = np.zeros(place.nbytes, np.bool_)
        arena.place(place.base, "memory", pages.zeros(place.nbytes), flags)
    buffer, offsets = _located(place, arena, dtype.itemsize)
    left = torch.frombuffer(bytearray(data), dtype=dtype).reshape(place.shape)
    # Raise MachineError where a recorded result is not what the evaluator saw.
    if not left.is_floating_point():
        if not torch.equal(left, number.to(left.dtype)):
            raise MachineError("it decides otherwise in float64 than in its own precision")
    else:
        finite = torch.isfinite(number) & torch.isfinite(left)
        scale = float(number[finite].abs().max()) if bool(finite.any()) else 0.0
        if not bool(((left.double() - number)[finite].abs() <= _FAR * scale).all()):
            raise MachineError("its recorded result is not what it computes")
    raw = left.reshape(-1).view(torch.uint8).numpy().reshape(count, dtype.itemsize)
    flat = offsets.reshape(-1)
    if buffer.shadow is None:
        buffer.shadow = pages.zeros(buffer.data.nbytes // 2 + 4, np.float32)
    cells = buffer.shadow.view(np.uint32)
    numbers = np.full(count, 1, np.uint32)
    if slots is not None:
        numbers = _entries(slots.reshape(-1).numpy(), residues)
    for byte in range(dtype.itemsize):
        buffer.data[flat + byte] = raw[:, byte]
        if buffer.initialised is not None:
            buffer.initialised[flat + byte] = True
        if byte % 2 == 0:
            cells[(flat + byte) >> 1] = numbers if byte == 0 else 1


def _entries(slots: NDArray[np.int64], residues: Residues) -> NDArray[np.uint32]:
    """Return the numbers of new entries of the table for resolved slots; 1 for NONE."""
    table, known = residues.table, slots != NONE
    first, count = int(table[L.T_NEXT]), int(known.sum())
    if first + count > int(table[L.T_LIMIT]):
        raise MachineError("the call computes more numbers than there is room for residues")
    table[first : first + count] = slots[known].view(np.uint64)
    table[L.T_NEXT] = first + count
    numbers = np.ones(slots.size, np.uint32)
    numbers[known] = np.arange(first, first + count, dtype=np.uint32)
    return numbers
