"""Arrays of residues: what `runtime.algebra` does to one number, done to every number of an array.

For references that run beside a kernel. Slots are int64 (`numerics.residues`), with their numbers
beside them as float64: a slot that says NONE or INPUT is what its number makes of it. All arrays
are one-dimensional, contiguous and of one length.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics import residues as R
from ptxsan.numerics.native import native
from ptxsan.runtime import algebra as A

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
ERF = 8  # a kind of `residues.hashed`, beside those of runtime.algebra


@native
def resolved(slots: Ints, values: Floats, key: int) -> Ints:
    """Return slots that are residues; NONE where the number is not finite.

    `key` is `residues.Residues.key`.
    """
    found = np.empty(slots.size, np.int64)
    for place in range(slots.size):
        code = slots[place] & 0xFFFFFFFF
        if code >= R.FIRST:
            found[place] = slots[place]
        elif code == R.INPUT:
            found[place] = R.of_input(key, values[place])
        else:
            found[place] = R.of_constant(values[place])
    return found


@native
def combined(operation: int, a: Ints, b: Ints) -> Ints:
    """Return a + b, a - b, a b or a / b of resolved slots; NONE where one of them is NONE."""
    found = np.zeros(a.size, np.int64)
    for place in range(a.size):
        x, y = a[place], b[place]
        if x == R.NONE or y == R.NONE:
            continue
        if operation == A.ADD:
            found[place] = R.added(x, y)
        elif operation == A.SUB:
            found[place] = R.added(x, R.negated(y))
        elif operation == A.MUL:
            found[place] = R.multiplied(x, y)
        else:
            y = R.inverted(y)
            found[place] = R.NONE if y == R.NONE else R.multiplied(x, y)
    return found


@native
def applied(operation: int, a: Ints, values: Floats) -> Ints:
    """Return a function of resolved slots, strictly; NONE where the slot is NONE."""
    found = np.zeros(a.size, np.int64)
    for place in range(a.size):
        if a[place] == R.NONE:
            continue
        if operation == ERF:
            found[place] = R.hashed(ERF, R.part_p(a[place]))
        else:
            found[place] = A.function(operation, a[place], values[place], True)
    return found


@native
def negated(a: Ints) -> Ints:
    """Return -a of resolved slots."""
    found = np.empty(a.size, np.int64)
    for place in range(a.size):
        found[place] = R.negated(a[place])
    return found


@native
def running_products(a: Ints, length: int) -> Ints:
    """Return the products of the first elements of every row of `length`; NONE behind a NONE."""
    found = np.zeros(a.size, np.int64)
    for place in range(a.size):
        before = R.pack(1, 1) if place % length == 0 else found[place - 1]
        if before != R.NONE and a[place] != R.NONE:
            found[place] = R.multiplied(before, a[place])
    return found


@native
def parts(a: Ints, p: Ints, q: Ints) -> None:
    """Write the residues modulo P and Q of resolved slots: q is -1 where it is lost, 0 of NONE."""
    for place in range(a.size):
        if a[place] == R.NONE:
            p[place] = q[place] = 0
            continue
        p[place] = R.part_p(a[place])
        rest = R.part_q(a[place])
        q[place] = -1 if rest == R.LOST else rest


@native
def packed(p: Ints, q: Ints) -> Ints:
    """Return the slots of residues modulo P and Q; a negative q is lost."""
    found = np.empty(p.size, np.int64)
    for place in range(p.size):
        found[place] = R.pack(p[place], R.LOST if q[place] < 0 else q[place])
    return found
