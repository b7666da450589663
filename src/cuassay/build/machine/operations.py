"""Operations of torch as data, in the candidate's process: what they read, and what they left.

Recorded beside launches (`launch.MachineRecorder`), so that a whole call can be followed
elsewhere. Views are not kept: every tensor says where in memory it lies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from cuassay.dispatch_modes import tensors_in
from cuassay.model.recording import Argument, RecordedTensor, TorchWord

_SKIPPED = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep,
    "<",
)


def written_tensors(schema: Any, args: Any, kwargs: Mapping[str, Any]) -> Iterator[torch.Tensor]:
    """Yield the arguments that an operation writes."""
    for number, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        for tensor in value if isinstance(value, tuple | list) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor


def is_view(schema: Any, args: Any, kwargs: Mapping[str, Any], made: Any) -> bool:
    """Whether an operation only looked at an argument's memory, as the type that it is."""
    results = list(tensors_in(made))
    given = {
        (one.untyped_storage().data_ptr(), one.dtype)
        for one in tensors_in((args, kwargs))
        if one.layout is torch.strided
    }
    return (
        not schema.is_mutable
        and bool(results)
        and all(
            one.layout is torch.strided and (one.untyped_storage().data_ptr(), one.dtype) in given
            for one in results
        )
    )


def argument_of(value: Any) -> Argument:
    """Return an argument as data; what has no form says its type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        if _is_number(value):
            number: float | int = value.item()
            return number
        return place_of(value)
    if isinstance(value, list | tuple):
        return tuple(argument_of(one) for one in value)
    for kind, type_ in _WORDS:
        if isinstance(value, type_):
            return TorchWord(kind=kind, name=str(value).removeprefix("torch."))
    return TorchWord(kind=type(value).__name__, name="")


_WORDS: Sequence[tuple[str, Any]] = (
    ("dtype", torch.dtype), ("layout", torch.layout), ("memory_format", torch.memory_format),
    ("device", torch.device),
)  # fmt: skip


def place_of(tensor: torch.Tensor) -> Argument:
    """Return where a tensor lies; the type of its layout where it has no strides."""
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return TorchWord(kind="tensor", name=str(tensor.layout))
    storage, size = tensor.untyped_storage(), tensor.element_size()
    return RecordedTensor(
        base=storage.data_ptr(),
        nbytes=storage.nbytes(),
        dtype=str(tensor.dtype).removeprefix("torch."),
        offset=int(tensor.storage_offset()) * size,
        shape=tuple(tensor.shape),
        strides=tuple(step * size for step in tensor.stride()),
    )


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Return a tensor's elements in order."""
    whole = tensor.detach().contiguous()
    # One element counts as contiguous whatever its strides, and keeps them in any reshape.
    flat = whole.as_strided((whole.numel(),), (1,))
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def candidate_line() -> str:
    """Return `file:line` of the innermost frame that is neither torch's nor cuassay's."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return "host code that is not Python"
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def _is_number(tensor: torch.Tensor) -> bool:
    """Whether torch wrapped a Python number: it has no say beside a narrower scalar."""
    if tensor.dim() or tensor.dtype not in _NARROWER:
        return False
    beside = torch.zeros((), dtype=_NARROWER[tensor.dtype])
    return torch.result_type(tensor, beside) is beside.dtype


_NARROWER = {torch.float64: torch.float32, torch.int64: torch.int32}
