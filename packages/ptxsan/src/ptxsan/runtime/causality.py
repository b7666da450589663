"""Causality order, as races are judged by: which accesses of different threads are ordered.

PTX ISA, "Memory Consistency Model". Two accesses of the same bytes of which one writes are a data
race unless they are morally strong, or one is before the other in causality order. That has two
clauses:

1. Base causality order: program order, and what synchronizes, one after the other: barriers, and a
   release pattern that an acquire pattern saw (order.py, clocks.py).
2. A strong write is before X if an operation saw it (observation order) that is before X in base
   causality order. A strong read sees the write whose value it returns, an atomic too, and through
   an atomic those that the atomic saw. So the thread that drew the last ticket may put the counter
   back by a plain store: its own atomic saw all others, and no fence is needed for the counter.

The second clause is about the bytes that were seen alone. What else their writer did before needs
the first one. The tests' `ptxsan_support/memory_model.py` has the same order as relations between
events, and small programs run through both.
"""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.native import native


@native
def morally_strong(scope: int, needed: int) -> bool:
    """Whether two strong accesses of one granule are morally strong.

    `scope` is the narrower one of theirs, `needed` the least that includes both threads.
    """
    return scope >= needed


@native
def sees(kind: int) -> bool:
    """Whether an access of a kind sees strong writes: a strong read or an atomic."""
    return kind == L.STRONG_READ or kind == L.ATOMIC


@native
def hides(kind: int) -> bool:
    """Whether who comes after an access of a kind no longer sees the writes before it."""
    return kind == L.WRITE or kind == L.STRONG_WRITE
