"""Which buffers a launch may reach: those of its arguments, and what their contents lead to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ptxsan.launch import Buffer, Launch


def reached(launch: Launch) -> list[Buffer]:
    """Return the buffers that a launch may reach over its arguments and addresses in memory.

    A word of memory that equals an address counts as one: what is returned may be too much.
    """
    left = sorted((one for one in launch.buffers if one.address), key=lambda one: one.address)
    found: dict[int, Buffer] = {}
    pending = [one.buffer for one in launch.pointers()]
    while pending:
        buffer = pending.pop()
        if id(buffer) not in found:
            found[id(buffer)] = buffer
            left = [one for one in left if id(one) not in found]
            pending += led_to(buffer, left)
    return list(found.values())


def led_to(buffer: Buffer, known: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield those of the `known` buffers, sorted by address, to which words of a buffer may point.

    A buffer without bytes is as long as the next one is away.
    """
    words = buffer.data[: buffer.data.nbytes & ~7].view(np.uint64)
    if not known or not words.size:
        return
    first = np.array([one.address for one in known], np.uint64)
    last = first + np.array([one.data.nbytes for one in known], np.uint64)
    words = words[(words >= first[0]) & (words <= last.max())]
    places = np.searchsorted(first, words, side="right") - 1
    for place in np.unique(places):
        one = known[int(place)]
        if not one.data.nbytes or bool((words[places == place] <= last[place]).any()):
            yield one
