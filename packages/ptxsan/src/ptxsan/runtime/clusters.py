"""barrier.cluster, and blocks of a cluster that end before others are done with their memory."""

from __future__ import annotations

from ptxsan.runtime import layout as L
from ptxsan.runtime.bulk_issue import finish
from ptxsan.runtime.clocks import learn, publish, tick
from ptxsan.runtime.native import export, native
from ptxsan.runtime.raw import copy_bytes, fill, load_u32, load_u64, store_u32
from ptxsan.runtime.reports import report_pair
from ptxsan.runtime.tensor_memory import check_released


@native
def home_of(block: int) -> int:
    """Return the record of the cluster's first block, which counts for all of them."""
    peers = load_u64(block + L.BLOCK_PEERS)
    return load_u64(peers) if peers else block


@native
def _live(block: int, launch: int) -> int:
    peers = load_u64(block + L.BLOCK_PEERS)
    if peers == 0:
        return load_u32(block + L.LIVE)
    size = load_u32(launch + L.CLUSTER_DIM) * load_u32(launch + L.CLUSTER_DIM + 4)
    total = 0
    for rank in range(size * load_u32(launch + L.CLUSTER_DIM + 8)):
        total += load_u32(load_u64(peers + 8 * rank) + L.LIVE)
    return total


@native
def _complete_if_due(block: int, launch: int) -> None:
    home = home_of(block)
    arrived = load_u32(home + L.CLUSTER_ARRIVED)
    if arrived == 0 or arrived < _live(block, launch):
        return
    store_u32(home + L.CLUSTER_ARRIVED, 0)
    store_u32(home + L.CLUSTER_PHASE, load_u32(home + L.CLUSTER_PHASE) + 1)
    words, clocks = 4 * load_u32(home + L.BLOCK_WORDS), load_u64(home + L.CLUSTER_CLOCKS)
    if words and clocks:
        copy_bytes(clocks + words, clocks, words)
    store_u32(block + L.CHANGES, load_u32(block + L.CHANGES) + 1)


@export("void(int64, int64, int64, int64, int64)")
def rt_cluster_arrive(thread: int, block: int, launch: int, release: int, site: int) -> None:
    """Arrive at the barrier of the cluster; who arrives twice without a wait is at fault."""
    home = home_of(block)
    if load_u32(thread + L.CLUSTER_CAME):
        gid = load_u32(thread + L.GID)
        report_pair(launch, L.K_TWICE, site, gid, 0, 0xFFFFFFFF, gid)
    phase = load_u32(home + L.CLUSTER_PHASE) + 1
    store_u32(thread + L.CLUSTER_CAME, phase)
    store_u32(thread + L.CLUSTER_TIMES + 8 * (phase & 1), phase)
    store_u32(thread + L.CLUSTER_TIMES + 8 * (phase & 1) + 4, load_u32(thread + L.CLOCK))
    store_u32(home + L.CLUSTER_ARRIVED, load_u32(home + L.CLUSTER_ARRIVED) + 1)
    if release:
        publish(thread, block, load_u64(home + L.CLUSTER_CLOCKS))
    tick(thread)
    _complete_if_due(block, launch)


@export("void(int64, int64)")
def rt_fence_inits(thread: int, block: int) -> None:
    """Let whoever waits at the barrier of the cluster from now on know this thread's mbarriers.

    PTX ISA, fence.mbarrier_init.release.cluster: for an arrival that releases nothing. What else
    the thread has done before is taken as known as well.
    """
    clocks = load_u64(home_of(block) + L.CLUSTER_CLOCKS)
    if clocks:
        publish(thread, block, clocks)
        tick(thread)


@native
def cluster_is_open(thread: int, block: int) -> bool:
    """Whether everybody has arrived at the phase that a thread arrived at."""
    return load_u32(home_of(block) + L.CLUSTER_PHASE) >= load_u32(thread + L.CLUSTER_CAME)


@export("int64(int64, int64, int64, int64)")
def rt_cluster_wait(thread: int, block: int, launch: int, site: int) -> int:
    """Return 1 where everybody has arrived at the barrier of the cluster, else 0."""
    if load_u32(thread + L.CLUSTER_CAME) == 0:
        gid = load_u32(thread + L.GID)
        report_pair(launch, L.K_CLUSTER_ORDER, site, gid, 0, 0xFFFFFFFF, gid)
        return 1
    if not cluster_is_open(thread, block):
        store_u32(thread + L.WAIT_SITE, site)
        return 0
    home = home_of(block)
    clocks = load_u64(home + L.CLUSTER_CLOCKS)
    if clocks:
        learn(thread, block, clocks + 4 * load_u32(home + L.BLOCK_WORDS))
    store_u32(thread + L.CLUSTER_SEEN, load_u32(thread + L.CLUSTER_CAME))
    store_u32(thread + L.CLUSTER_CAME, 0)
    return 1


@native
def leave(thread: int, block: int, launch: int) -> None:
    """A thread ends: the barrier of the cluster no longer waits for it."""
    home = home_of(block)
    came = load_u32(thread + L.CLUSTER_CAME)
    if came == load_u32(home + L.CLUSTER_PHASE) + 1 and load_u32(home + L.CLUSTER_ARRIVED):
        store_u32(home + L.CLUSTER_ARRIVED, load_u32(home + L.CLUSTER_ARRIVED) - 1)
    _complete_if_due(block, launch)


@export("void(int64, int64, int64, int64, int64, int64)")
def rt_end_block(block: int, launch: int, _a: int, _b: int, _c: int, _d: int) -> None:
    """A block has ended: what it leaves in flight, and who used its memory without order."""
    finish(block, launch)
    check_released(block, launch)
    remote, clocks = load_u64(block + L.REMOTE), load_u64(block + L.NAMED_CLOCKS)
    words = load_u32(block + L.BLOCK_WORDS)
    if remote == 0 or load_u64(block + L.BLOCK_PEERS) == 0:
        return
    fill(clocks, 4 * words, 0)
    threads, stride = load_u32(block + L.BLOCK_THREADS), load_u32(block + L.BLOCK_STRIDE)
    for index in range(threads):
        publish(load_u64(block + L.BLOCK_THREAD0) + index * stride, block, clocks)
    for entry in range(words):
        time = load_u32(remote + 8 * entry)
        if time > load_u32(clocks + 4 * entry):
            rank, inner = (
                entry // (threads + L.MOST_AGENTS),
                entry % (threads + L.MOST_AGENTS),
            )
            peer = load_u64(load_u64(block + L.BLOCK_PEERS) + 8 * rank)
            gid, site = load_u32(peer + L.FIRST_GID) + inner, load_u32(remote + 8 * entry + 4)
            report_pair(
                launch, L.K_OUTLIVED, site, gid, 0, 0xFFFFFFFF, load_u32(block + L.FIRST_GID)
            )
