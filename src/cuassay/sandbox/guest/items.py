"""What a call returned, described without running any of its code, and its bytes."""

from __future__ import annotations

import ctypes
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import torch

from cuassay.model.trace import ResultItem
from cuassay.sandbox.guest.memory.placement import _COPY, _DATA_PTR, _STORAGE, _VIEW, as_bytes

_TEXT_CAP = 200
_MAX_ITEMS = 256
_CONTIGUOUS, _DETACH = torch.Tensor.contiguous, torch.Tensor.detach
_OWN = frozenset(dir(torch.Tensor))
_HASH_CHUNK = 1 << 22
_OVERLAP_BYTES = 1 << 28  # of memory in which the bytes of two strided tensors are told apart
# What makes a tensor's values others than those that lie in its memory
_FLAGS = {"conjugate bit": torch.Tensor.is_conj, "negative bit": torch.Tensor.is_neg}
_SUB_BYTE = re.compile(r"u?int[1-7]")  # shells without kernels: nothing can be copied


def _known_dtypes() -> dict[str, torch.dtype]:
    found = {
        str(v).removeprefix("torch."): v
        for v in vars(torch).values()
        if isinstance(v, torch.dtype) and not str(v).startswith(("torch.q", "torch.bits"))
    }
    return {name: dtype for name, dtype in found.items() if not _SUB_BYTE.fullmatch(name)}


DTYPES: Mapping[str, torch.dtype] = _known_dtypes()


def itemsize(dtype: str) -> int:
    """Return the bytes of one element of a dtype by name; KeyError for an unknown one."""
    return DTYPES[dtype].itemsize


_READ_BY = ("__getitem__", "__iter__", "__len__")


def container_of(returned: object) -> str:
    """Return in what a call returned its outputs: tuple, list, dict, or '' for what holds none.

    Of a subclass that is read by methods of its own, its full name: what it shows to one reader
    need not be what it shows to the next.
    """
    kind = type(returned)
    for plain in (tuple, list, dict):
        if issubclass(kind, plain):
            if all(getattr(kind, name) is getattr(plain, name) for name in _READ_BY):
                return plain.__name__
            return _full_name(kind)
    is_mapping = isinstance(returned, Mapping) and not isinstance(returned, torch.Tensor)
    return _full_name(kind) if is_mapping else ""


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")[:_TEXT_CAP]


def returned_items(returned: object, names: Sequence[str]) -> list[tuple[str, object]]:
    """Return (name, value) of everything that a call returned, in the declared order.

    A tensor or scalar is one element, a tuple or list its members; a dict with exactly the
    declared names is put in their order, any other keeps its own. What a subclass says that it
    holds is not asked.
    """
    if isinstance(returned, dict):
        pairs = list(dict.items(returned))[:_MAX_ITEMS]
        found = {str(key)[:_TEXT_CAP]: value for key, value in pairs}
        keys = list(names) if set(found) == set(names) else list(found)
        return [(key, found[key]) for key in keys]
    if isinstance(returned, tuple | list):
        own = tuple.__iter__ if isinstance(returned, tuple) else list.__iter__
        members = list(islice(own(returned), _MAX_ITEMS))  # type: ignore[arg-type]
        return [
            (names[i] if len(members) == len(names) else "", member)
            for i, member in enumerate(members)
        ]
    return [(names[0] if len(names) == 1 else "", returned)]


def unshadowed(value: object) -> None:
    """Take from a tensor what a candidate set on it in place of torch's own methods.

    `y.detach = lambda: right(x)` would compute the answer when it is read; the memory is judged.
    """
    if type(value) is torch.Tensor:  # of a subclass the exact type is judged
        mine = value.__dict__
        for name in _OWN.intersection(mine):
            del mine[name]


def describe(value: object, *, name: str, inputs: Mapping[str, torch.Tensor]) -> ResultItem:
    """Return the structure of one returned value; nothing is evaluated or copied."""
    exact = _full_name(type(value))
    if isinstance(value, torch.Tensor):
        # A subclass may evaluate itself when it is asked anything: read the base class's fields.
        with torch._C.DisableTorchFunctionSubclass():
            dtype = str(value.dtype).removeprefix("torch.")
            strided = value.layout is torch.strided and not value.is_nested
            if not strided or dtype not in DTYPES:
                kind = f"{exact}[{value.layout}]"
                return ResultItem(kind="other", type_name=kind, dtype=dtype, name=name)
            try:
                storage_bytes = int(_STORAGE(value).nbytes())
            except RuntimeError:  # meta tensors and some subclasses have no storage to ask
                storage_bytes = 0
            return ResultItem(
                kind="tensor",
                type_name=exact,
                dtype=dtype,
                shape=tuple(value.shape),
                strides=tuple(value.stride()),
                device=str(value.device),
                aliases=tuple(other for other, tensor in inputs.items() if _shares(value, tensor)),
                name=name,
                requires_grad=value.requires_grad,
                flags=tuple(name for name, is_set in _FLAGS.items() if is_set(value)),
                storage_bytes=storage_bytes,
            )
    if value is None:
        return ResultItem(kind="none", type_name="NoneType", name=name)
    if type(value) in (bool, int, float):
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:
            number = math.inf
        return ResultItem(kind="scalar", type_name=exact, scalar=number, name=name)
    return ResultItem(kind="other", type_name=exact, name=name)


def _shares(first: torch.Tensor, second: torch.Tensor) -> bool:
    try:
        pointer = _STORAGE(first).data_ptr()
        return pointer != 0 and pointer == _STORAGE(second).data_ptr()
    except RuntimeError:  # meta tensors and some subclasses have no storage to ask
        return False


