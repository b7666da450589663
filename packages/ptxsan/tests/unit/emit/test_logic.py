"""Shifts, fields, permutations and counts of bits, against the manual's pseudocode."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ptxsan_fuzz.execute import run_operations

_WHOLE = 0xFFFFFFFF
_EDGES = (0, 1, 5, 0x1F, 0x20, 0x21, 0x3210, 0x80000000, 0xF0F0A5A5, _WHOLE)
_ROWS = list(itertools.product(_EDGES, _EDGES, (0, 1, 8, 31, 32, 40, 0x4567, 0xFFFFFFFF)))


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _lut(a: int, b: int, c: int, table: int) -> int:
    found = 0
    for bit in range(32):
        place = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        found |= (table >> place & 1) << bit
    return found


def _bfind(value: int, *, signed: bool) -> int:
    if signed and value >> 31:
        value ^= _WHOLE
    return value.bit_length() - 1 if value else _WHOLE


def _bfe(a: int, b: int, c: int, *, signed: bool) -> int:
    """PTX ISA, "bfe": position and length are bytes; bits beyond the value are its sign or 0."""
    position, length = b & 0xFF, c & 0xFF
    if not length:
        return 0
    sign = a >> min(position + length - 1, 31) & 1 if signed else 0
    found = 0
    for bit in range(32):
        inside = bit < length and position + bit <= 31
        found |= (a >> (position + bit) & 1 if inside else sign) << bit
    return found


def _bfi(a: int, b: int, position: int, length: int) -> int:
    for bit in range(length):
        if position + bit <= 31:
            place = 1 << (position + bit)
            b = b & ~place | (place if a >> bit & 1 else 0)
    return b


def _prmt(a: int, b: int, selector: int) -> int:
    data, found = a | b << 32, 0
    for place in range(4):
        chosen = selector >> (4 * place) & 0xF
        byte = data >> (8 * (chosen & 7)) & 0xFF
        if chosen & 8:  # its sign, over the whole byte
            byte = 0xFF if byte & 0x80 else 0
        found |= byte << (8 * place)
    return found


# PTX ISA, "Logic and Shift Instructions" and bits of "Integer Arithmetic Instructions".
_RULES: dict[str, Callable[[int, int, int], int]] = {
    "shl.b32 %r1, %r3": lambda a, b, c: a << min(c, 32),
    "shr.u32 %r1, %r3": lambda a, b, c: a >> min(c, 32),
    "shr.s32 %r1, %r3": lambda a, b, c: _signed(a) >> min(c, 31),
    "shf.l.clamp.b32 %r1, %r2, %r3": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
    "shf.l.wrap.b32 %r1, %r2, %r3": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    "shf.r.clamp.b32 %r1, %r2, %r3": lambda a, b, c: (b << 32 | a) >> min(c, 32),
    "shf.r.wrap.b32 %r1, %r2, %r3": lambda a, b, c: (b << 32 | a) >> (c & 31),
    "not.b32 %r1": lambda a, b, c: ~a,
    "cnot.b32 %r1": lambda a, b, c: int(a == 0),
    "lop3.b32 %r1, %r2, %r3, 0x96": lambda a, b, c: a ^ b ^ c,
    "lop3.b32 %r1, %r2, %r3, 0xCA": lambda a, b, c: _lut(a, b, c, 0xCA),
    "popc.b32 %r1": lambda a, b, c: a.bit_count(),
    "clz.b32 %r1": lambda a, b, c: 32 - a.bit_length(),
    "brev.b32 %r1": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "bfind.u32 %r1": lambda a, b, c: _bfind(a, signed=False),
    "bfind.s32 %r1": lambda a, b, c: _bfind(a, signed=True),
    "bfe.u32 %r1, %r2, %r3": lambda a, b, c: _bfe(a, b, c, signed=False),
    "bfe.s32 %r1, %r2, %r3": lambda a, b, c: _bfe(a, b, c, signed=True),
    "bfi.b32 %r1, %r2, 5, 8": lambda a, b, c: _bfi(a, b, 5, 8),
    "bfi.b32 %r1, %r2, 28, 9": lambda a, b, c: _bfi(a, b, 28, 9),
    "prmt.b32 %r1, %r2, %r3": _prmt,
}


def test_bits_follow_the_manual() -> None:
    for row, found in zip(_ROWS, run_operations(list(_RULES), _ROWS), strict=True):
        expected = {name: rule(*row) & _WHOLE for name, rule in _RULES.items()}
        assert found == expected, row
