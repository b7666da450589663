"""Which buffers a launch may reach over addresses in memory."""

from __future__ import annotations

import numpy as np

from ptxsan.addresses import led_to, reached
from ptxsan.launch import Buffer, Launch, Pointer


def _buffer(name: str, words: list[int], address: int) -> Buffer:
    return Buffer(name=name, data=np.array(words, np.uint64).view(np.uint8), address=address)


def test_a_launch_reaches_what_tables_lead_to_over_other_tables() -> None:
    last = _buffer("last", [7], 0x3000)
    middle = _buffer("middle", [0, 0x3000], 0x2000)
    first = _buffer("first", [0x2008], 0x1000)
    alone = _buffer("alone", [0x1000], 0x4000)
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(1, 1, 1), arguments=(Pointer(buffer=first),),
        buffers=(last, middle, first, alone),
    )  # fmt: skip
    assert [one.name for one in reached(launch)] == ["first", "middle", "last"]


def test_a_buffer_without_bytes_is_as_long_as_the_next_one_is_away() -> None:
    gone = Buffer(name="gone", data=np.zeros(0, np.uint8), address=0x1000)
    known = [gone, _buffer("later", [0], 0x2000)]
    names = [[one.name for one in led_to(_buffer("t", [word], 0), known)] for word in (
        0x0FFF, 0x1800, 0x2000, 0x2008, 0x2009,
    )]  # fmt: skip
    assert names == [[], ["gone"], ["later"], ["later"], []]