def address(value: object) -> int:
    """Return where the first element of a tensor lies; 0 for what would have to be evaluated."""
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return 0
    try:
        return _DATA_PTR(value)
    except RuntimeError:  # a meta tensor has no storage to ask
        return 0


def with_overlaps(found: Sequence[ResultItem], places: Sequence[int]) -> list[ResultItem]:
    """Return the items of one call, each with the positions of those that share a byte with it.

    `places` are the addresses of their first elements, 0 where that is not known. Tensors that
    lie between one another's elements, as slices of one buffer do, share none.
    """
    spans = []  # from the first byte to the last, 0 for what is no tensor
    for item in found:
        plain = item.kind == "tensor" and item.dtype in DTYPES
        plain = plain and len(item.shape) == len(item.strides) and 0 not in item.shape
        reach = [(n - 1) * step for n, step in zip(item.shape, item.strides, strict=False)]
        spans.append(
            itemsize(item.dtype) * (1 + sum(reach))
            if plain and min(item.strides, default=0) >= 0
            else 0
        )
    shared: list[list[int]] = [[] for _ in found]
    left = _OVERLAP_BYTES
    for one in range(len(found)):
        for other in range(one):
            low, high = sorted((one, other), key=places.__getitem__)
            distance = places[high] - places[low]
            if not places[low] or not spans[high] or distance >= spans[low]:
                continue
            meet = distance == 0
            if not meet:
                room = distance + spans[low] + spans[high]
                sizes = [_lengths(found[n]) for n in (low, high)]
                left -= room + sum(map(math.prod, sizes))
                meet = left >= 0 and _meet(found[low], found[high], distance, room=room)
            if meet:
                shared[one].append(other)
                shared[other].append(one)
    return [
        replace(item, overlaps=tuple(sorted(of))) if of else item
        for item, of in zip(found, shared, strict=True)
    ]


def _lengths(item: ResultItem) -> tuple[int, ...]:
    """Return a tensor's shape, 1 for an axis whose slices are the same memory."""
    return tuple(n if step else 1 for n, step in zip(item.shape, item.strides, strict=True))


def _meet(low: ResultItem, high: ResultItem, distance: int, *, room: int) -> bool:
    """Whether two tensors share a byte, the second `distance` bytes behind the first."""
    taken = torch.zeros(room, dtype=torch.bool)

    def bytes_of(item: ResultItem, offset: int) -> torch.Tensor:
        size = itemsize(item.dtype)
        strides = [step * size for step in item.strides]
        return taken.as_strided((*_lengths(item), size), (*strides, 1), offset)

    bytes_of(low, 0).fill_(True)
    return bool(bytes_of(high, distance).any())


def plain_tensor(value: torch.Tensor) -> torch.Tensor:
    """Return `value` as a contiguous torch.Tensor on its device, evaluating a lazy subclass."""
    with torch.no_grad():
        if type(value) is torch.Tensor and not value.is_conj() and not value.is_neg():
            return _CONTIGUOUS(_DETACH(value))  # its own `detach` may be the candidate's
        if value.device.type == "meta":
            raise RuntimeError("the result is a meta tensor: it has a shape but no values")
        target = torch.empty(tuple(value.shape), dtype=value.dtype, device=value.device)
        return _COPY(target, value)


def base_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Return the whole base storage of a tensor as a uint8 tensor that shares it."""
    view = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return view.set_(_STORAGE(tensor))


def tensor_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a contiguous tensor, also of dtypes that torch itself cannot copy."""
    if tensor.dtype is torch.bool or not tensor.numel():
        return tensor.clone()
    return _VIEW(as_bytes(tensor).clone(), tensor.dtype).reshape(tensor.shape)


def host_memory(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a contiguous CPU tensor, which live as long as the view of them."""
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    content = (ctypes.c_char * size).from_address(_DATA_PTR(tensor))
    content.owner = tensor  # type: ignore[attr-defined]  # a copy from a GPU has no other owner
    return memoryview(content).cast("B")


def digest(tensors: Sequence[torch.Tensor]) -> str:
    """Return a digest of dtypes, shapes and bytes.

    CPU tensors: SHA-256. CUDA tensors: two 64-bit multilinear sums computed on the device,
    enough to tell runs of one program apart without moving the bytes.
    """
    result = hashlib.sha256()
    for tensor in tensors:
        result.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        if tensor.device.type == "cpu":
            result.update(host_memory(tensor))
        else:
            for word in _device_sums(as_bytes(tensor)):
                result.update(word.to_bytes(8, "little", signed=True))
    return result.hexdigest()


def _device_sums(data: torch.Tensor) -> Iterator[int]:
    if data.storage_offset() % 8:  # a view into the middle cannot be read as words
        data = data.clone()
    padded = torch.nn.functional.pad(data, (0, -data.numel() % 8)) if data.numel() % 8 else data
    words = padded.view(torch.int64) if padded.numel() else padded.to(torch.int64)
    index = torch.arange(min(_HASH_CHUNK, words.numel()), device=data.device)
    totals = torch.zeros(2, dtype=torch.int64, device=data.device)
    weights = (index * 0x9E3779B97F4A7C1 + 0x5851F42D) | 1, (index * 0x2545F4914F6CDD1 + 77) | 1
    for start in range(0, words.numel(), _HASH_CHUNK):
        chunk = words[start : start + _HASH_CHUNK]
        for k, weight in enumerate(weights):
            totals[k] = totals[k] * 0x5DEECE66D + (chunk * weight[: chunk.numel()]).sum()
    yield from totals.tolist()
