"""Inputs laid out in memory as callers lay them out: views, slices, packed buffers.

Only strides, offset and storage change; dtype, shape and every bit of the values stay. The
bytes of a buffer that no element lies on are 0xFF: NaN in every floating format.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from cuassay.model.reports import Laid
from cuassay.model.scenario import Poison
from cuassay.model.steps import Arrange, CallInto, Layout
from cuassay.sandbox.guest.interface import Host, Made
from cuassay.sandbox.guest.memory import page_end
from cuassay.sandbox.guest.memory.placement import _COPY, _FILL, _STRIDED, _VIEW

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FOUR, _MATRIX = 4, 2
_TEXT_CAP = 200


class UnfitError(Exception):
    """A tensor cannot have a layout; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a tensor's elements lie within a buffer of `size` elements."""

    size: int
    strides: tuple[int, ...]
    offset: int = 0


def arrange(host: Host, step: Arrange) -> Made:
    """Lay inputs of a slot out anew, on another CUDA device where the step names one.

    Inputs that the step does not name stay as they are, unless they change their device. Those
    that cannot have a layout become contiguous; the report says why.
    """
    values = host.slot(step.slot).values
    tensors = host.slot(step.slot).tensors
    none = "no input tensor has this name"
    impossible = {name[:_TEXT_CAP]: none for name in step.layouts if name not in tensors}
    known = {name: layout for name, layout in step.layouts.items() if name in tensors}
    if step.device is not None:
        known = {name: known.get(name, Layout.CONTIGUOUS) for name in tensors}
    packed = {n: t for n, t in tensors.items() if known.get(n) is Layout.PACKED}
    moved = None if step.device is None else torch.device("cuda", step.device)
    homes = {n: moved or tensors[n].device for n in known}
    # One without company lies in the second half of a buffer twice as wide
    groups: dict[object, list[str]] = {}
    for name, tensor in packed.items():
        if tensor.dim() and tensor.numel():
            key = (tensor.dtype, tuple(tensor.shape[:-1]), homes[name])
            groups.setdefault(key, []).append(name)
    buffers: dict[str, torch.Tensor] = {}
    for names in groups.values():
        widths = [packed[name].shape[-1] for name in names]
        start = widths[0] if len(names) == 1 else 0
        first = packed[names[0]]
        whole = (*first.shape[:-1], start + sum(widths))
        buffer = _buffer(math.prod(whole) * first.element_size(), homes[names[0]])
        for name, width in zip(names, widths, strict=True):
            place = _Place(size=math.prod(whole), strides=_strides(whole), offset=start)
            buffers[name] = _filled(packed[name], buffer, place)
            start += width
    for name, layout in known.items():
        tensor = tensors[name]
        try:
            made = buffers[name] if name in buffers else _laid_out(tensor, layout, homes[name])
        except UnfitError as error:
            made = _in_buffer(tensor, _contiguous(tensor.shape), homes[name])
            impossible[name] = str(error)[:_TEXT_CAP]
        values[name] = made
    for name, other in step.same.items():
        own, shared = values.get(name), values.get(other)
        if isinstance(own, torch.Tensor) and isinstance(shared, torch.Tensor):
            seen = shared if shared.shape == own.shape or shared.dim() < _MATRIX else shared.mT
            if seen.dtype == own.dtype and torch.equal(_words(seen), _words(own)):
                values[name] = seen
                continue
        impossible[name[:_TEXT_CAP]] = f"its values are not those of {other}"[:_TEXT_CAP]
    _settle(host, step.device)
    return Made(report=Laid(impossible=impossible))


def call_into(host: Host, step: CallInto) -> Made:
    """Call with the tensors of inputs as outputs; as usual where outputs are returned.

    An output that does not fit its input has memory of its own; the report says so.
    """
    tensors = host.slot(step.slot).tensors
    outputs: list[tuple[str, torch.Tensor]] = []
    impossible: dict[str, str] = {}
    for name, own in host.destinations(step.slot, Poison.NAN):
        wanted = tensors.get(step.into.get(name, ""))
        fits = wanted is not None and (wanted.shape, wanted.dtype) == (own.shape, own.dtype)
        outputs.append((name, wanted if wanted is not None and fits else own))
        if name in step.into and not fits:
            impossible[name[:_TEXT_CAP]] = "another shape or dtype"
    held = host.invoke(step.slot, outputs)
    _settle(host, None)
    host.hold(step.result, step.slot, held)
    return Made(report=Laid(impossible=impossible))


