"""What compiled kernels call in the algebra: residues of results, of memory, of products.

Operands come as bits and slot (`numerics.residues`), `index` is FloatFormat.index. A result whose
operands are not all finite has no residue of its own: NONE, the number that its bits hold. The same
holds where the bits decide: an exponential that is 0, a maximum, what was clamped.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ptxsan.numerics import residues as R
from ptxsan.numerics.native import float64, native
from ptxsan.numerics.rounding import decode
from ptxsan.runtime import layout as L
from ptxsan.runtime.native import export
from ptxsan.runtime.raw import add_u64, load_u64, store_u32, store_u64

ADD, SUB, MUL, DIV = 0, 1, 2, 3
RCP, SQRT, RSQRT, EX2, LG2, SIN, COS, TANH = 0, 1, 2, 3, 4, 5, 6, 7
_FULL = 6  # see run._FULL
_TWICE_LOG2E = 2 * R._LOG2E_Q % R.Q


@native
def value_of(bits: int, index: int) -> float:
    """Return the value of the bits of a format."""
    return float64(bits) if index == 6 else decode(bits & 0xFFFFFFFF, index)


@native
def resolved(launch: int, bits: int, slot: int, index: int) -> int:
    """Return the residue of a value; NONE if it is not finite."""
    code = slot & 0xFFFFFFFF
    if code >= R.FIRST:
        return slot
    if code == R.INPUT:
        seed = load_u64(load_u64(launch + L.RESIDUES) + 8 * L.T_SEED)
        return R.of_input(seed, value_of(bits, index))
    return R.of_constant(value_of(bits, index))


@export("int64(int64, int64, int64, int32)")
def al_resolve(launch: int, bits: int, slot: int, index: int) -> int:
    """Return the residue of a value, or NONE."""
    return resolved(launch, bits, slot, index)


@export("int64(int64, int32)")
def al_load(launch: int, cell: int) -> int:
    """Return the slot that a cell of shadow memory stands for."""
    number = cell & 0xFFFFFFFF
    if number <= R.INPUT:
        return R.INPUT - number
    table = load_u64(launch + L.RESIDUES)
    return load_u64(table + 8 * number) if number < load_u64(table + 8 * L.T_NEXT) else R.NONE


@export("int32(int64, int64)")
def al_store(launch: int, slot: int) -> int:
    """Return the cell of shadow memory for a slot: a new entry for every residue."""
    code = slot & 0xFFFFFFFF
    if code < R.FIRST:
        return R.INPUT - code
    table = load_u64(launch + L.RESIDUES)
    number = add_u64(table + 8 * L.T_NEXT, 1)
    if number >= load_u64(table + 8 * L.T_LIMIT):
        store_u32(launch + L.OVERFLOW, _FULL)
        return 1
    store_u64(table + 8 * number, slot)
    return number


@native
def of_memory(
    bits: NDArray[np.int64], cells: NDArray[np.uint32], table: NDArray[np.uint64], index: int
) -> NDArray[np.int64]:
    """Return the slot of every element of memory, NONE where it is not finite."""
    found = np.empty(bits.size, np.int64)
    for place in range(bits.size):
        number = np.int64(cells[place])
        if number > R.INPUT:
            found[place] = np.int64(table[number])
        elif number == R.NONE:
            found[place] = R.of_input(int(table[L.T_SEED]), value_of(bits[place], index))
        else:
            found[place] = R.of_constant(value_of(bits[place], index))
    return found


def prepare() -> None:
    """Compile what is called from Python: some processes may not write the compiled code."""
    nothing = np.zeros(0, np.int64), np.zeros(0, np.uint32), np.zeros(L.T_FIRST, np.uint64)
    of_memory(*nothing, 2)


@export("int64(int64)")
def al_negate(slot: int) -> int:
    """Return the slot of -x."""
    return R.negated(slot)


@export("int64(int64, int32, int64, int64, int64, int64, int32)")
def al_binary(
    launch: int, operation: int, a: int, slot_a: int, b: int, slot_b: int, index: int
) -> int:
    """Return a + b, a - b, a b or a / b."""
    x, y = resolved(launch, a, slot_a, index), resolved(launch, b, slot_b, index)
    if x == R.NONE or y == R.NONE:
        return R.NONE
    if operation == ADD:
        return R.added(x, y)
    if operation == SUB:
        return R.added(x, R.negated(y))
    if operation == DIV:
        y = R.inverted(y)
        if y == R.NONE:
            return R.NONE
    return R.multiplied(x, y)


@export("int64(int64, int64, int64, int64, int64, int64, int64, int32)")
def al_fma(
    launch: int, a: int, slot_a: int, b: int, slot_b: int, c: int, slot_c: int, index: int
) -> int:
    """Return a b + c."""
    x, y = resolved(launch, a, slot_a, index), resolved(launch, b, slot_b, index)
    z = resolved(launch, c, slot_c, index)
    if x == R.NONE or y == R.NONE or z == R.NONE:
        return R.NONE
    return R.added(R.multiplied(x, y), z)


@export("int64(int64, int32, int64, int64, int32, int64)")
def al_unary(launch: int, operation: int, a: int, slot: int, index: int, result: int) -> int:
    """Return a function of a; `result` is what it gave, in bits."""
    x = resolved(launch, a, slot, index)
    if x == R.NONE:
        return R.NONE
    strict = (load_u64(load_u64(launch + L.RESIDUES) + 8 * L.T_SEED) >> 32) & 1 != 0
    if operation == EX2 and not strict and value_of(result, index) == 0.0:
        return R.NONE
    return function(operation, x, value_of(a, index), strict)


@native
def function(operation: int, x: int, value: float, strict: bool) -> int:
    """Return the slot of a function of x, whose number is `value`."""
    p = R.part_p(x)
    if operation == RCP:
        return R.inverted(x)
    if operation in (SQRT, RSQRT):
        root = R.strict_root(x, value) if strict else R.rooted(x)
        return root if operation == SQRT else R.inverted(root)
    if operation == EX2:
        return R.exponential(x, 1)
    if operation == TANH:
        e = R.exponential(x, _TWICE_LOG2E)  # (e^2x - 1) / (e^2x + 1)
        up, down = R.added(e, R.negated(R.pack(1, 1))), R.inverted(R.added(e, R.pack(1, 1)))
        return R.NONE if down == R.NONE else R.multiplied(up, down)
    if operation == LG2:
        return R.FIRST if p == 1 else R.random_residue(p * 64 + LG2)
    if operation == COS:
        return R.pack(1, 1) if p == 0 else R.random_residue(min(p, R.P - p) * 64 + COS)
    return R.hashed(SIN, p)


@export("int64(int64, int64, int64, int64, int64, int64, int32)")
def al_choose(
    launch: int, a: int, slot_a: int, b: int, slot_b: int, result: int, index: int
) -> int:
    """Return the residue of the operand that a minimum or maximum gave; of two, one fixed one."""
    if a == result and b == result:
        x, y = resolved(launch, a, slot_a, index), resolved(launch, b, slot_b, index)
        return min(x, y)
    if a == result:
        return resolved(launch, a, slot_a, index)
    if b == result:
        return resolved(launch, b, slot_b, index)
    return R.NONE


@export("int64(int64, int64, int32)")
def al_clamped(slot: int, result: int, index: int) -> int:
    """Return the residue of a result clamped to [0, 1] or from 0 on: by the bits at the ends."""
    value = value_of(result, index)
    return R.NONE if value in (0.0, 1.0) else slot
