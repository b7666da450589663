"""What a process that holds nothing of cuassay shares and says: arguments, results, exceptions.

Arguments lie in memory that the judge made. What a call returned is described by the guest, which
is untrusted, and read where it lies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from cuassay.model import serial
from cuassay.model.device import CPU
from cuassay.model.problem import Scalar
from cuassay.model.trace import Claim, ResultItem, StepRaised
from cuassay.sandbox.guest.items import DTYPES, host_memory
from cuassay.sandbox.guest.observe.state_snapshot import TEXT_MOST
from cuassay.sandbox.guest.transport import aligned_offsets, nbytes
from cuassay.sandbox.host.handle import Gone, GoneError
from cuassay.sandbox.host.unnamed import make_memory
from cuassay.sandbox.no_memory import says_no_memory

_CHUNK = 1 << 30
_FLAGS = {"conj": "conjugate bit", "neg": "negative bit"}
_FAR, _MOST_AXES = 1 << 48, 64  # what torch can lay out
_SPREAD = 4  # a result may span this many times the bytes it has, and is read as a whole


class SharedArguments:
    """Memory that holds the arguments of a call, in the function's order.

    `updated` are those that every call changes. It is a segment of its own, or lies `at` an offset
    of the segment behind `fd`, which somebody else closes; see `segment_for`.
    """

    def __init__(
        self,
        values: Mapping[str, torch.Tensor | Scalar],
        outputs: list[str],
        updated: Sequence[str] = (),
        *,
        fd: int | None = None,
        at: int = 0,
    ) -> None:
        tensors = {
            name: value.detach().cpu().contiguous()
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        }
        offsets, size = aligned_offsets([tensor.nbytes for tensor in tensors.values()])
        self.outputs, self.size, self.names = outputs, max(size, 1), tuple(tensors)
        self.places: list[int] = []  # addresses of the tensors in the process
        self._order = tuple(values)
        self._scalars = {
            name: value for name, value in values.items() if not isinstance(value, torch.Tensor)
        }
        self._like = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        self._places = {
            name: (at + offset, tensor.nbytes)
            for (name, tensor), offset in zip(tensors.items(), offsets, strict=True)
        }
        self._before = {name: tensors[name].clone() for name in updated}
        self.fd, self._is_own = (make_memory(self.size), True) if fd is None else (fd, False)
        for name, tensor in tensors.items():
            self._put(name, tensor)
        self.layout = [
            {
                "dtype": str(tensors[name].dtype).removeprefix("torch."),
                "shape": list(tensors[name].shape),
                "offset": self._places[name][0],
            }
            if name in tensors
            else {"scalar": serial.to_json(value)}
            for name, value in values.items()
        ]
        self.described = tuple(
            ResultItem(
                kind="tensor",
                type_name="torch.Tensor",
                dtype=str(tensor.dtype).removeprefix("torch."),
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                device=CPU,
                scalar=0.0,
                name=name,
            )
            for name, tensor in tensors.items()
            if name not in outputs
        )

    def _put(self, name: str, tensor: torch.Tensor) -> None:
        _all(os.pwrite, self.fd, host_memory(tensor), self._places[name][0])

    def refill(self, values: Mapping[str, torch.Tensor | Scalar]) -> str:
        """Copy the values of another case into the same memory; return why they do not fit."""
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and name in self._like:
                dtype, shape = self._like[name]
                if value.shape != shape or value.dtype != dtype:
                    return (
                        f"refill of '{name}': {tuple(value.shape)} {value.dtype} does not fit "
                        f"{tuple(shape)} {dtype}; refill with a case of equal shapes"
                    )
                plain = value.detach().cpu().contiguous()
                self._put(name, plain)
                if name in self._before:
                    self._before[name] = plain.clone()
            elif not isinstance(value, torch.Tensor):
                self._scalars[name] = value
        return ""

    def restore(self) -> bool:
        """Put back what every call changes; whether there is anything."""
        for name, tensor in self._before.items():
            self._put(name, tensor)
        return bool(self._before)

    def forth(self, slot: str) -> dict[str, Any]:
        """Return the request that makes what was written here the arguments of `slot`."""
        scalars = [[self._order.index(name), serial.to_json(self._scalars[name])]
                   for name in self._scalars]  # fmt: skip
        return {"do": "forth", "slot": slot, "scalars": scalars}

    def fill_outputs(self, byte: int) -> None:
        """Fill the outputs of a destination-style candidate with one byte."""
        for name in self.outputs:
            offset, size = self._places[name]
            filled = torch.full((size,), byte, dtype=torch.uint8)
            _all(os.pwrite, self.fd, host_memory(filled), offset)

    def sharing(self, storage: int) -> tuple[str, ...]:
        """Return the inputs that lie in the storage at an address."""
        found = zip(self.names, self.places, strict=False)
        return tuple(
            name for name, at in found if at and at == storage and name not in self.outputs
        )

    def inputs(self) -> dict[str, torch.Tensor]:
        """Return the bytes of every input as they are now, uint8."""
        found = {}
        for name, (offset, size) in self._places.items():
            if name not in self.outputs:
                data = torch.empty(size, dtype=torch.uint8)
                _all(lambda fd, part, at: os.preadv(fd, [part], at), self.fd,
                     host_memory(data), offset)  # fmt: skip
                found[name] = data
        return found

    def close(self) -> None:
        """Close the judge's descriptor of a segment of its own."""
        if self._is_own:
            os.close(self.fd)


