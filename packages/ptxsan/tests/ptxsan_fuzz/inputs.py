"""The inputs of random programs: bits from a counter-based generator, with special values mixed in.

Not numpy's generators: the same bits are needed on another machine with another numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPECIAL = np.array(
    [
        0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
        0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F000000,
        0x4B000001, 0x33800000, 0x3C003C00, 0x7C007C00, 0x7E00FC00, 0x7BFF0001, 0x03FF0400,
        0x3F803F80, 0x7F80FF80, 0x7F7F0080, 0x00000007, 0x0000001F, 0xFFFFFFFF, 0x7FFFFFFF,
        0x4F000000, 0xCF000000, 0x5F000000, 0x42FF0000,
    ],
    np.uint32,
)  # fmt: skip


def mix(seed: int, count: int) -> NDArray[np.uint64]:
    """Return uint64[count] of well mixed bits (splitmix64; Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        state = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 24)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def words(seed: int, count: int) -> NDArray[np.uint32]:
    """Return uint32[count]: raw bits, floats near one, small integers and special values."""
    raw = mix(seed, 2 * count)
    bits = (raw[:count] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    kind = ((raw[count:] >> np.uint64(8)) % np.uint64(8)).astype(np.int64)
    near_one = (bits & np.uint32(0x807FFFFF)) | (
        np.uint32(0x3C000000) + ((bits >> np.uint32(8)) & np.uint32(0x07800000))
    )
    small = (bits >> np.uint32(20)).astype(np.int32) - np.int32(2048)
    special = _SPECIAL[(raw[count:] & np.uint64(31)).astype(np.int64)]
    halves = (near_one >> np.uint32(16)) | (bits & np.uint32(0xBFFF0000))
    choices = np.stack(
        [bits, near_one, near_one, near_one, small.view(np.uint32), special, halves, bits]
    )
    return choices[kind, np.arange(count)].astype(np.uint32)
