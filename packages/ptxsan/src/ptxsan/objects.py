"""Memory of a block for vector clocks, mbarriers and asynchronous operations in flight."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan import pages
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.program import Program
from ptxsan.records import LaunchState
from ptxsan.runtime import inflight
from ptxsan.runtime import layout as L

_SNAPSHOT_BYTES = 1 << 28
_TABLE = inflight.SCRATCH + inflight.ENTRIES * inflight.RECORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What a kernel needs: `words` entries in a vector clock (0: none), tables, tensor memory."""

    words: int
    threads: int
    tables: bool
    tensor: bool

    @property
    def block_bytes(self) -> int:
        """The bytes of one block."""
        clocks = self.threads + 16 + 2 + 2 + 2 * L.MOST_MBARRIERS * self.tables
        size = 4 * self.words * clocks
        if self.tables:
            size += L.MOST_MBARRIERS * L.M_RECORD + _TABLE
        return -(-size // 64) * 64 + self._tensor_bytes

    @property
    def _tensor_bytes(self) -> int:
        size = L.TM_LOADS + 4 * L.TM_SITES * self.threads
        return -(-size // 64) * 64 if self.tensor else 0

    def place(self, blocks: NDArray[np.uint8], index: int, start: int) -> None:
        """Point a block's record to its part of memory, which begins at address `start`."""
        record = index * L.BLOCK_BYTES

        def point(offset: int, address: int) -> None:
            struct.pack_into("<Q", blocks.data, record + offset, address)

        row = 4 * self.words
        struct.pack_into("<I", blocks.data, record + L.BLOCK_WORDS, self.words)
        if self.words:
            point(L.BLOCK_CLOCKS, start)
            point(L.NAMED_CLOCKS, start + row * self.threads)
            point(L.CLUSTER_CLOCKS, start + row * (self.threads + 16))
            point(L.REMOTE, start + row * (self.threads + 18))
        if self.tables:
            clocks = start + row * (self.threads + 20)
            table = clocks + 2 * row * L.MOST_MBARRIERS
            point(L.MBARRIERS, table)
            point(L.ASYNC, table + L.MOST_MBARRIERS * L.M_RECORD)
        if self.tensor:
            point(L.TENSOR, start + self.block_bytes - self._tensor_bytes)


def of(program: Program, launch: Launch, options: Options) -> Objects:
    """Return what the blocks of a launch need."""
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    wanted = options.races and (cluster > 1 or program.asynchronous)
    words = cluster * (threads + L.MOST_AGENTS) if wanted else 0
    return Objects(
        words=words, threads=threads, tables=program.has_objects, tensor=program.has_tensor_memory
    )


def fill_tables(objects: Objects, blocks: NDArray[np.uint8], memory: NDArray[np.uint8]) -> None:
    """Write what never changes into the mbarrier records of every block of a context."""
    if not objects.tables:
        return
    base = memory.ctypes.data
    row = 4 * objects.words
    for record in range(0, blocks.size, L.BLOCK_BYTES):
        table = struct.unpack_from("<Q", blocks.data, record + L.MBARRIERS)[0]
        clocks = table - 2 * row * L.MOST_MBARRIERS
        for number in range(L.MOST_MBARRIERS):
            at = table - base + number * L.M_RECORD
            opened = clocks + 2 * row * number if row else 0
            struct.pack_into("<I", memory.data, at + L.M_INDEX, number)
            struct.pack_into("<QQ", memory.data, at + L.M_OPEN, opened, opened + row)
            struct.pack_into("<Q", memory.data, at + L.M_BLOCK, blocks.ctypes.data + record)


def prepare_snapshots(state: LaunchState, words: int) -> None:
    """Give releases through atomics room for vector clocks."""
    if words:
        count = _SNAPSHOT_BYTES // (4 * words)
        state.table(L.SNAPSHOTS, pages.zeros(_SNAPSHOT_BYTES))
        state.set32(L.SNAPSHOT_LIMIT, count)