def segment_for(
    each: Iterable[Mapping[str, torch.Tensor | Scalar]],
) -> tuple[int, int, list[int]]:
    """Return a new segment for the arguments of several slots: its bytes, and where each begins."""
    places, size = list[int](), 0
    for values in each:
        places.append(size)
        parts = [value.nbytes for value in values.values() if isinstance(value, torch.Tensor)]
        size += aligned_offsets(parts)[1]
    size = max(size, 1)
    return make_memory(size), size, places


def _all(
    move: Callable[[int, memoryview, int], int], fd: int, memory: memoryview, offset: int
) -> None:
    """Read or write all of `memory` at an offset of a file."""
    done = 0
    while done < len(memory):
        moved = move(fd, memory[done : done + _CHUNK], offset + done)
        if not moved:
            raise GoneError(Gone.GARBLED, "the process cut the memory of its arguments off")
        done += moved


class Described:
    """One value that a call returned, and where it lay as the call ended."""

    def __init__(self, item: ResultItem, *, at: int, number: int) -> None:
        self.item, self.at, self.number = item, at, number
        size = DTYPES[item.dtype].itemsize if item.dtype in DTYPES else 0
        steps = zip(item.shape, item.strides, strict=False)
        empty = 0 in item.shape
        self.span = 0 if empty else size * (1 + sum((n - 1) * step for n, step in steps))

    @property
    def readable(self) -> bool:
        """Whether its bytes can be read where they lie."""
        item = self.item
        if item.dtype not in DTYPES or len(item.shape) != len(item.strides):
            return False
        strided = all(step >= 0 for step in item.strides)
        whole = nbytes(item.dtype, item.shape)
        # An expanded tensor has few bytes for many elements, which are made here.
        return bool(self.at) and strided and 0 < self.span <= _SPREAD * whole


def read_described(found: Mapping[str, Any], held: SharedArguments) -> Described:
    """Return one described value. Raises GoneError where it is none."""
    name, kind = str(found.get("name", ""))[:200], str(found.get("type_name", ""))[:200]
    number = int(found["number"])
    try:
        match found.get("kind"):
            case "tensor":
                dtype = str(found["dtype"])
                if dtype not in DTYPES:
                    item = ResultItem(kind="other", type_name=kind, dtype=dtype[:80], name=name)
                    return Described(item, at=0, number=number)
                item = ResultItem(
                    kind="tensor",
                    type_name=kind,
                    dtype=dtype,
                    shape=tuple(int(length) for length in found["shape"]),
                    strides=tuple(int(step) for step in found["strides"]),
                    device=str(found["device"])[:80],
                    aliases=held.sharing(int(found.get("storage", 0))),
                    name=name,
                    requires_grad=found.get("requires_grad") is True,
                    flags=tuple(words for key, words in _FLAGS.items() if found.get(key) is True),
                    storage_bytes=int(found.get("storage_bytes", 0)),
                )
                at = int(found.get("at", 0))
                far = any(abs(step) >= _FAR for step in item.strides)
                if len(item.strides) != len(item.shape) or far or not 0 <= at < 1 << 63:
                    raise ValueError
                if len(item.shape) > _MOST_AXES:
                    raise ValueError
                return Described(item, at=at, number=number)
            case "scalar":
                item = ResultItem(
                    kind="scalar", type_name=kind, scalar=float(found["scalar"]), name=name
                )
            case "none":
                item = ResultItem(kind="none", type_name="NoneType", name=name)
            case _:
                item = ResultItem(kind="other", type_name=kind, name=name)
        return Described(item, at=0, number=number)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise GoneError(Gone.GARBLED, "a result that is not described") from None


def raised_in(reply: Mapping[str, Any], index: int) -> StepRaised | None:
    found = reply.get("raised")
    if not isinstance(found, dict):
        return None
    exception, message = str(found.get("exception"))[:200], str(found.get("message"))[:4096]
    no_memory = exception in ("MemoryError", "OutOfMemoryError") or (
        exception in ("RuntimeError", "AcceleratorError") and says_no_memory(message)
    )
    return StepRaised(
        index=index,
        exception=exception,
        message=message,
        claim=Claim.NO_MEMORY if no_memory else None,
    )


def read_texts(found: object) -> Mapping[str, str] | None:
    if not isinstance(found, dict):
        return None
    return {str(name)[:TEXT_MOST]: str(text)[:TEXT_MOST] for name, text in [*found.items()][:4096]}
