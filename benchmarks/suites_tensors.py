"""Runs MMA-Sim's own code on Python floats: its simulators take a tensor of one element at a time.

A `Floats` has the part of torch.Tensor that they use; `on_floats` puts a module in torch's place
while they run, whose `tensor`, `zeros`, `isnan` and `isinf` make and take such arrays. Values are
kept as Python floats, each rounded to the type that the array has, as torch keeps them.
"""

from __future__ import annotations

import contextlib
import math
import struct
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

_NUMPY = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


class Floats:
    """An array of one or two dimensions (`rows`: lists of floats), of a type of torch."""

    __slots__ = ("dtype", "one", "rows")

    def __init__(self, rows: Any, dtype: Any) -> None:
        self.rows, self.dtype = rows, dtype
        self.one = not isinstance(rows, list)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a matrix."""
        return len(self.rows), len(self.rows[0])

    def size(self) -> tuple[int, ...]:
        """Return the sizes of a matrix."""
        return self.shape

    def cpu(self) -> Floats:
        """Return the array: it is there."""
        return self

    def numel(self) -> int:
        """Return the number of elements of a vector."""
        return 1 if self.one else len(self.rows)

    def item(self) -> float:
        """Return the only element."""
        return self.rows if self.one else self.rows[0]  # type: ignore[no-any-return]

    def to(self, *, dtype: Any) -> Floats:
        """Return it as another type, or itself."""
        if dtype is self.dtype:
            return self
        raise NotImplementedError(f"{self.dtype} to {dtype}")

    def double(self) -> Floats:
        """Return the same values."""
        return self

    def sum(self) -> Floats:
        """Return the sum; what is asked of it is whether it is finite."""
        return Floats(sum(self.rows), self.dtype)

    def any(self) -> bool:
        """Return whether the only element is true."""
        return bool(self.rows)

    def __mul__(self, other: Floats) -> Floats:
        if other.one:
            factor = other.rows
            return self if factor == 1.0 else Floats([x * factor for x in self.rows], self.dtype)
        return Floats([x * y for x, y in zip(self.rows, other.rows, strict=True)], self.dtype)

    def __add__(self, other: Floats) -> Floats:
        return Floats(self.rows + other.rows, self.dtype)

    def __getitem__(self, at: Any) -> Floats:
        if not isinstance(at, tuple):
            found = self.rows[at]
        elif isinstance(at[0], slice):
            found = [row[at[1]] for row in self.rows[at[0]]]
        else:
            found = self.rows[at[0]][at[1]]
        return Floats(found, self.dtype)

    def __setitem__(self, at: int, value: Floats) -> None:
        self.rows[at] = value.item()

    def view(self, dtype: Any) -> Floats:
        """Return the same bits as another type."""
        if dtype is torch.int32:
            return Floats([[_bits(x) for x in row] for row in self.rows], dtype)
        if self.dtype is torch.int32:
            return Floats([[_float(x) for x in row] for row in self.rows], dtype)
        if self.rows in (0x7FFF, 0x7FFF_FFFF):
            return Floats(math.nan, dtype)
        raise NotImplementedError(f"{self.dtype} as {dtype}")

    def __rshift__(self, bits: int) -> Floats:
        return Floats([[x >> bits for x in row] for row in self.rows], self.dtype)

    def __lshift__(self, bits: int) -> Floats:
        return Floats([[x << bits for x in row] for row in self.rows], self.dtype)


def _bits(value: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def wrapped(tensor: torch.Tensor) -> Floats:
    """Return a matrix as floats."""
    return Floats(tensor.double().tolist(), tensor.dtype)


def _tensor(value: float, dtype: Any = torch.float32) -> Floats:
    with np.errstate(over="ignore"):
        rounded = float(_NUMPY[dtype](value)) if dtype in _NUMPY else value
    return Floats(rounded, dtype)


def _zeros(shape: tuple[int, int], dtype: Any) -> Floats:
    return Floats([[0.0] * shape[1] for _ in range(shape[0])], dtype)


@contextlib.contextmanager
def on_floats() -> Iterator[Callable[[Floats], torch.Tensor]]:
    """Let MMA-Sim's modules see this module's arrays as torch's; yield what makes them tensors."""
    from mmasim.simulator import arithmetic, nv_ptx

    def is_nan(one: Floats) -> Floats:
        return Floats(math.isnan(one.rows), torch.bool)

    def is_infinite(one: Floats) -> Floats:
        return Floats(math.isinf(one.rows), torch.bool)

    def as_tensor(found: Floats) -> torch.Tensor:
        return torch.tensor(found.rows, dtype=torch.float64).to(found.dtype)

    stand_in = types.ModuleType("torch")
    vars(stand_in).update(vars(torch))
    vars(stand_in).update(
        Tensor=Floats, tensor=_tensor, zeros=_zeros, isnan=is_nan, isinf=is_infinite
    )
    places = (arithmetic, nv_ptx)
    try:
        for module in places:
            module.torch = stand_in  # type: ignore[attr-defined]
        yield as_tensor
    finally:
        for module in places:
            module.torch = torch  # type: ignore[attr-defined]
