"""A value while it is compiled: LLVM text of its bits, its poison and its shadows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ptxsan.isa import SMALL_FLOATS

_WIDTH = re.compile(r"\D+(\d+)(x\d)?$")
_TWO_LANES = frozenset(("b32", "u32", "s32", "f16x2", "bf16x2", "b64", "u64", "s64"))
_ONE_LANE = frozenset(("f16", "bf16", "b16", "u16", "s16", "f32", "tf32"))
_PACKED = {"f16x2": 32, "bf16x2": 32, "tf32": 32, "pred": 1, "u16x2": 32, "s16x2": 32}
_PACKED |= {name: bits for name, (_, bits) in SMALL_FLOATS.items()}
_PACKED |= {"e4m3": 8, "e5m2": 8, "e2m1": 4, "e2m3": 6, "e3m2": 6}
ZERO = "0.0"


def width_of(type_: str) -> int:
    """Return the bits of a PTX type: 16 for `bf16`, 32 for `bf16x2`, 1 for `pred`."""
    if type_ in _PACKED:
        return _PACKED[type_]
    match = _WIDTH.fullmatch(type_)
    if match is None:
        raise KeyError(type_)
    return int(match.group(1)) * (int(match.group(2)[1:]) if match.group(2) else 1)


def lanes_of(type_: str, *, doubles: bool = False) -> int:
    """Return how many shadows a value of this type has; f64 has one where `doubles` says so."""
    if type_ in _TWO_LANES:
        return 2
    return 1 if type_ in _ONE_LANE or (doubles and type_ == "f64") else 0


def ones_of(width: int) -> int:
    """Return a number of `width` bits with a 1 in every byte."""
    return int.from_bytes(b"\x01" * (width // 8), "little")


def is_signed(type_: str) -> bool:
    """Whether widening copies the sign."""
    return type_.startswith("s")


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a PTX type.

    `bits` is LLVM text of type i{width}, `poison` of type i1 (true: depends on memory that nobody
    wrote), `shadow` one double a lane: what exact arithmetic would have given, less what is there.
    `undefined`, where bytes are told apart, is of type i{width}: 1 in each byte that depends on
    such memory.
    """

    type: str
    bits: str
    poison: str = "false"
    shadow: tuple[str, ...] = ()
    undefined: str = ""

    @property
    def width(self) -> int:
        """Width in bits."""
        return width_of(self.type)

    def lane(self, index: int) -> str:
        """Return the shadow of a lane; 0.0 where there is none."""
        return self.shadow[index] if index < len(self.shadow) else ZERO
