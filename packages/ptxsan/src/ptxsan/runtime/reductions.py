"""cp.reduce.async.bulk: elements of a copy are combined with what lies at its target."""

from __future__ import annotations

from ptxsan.numerics.rounding import decode, encode
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import (
    load_f32,
    load_f64,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    store_f32,
    store_f64,
    store_u8,
    store_u16,
    store_u32,
    store_u64,
)

OPERATIONS = ("", "add", "min", "max", "inc", "dec", "and", "or", "xor")
TYPES = ("u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16", "f32", "f64")
ADD, MIN, MAX, INC, DEC, AND, OR, XOR = 1, 2, 3, 4, 5, 6, 7, 8
_U32, _S32, _U64, _S64, _B32, _B64, _F16, _BF16, _F32, _F64 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
_BORROW = -(1 << 63)


@native
def _size(kind: int) -> int:
    if kind in (_F16, _BF16):
        return 2
    return 4 if kind in (_U32, _S32, _B32, _F32) else 8


@native
def _below(a: int, b: int, kind: int) -> bool:
    """Whether a < b; 64-bit values without sign are compared by turning their top bits."""
    if kind == _U64:
        return (a ^ _BORROW) < (b ^ _BORROW)
    return a < b


@native
def _integer(operation: int, a: int, b: int, kind: int) -> int:
    if operation == ADD:
        return a + b
    if operation == MIN:
        return b if _below(b, a, kind) else a
    if operation == MAX:
        return b if _below(a, b, kind) else a
    if operation == INC:
        return 0 if not _below(a, b, kind) else a + 1
    if operation == DEC:
        return b if a == 0 or _below(b, a, kind) else a - 1
    if operation == AND:
        return a & b
    return a | b if operation == OR else a ^ b


@native
def _float(operation: int, a: float, b: float) -> float:
    if operation == ADD:
        return a + b
    if a != a:
        return b
    if b != b:
        return a
    return min(a, b) if operation == MIN else max(a, b)


@native
def _half(operation: int, a: int, b: int, index: int) -> int:
    result = _float(operation, decode(a, index), decode(b, index))
    return int(encode(result, index, 0, 0))


@native
def _element(to: int, source: int, operation: int, kind: int) -> None:
    if kind in (_F16, _BF16):
        index = 0 if kind == _F16 else 1
        store_u16(to, _half(operation, load_u16(to), load_u16(source), index))
    elif kind == _F32:
        store_f32(to, _float(operation, load_f32(to), load_f32(source)))
    elif kind == _F64:
        store_f64(to, _float(operation, load_f64(to), load_f64(source)))
    elif _size(kind) == 8:
        store_u64(to, _integer(operation, load_u64(to), load_u64(source), kind))
    else:
        a, b = load_u32(to), load_u32(source)
        if kind == _S32:
            a, b = a - ((a >> 31) << 32), b - ((b >> 31) << 32)
        store_u32(to, _integer(operation, a, b, kind) & 0xFFFFFFFF)


@native
def reduce_bytes(to: int, source: int, nbytes: int, operation: int, kind: int) -> None:
    """Combine `nbytes` at two places (results of an access), with init flags; f32 keeps shadows."""
    size = _size(kind)
    for start in range(0, nbytes, size):
        place = load_u64(to) + start
        first, second = load_u64(to + 16) + 2 * start, load_u64(source + 16) + 2 * start
        exact = 0.0
        if kind == _F32 and operation == ADD:
            exact = load_f32(place) + load_f32(load_u64(source) + start)
        _element(place, load_u64(source) + start, operation, kind)
        if kind == _F32 and operation == ADD:
            exact += load_f32(first) + load_f32(second)
            store_f32(first, exact - load_f32(place))
        elif kind in (_F32, _F64):
            store_f32(first, 0.0)
        for index in range(start, start + size):
            flags = load_u8(load_u64(to + 8) + index)
            other = load_u8(load_u64(source + 8) + index)
            store_u8(load_u64(to + 8) + index, flags if other & 1 else flags & 254)
