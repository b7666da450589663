"""All-reduce by stores into the peers' memory: two places in turn need no meeting at the end."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
import triton
import triton.language as tl

_BLOCK, _PLACES = 1024, 2
_KEPT = {}


@triton.jit
def _sum(
    parts, flags, calls, x, y, n, rank, RANKS: tl.constexpr, PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    call = tl.load(calls) + 1
    place = (call % PLACES) * RANKS
    table = parts.to(tl.pointer_type(tl.uint64))
    meets = flags.to(tl.pointer_type(tl.uint64))
    for peer in range(RANKS):
        there = tl.load(table + peer).to(tl.pointer_type(tl.float32)) + (place + rank) * n
        for start in range(0, n, BLOCK):
            at = start + tl.arange(0, BLOCK)
            tl.store(there + at, tl.load(x + at, mask=at < n), mask=at < n)
    tl.debug_barrier()  # all threads of the program have stored
    for peer in range(RANKS):
        flag = tl.load(meets + peer).to(tl.pointer_type(tl.int32)) + rank
        tl.atomic_xchg(flag, call, sem="release", scope="sys")
    own = tl.load(meets + rank).to(tl.pointer_type(tl.int32))
    for peer in range(RANKS):
        while tl.atomic_add(own + peer, 0, sem="acquire", scope="sys") < call:
            pass
    tl.debug_barrier()
    here = tl.load(table + rank).to(tl.pointer_type(tl.float32)) + place * n
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float32)
        for peer in range(RANKS):
            total += tl.load(here + peer * n + at, mask=at < n, other=0.0)
        tl.store(y + at, total, mask=at < n)
    tl.store(calls, call)


def run(x, group=None):
    group = group or dist.group.WORLD
    n = x.numel()
    key = group.group_name, n
    if key not in _KEPT:
        ranks = dist.get_world_size(group)
        part = symmetric.empty(_PLACES * ranks * n, dtype=x.dtype, device=x.device)
        flags = symmetric.empty(ranks, dtype=torch.int32, device=x.device)
        flags.zero_()
        calls = torch.zeros(1, dtype=torch.int32, device=x.device)
        made = [symmetric.rendezvous(one, group.group_name) for one in (part, flags)]
        made[1].barrier()  # all have set their flags to 0
        _KEPT[key] = part, flags, calls, made
    _, _, calls, (parts, meets) = _KEPT[key]
    y = torch.empty_like(x)
    _sum[(1,)](
        parts.buffer_ptrs_dev,
        meets.buffer_ptrs_dev,
        calls,
        x,
        y,
        n,
        parts.rank,
        RANKS=parts.world_size,
        PLACES=_PLACES,
        BLOCK=_BLOCK,
    )
    return y
