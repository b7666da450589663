"""Memory access for Triton's interpreter, with atomics that round 16-bit floats correctly.

The native module reads and writes bytes at addresses. Its atomics know neither bfloat16 nor,
in every version, float16; here those are carried out element by element in the order of the
block, each sum rounded to the type, which is what `atom.add.noftz.{f16,bf16}` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cuassay.build.interpreter.numerics import NARROW, Array, binary, occurrence

_SIXTEEN_BITS = 2


class InterpreterModule:
    """Stands in for `triton._C.libtriton.interpreter`; forwards what needs no repair."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def load(self, pointers: Array, mask: Array, other: Array, dtype: np.dtype[Any]) -> Array:
        """Return the values at the addresses where `mask` holds, `other` elsewhere."""
        if dtype not in NARROW:
            return np.asarray(self._native.load(pointers, mask, other, dtype))
        raw = np.dtype(f"u{dtype.itemsize}")
        found: Array = self._native.load(pointers, mask, _bits(other), raw)
        return found.view(dtype)

    def store(self, pointers: Array, values: Array, mask: Array) -> Any:
        """Write `values` at the addresses where `mask` holds."""
        return self._native.store(pointers, _bits(values), mask)

    def atomic_cas(self, pointers: Array, compare: Array, values: Array, *rest: Any) -> Array:
        """Compare bits and swap; return what was there."""
        old: Array = self._native.atomic_cas(pointers, _bits(compare), _bits(values), *rest)
        return old.view(values.dtype)

    def atomic_rmw(
        self, operation: Any, pointers: Array, values: Array, mask: Array, *rest: Any
    ) -> Array:
        """Read, modify and write; return what was there, zero where `mask` is off."""
        narrow = values.dtype in NARROW or values.dtype == np.float16
        if narrow and operation == self._native.RMW_OP.FADD:
            addresses, flat, on = np.broadcast_arrays(pointers, values, mask)
            shape = addresses.shape
            addresses, flat = addresses.reshape(-1), flat.reshape(-1)
            active = np.flatnonzero(on.reshape(-1))
            old: Array = np.zeros(flat.shape, dtype=values.dtype)
            ranks = occurrence(addresses[active])
            for rank in range(int(ranks.max(initial=-1)) + 1):  # equal addresses take turns
                chosen = active[ranks == rank]
                old[chosen] = self._add_once(addresses[chosen], flat[chosen])
            return old.reshape(shape)
        old = self._native.atomic_rmw(operation, pointers, _bits(values), mask, *rest)
        found: Array = old.view(values.dtype)
        return found

    def _add_once(self, addresses: Array, values: Array) -> Array:
        everywhere = np.ones(addresses.shape, dtype=bool)
        dtype = np.dtype(np.uint16) if values.itemsize == _SIXTEEN_BITS else np.dtype(np.uint8)
        zeros = np.zeros(addresses.shape, dtype=dtype)
        before = self._native.load(addresses, everywhere, zeros, dtype).view(values.dtype)
        self._native.store(addresses, _bits(binary(np.add, before, values)), everywhere)
        found: Array = before
        return found


def _bits(values: Array) -> Array:
    if values.dtype in NARROW:
        return values.view(f"u{values.dtype.itemsize}")
    return values
