"""Contexts in which blocks run: a block record, thread records and shared memory each."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan import objects, pages
from ptxsan.codegen import Code
from ptxsan.launch import Launch
from ptxsan.options import Options
from ptxsan.program import Program
from ptxsan.records import LaunchState
from ptxsan.runtime import layout as L

_ROOM_BYTES = 1 << 29
_MOST_GROUPS = 4096
UPDATE_BYTES = L.U_HEADER + L.U_TABLES * L.U_BYTES  # of the deferred updates of a worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Room for `groups` clusters at once; `blocks` are their records, one after the other."""

    groups: int
    blocks: NDArray[np.uint8]
    memory: NDArray[np.uint8]


def context_bytes(program: Program, code: Code, shared_bytes: int, threads: int) -> int:
    """Return the bytes that one block's context takes."""
    granules = (shared_bytes // program.granule["shared"]) + 2
    memory = 2 * shared_bytes + 4 * (shared_bytes // 2 + 8) + 16 * granules
    return threads * code.thread_bytes + -(-(memory + 256) // 64) * 64


def make(
    program: Program, code: Code, launch: Launch, options: Options, state: LaunchState, *,
    workers: int, one_by_one: bool = False,
) -> list[Contexts]:  # fmt: skip
    """Return contexts for each worker: as many as fit, since blocks may wait for each other.

    `one_by_one`: a worker runs one cluster after another, and several of them keep its updates
    until those before are done.
    """
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    cluster = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    units = launch.grid[0] * launch.grid[1] * launch.grid[2] // cluster
    shared = state.get32(L.SHARED_BYTES)
    extra = objects.of(program, launch, options)
    objects.prepare_snapshots(state, extra.words)
    one = context_bytes(program, code, shared, threads) + extra.block_bytes
    room = max(1, min(units, _ROOM_BYTES // (one * cluster), _MOST_GROUPS))
    if workers > 1:
        room = min(room, 2)  # blocks that do not communicate never wait for each other
    room = 1 if one_by_one else room
    found = []
    for _ in range(workers):
        blocks = pages.zeros(room * cluster * L.BLOCK_BYTES)
        memory = pages.zeros(room * cluster * one + 64)
        peers = np.zeros(room * cluster, np.uint64)
        stats = np.zeros_like(state.stats[0])
        state.stats.append(stats)
        for index in range(room * cluster):
            start = -(-memory.ctypes.data // 64) * 64 + index * one
            place = index * L.BLOCK_BYTES
            data = start + threads * code.thread_bytes
            init = data + shared
            shadow = init + shared
            records = -(-(shadow + 4 * (shared // 2 + 8)) // 16) * 16
            struct.pack_into(
                "<II", blocks.data, place + L.BLOCK_THREADS, threads, code.thread_bytes
            )
            struct.pack_into("<Q", blocks.data, place + L.BLOCK_THREAD0, start)
            meta = records if options.races else 0
            struct.pack_into("<QQQQ", blocks.data, place + L.SHARED_DATA, data, init, shadow, meta)
            extra.place(blocks, index, start + one - extra.block_bytes)
            peers[index] = blocks.ctypes.data + index * L.BLOCK_BYTES
            struct.pack_into(
                "<Q", blocks.data, index * L.BLOCK_BYTES + L.BLOCK_STATS, stats.ctypes.data
            )
            if cluster > 1:
                group = peers.ctypes.data + 8 * (index - index % cluster)
                struct.pack_into("<Q", blocks.data, index * L.BLOCK_BYTES + L.BLOCK_PEERS, group)
        objects.fill_tables(extra, blocks, memory)
        if one_by_one and workers > 1:
            state.keep.append(updates := pages.zeros(UPDATE_BYTES))
            struct.pack_into("<Q", blocks.data, L.BOOK, updates.ctypes.data)
        state.keep += [blocks, memory, peers]
        found.append(Contexts(groups=room, blocks=blocks, memory=memory))
    return found