def _settle(host: Host, device: int | None) -> None:
    """Wait until every copy is done: the candidate may read on another stream."""
    if host.device.on_gpu:
        torch.cuda.synchronize()
        if device is not None:
            torch.cuda.synchronize(device)


def _laid_out(tensor: torch.Tensor, layout: Layout, home: torch.device) -> torch.Tensor:
    if layout is not Layout.CONTIGUOUS and not tensor.numel():
        raise UnfitError("it has no elements")
    match layout:
        case Layout.CONTIGUOUS:
            return _in_buffer(tensor, _contiguous(tensor.shape), home)
        case Layout.TRANSPOSED:
            shape = tensor.shape
            if len(shape) < 2 or min(shape[-2:]) < 2:
                raise UnfitError("it has no two last axes of at least 2")
            *outer, second, last = _strides((*shape[:-2], shape[-1], shape[-2]))
            return _in_buffer(
                tensor, _Place(size=math.prod(shape), strides=(*outer, last, second)), home
            )
        case Layout.STEPPED:
            if not tensor.shape:
                raise UnfitError("it has no axis to be stepped through")
            strides = tuple(2 * stride for stride in _strides(tensor.shape))
            return _in_buffer(
                tensor, _Place(size=2 * math.prod(tensor.shape), strides=strides), home
            )
        case Layout.OFFSET:
            whole = _contiguous(tensor.shape)
            place = _Place(size=whole.size + 1, strides=whole.strides, offset=1)
            return _in_buffer(tensor, place, home)
        case Layout.CHANNELS_LAST:
            if len(tensor.shape) != _FOUR:
                raise UnfitError(f"it has {len(tensor.shape)} axes, not 4")
            images, channels, height, width = tensor.shape
            strides = (channels * height * width, 1, width * channels, channels)
            return _in_buffer(
                tensor, _Place(size=images * channels * height * width, strides=strides), home
            )
        case Layout.EXPANDED:
            return _expanded(tensor, home)
        case Layout.AT_END:
            buffer = page_end.bytes_at_end(tensor.numel() * tensor.element_size(), home)
            return _filled(tensor, buffer, _contiguous(tensor.shape))
        case Layout.PACKED:
            raise UnfitError("it has no axis to be packed along")


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a contiguous tensor."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _contiguous(shape: Sequence[int]) -> _Place:
    return _Place(size=math.prod(shape), strides=_strides(shape))


def _expanded(tensor: torch.Tensor, home: torch.device) -> torch.Tensor:
    if not any(length > 1 for length in tensor.shape):
        raise UnfitError("it has no axis of at least 2")
    words = _words(tensor)
    axes = [
        axis
        for axis, length in enumerate(tensor.shape)
        if length > 1 and bool((words == words.narrow(axis, 0, 1)).all())
    ]
    if not axes:
        raise UnfitError("its slices differ along every axis")
    one = tensor
    for axis in axes:
        one = one.narrow(axis, 0, 1)
    place = _contiguous(one.shape)
    strides = [0 if axis in axes else place.strides[axis] for axis in range(tensor.dim())]
    return _STRIDED(_in_buffer(one, place, home), tuple(tensor.shape), tuple(strides))


def _buffer(size: int, home: torch.device) -> torch.Tensor:
    """Return `size` fresh bytes 0xFF."""
    return _FILL(torch.empty(size, dtype=torch.uint8, device=home), 0xFF)


def _in_buffer(tensor: torch.Tensor, place: _Place, home: torch.device) -> torch.Tensor:
    return _filled(tensor, _buffer(place.size * tensor.element_size(), home), place)


def _filled(tensor: torch.Tensor, buffer: torch.Tensor, place: _Place) -> torch.Tensor:
    """Return a view into a buffer of bytes that holds the tensor's values."""
    typed = _VIEW(buffer, tensor.dtype)
    made = _STRIDED(typed, tuple(tensor.shape), place.strides, place.offset)
    if tensor.numel():
        with torch.no_grad():
            _COPY(_words(made), _words(tensor))
    return made


def _words(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's elements as integers, so that no copy changes a NaN."""
    word = _WORDS.get(tensor.element_size())
    return tensor if word is None else _VIEW(tensor, word)
