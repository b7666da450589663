"""What a GPU left of a launch beside what the PTX machine left: how many bytes agree, how far off.

Compared are the bytes that either of them changed. Both began on the same memory. Differences
have innocent causes: atomics and races in another order, `.approx` instructions, which the
machine computes with other last bits, and tensor cores of another architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cuassay.model.machine import Agreement
from cuassay.model.recording import RecordedLaunch, Region

if TYPE_CHECKING:
    from cuassay.build.machine.memory import StorageArena

_NAME = 200
_PLAIN = {
    "float64": "f8", "float32": "f4", "float16": "f2", "int64": "i8", "int32": "i4",
    "int16": "i2", "int8": "i1", "uint8": "u1", "bool": "u1",
}  # fmt: skip


def agreement(launch: RecordedLaunch, arena: StorageArena) -> tuple[Agreement, ...] | None:
    """Compare the machine's memory after a launch with the recorded one, region by region.

    None where the recording does not say what the launch left; else the regions that changed,
    of those that were recorded before and after.
    """
    if launch.after is None:
        return None
    ours = {region.base: region.buffer.data for region in arena.regions}
    found = []
    for place, region in enumerate(launch.regions):
        before, theirs = launch.contents.get(place), launch.after.get(place)
        if before is None or theirs is None or region.base not in ours:
            continue
        started, left = (np.frombuffer(data, dtype=np.uint8) for data in (before, theirs))
        one = _compared(region, started, left, np.asarray(ours[region.base]))
        found += [one] if one is not None else []
    return tuple(found)


def _compared(region: Region, started: Any, left: Any, ours: Any) -> Agreement | None:
    changed = (started != left) | (started != ours)
    count = int(changed.sum())
    if not count:
        return None
    apart = np.flatnonzero(left != ours)
    if apart.size:
        theirs, mine = (_values(region.dtype, data) for data in (left, ours))
        finite = np.isfinite(theirs) & np.isfinite(mine)
        if not finite.any():
            largest, scale = 0.0, 0.0
        else:
            theirs, mine = theirs[finite], mine[finite]
            with np.errstate(over="ignore"):
                largest = float(np.abs(theirs - mine).max())
            largest, scale = min(largest, np.finfo(np.float64).max), float(np.abs(theirs).max())
    else:
        largest, scale = (0.0, 0.0)
    return Agreement(
        allocation=region.name[:_NAME],
        nbytes=count,
        equal=count - int(apart.size),
        offset=int(apart[0]) if apart.size else None,
        dtype=region.dtype[:_NAME],
        largest=largest,
        scale=scale,
    )


def _values(dtype: str, data: Any) -> Any:
    """Return bytes as float64 elements of a dtype; none where it is not known."""
    if dtype == "bfloat16":
        halves = data[: data.size & ~1].view("<u2").astype(np.uint32)
        return (halves << 16).view(np.float32).astype(np.float64)
    kind = _PLAIN.get(dtype)
    if kind is None:
        return np.empty(0)
    size = int(kind[1])
    return data[: data.size // size * size].view(f"<{kind}").astype(np.float64)
