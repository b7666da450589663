"""Asynchronous stores and reductions of registers: what happens when one lands.

Until then the value, its init flags and its shadows lie in the entry of the operation.
"""

from __future__ import annotations

from ptxsan.runtime import inflight as F
from ptxsan.runtime import layout as L
from ptxsan.runtime.bulk import find_shared, mark, move, reduced_by, written_by
from ptxsan.runtime.native import native
from ptxsan.runtime.raw import load_u32, load_u64, store_u64
from ptxsan.runtime.reductions import reduce_bytes


@native
def land(entry: int, home: int, launch: int, agent: int, clock: int) -> None:
    """Write or reduce the value into shared memory; an agent writes it at a time of its own."""
    base, nbytes = F.scratch_of(home), load_u32(entry + F.BYTES)
    if not find_shared(home, launch, load_u64(entry + F.TARGET), nbytes, base):
        return
    source = base + 32
    store_u64(source, entry + F.DATA)
    store_u64(source + 8, entry + F.INIT)
    store_u64(source + 16, entry + F.SHADOW)
    operation, site = load_u32(entry + F.REDUCE), load_u32(entry + F.SITE)
    if operation == 0:
        move(base, source, 0, nbytes)
        written_by(load_u64(base + 24), launch, agent, clock, site, nbytes)
        return
    reduce_bytes(base, source, nbytes, operation, load_u32(entry + F.TYPE))
    reduced_by(load_u64(base + 24), launch, agent, clock, site, nbytes, home)
    if F.others_reduce(home, entry) == 0:
        mark(load_u64(base + 8), nbytes, 255 - L.REDUCING, 0)
