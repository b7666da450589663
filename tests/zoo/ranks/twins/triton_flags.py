"""All-reduce by a Triton kernel over symmetric memory; the ranks meet by flags that count calls."""

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
import triton
import triton.language as tl

_BLOCK, _PROGRAMS = 1024, 8
_KEPT = {}


@triton.jit
def _meet(flags, number, rank, RANKS: tl.constexpr):
    tl.debug_barrier()  # all threads of the program have stored
    place = tl.program_id(0) * RANKS
    table = flags.to(tl.pointer_type(tl.uint64))
    for peer in range(RANKS):
        there = tl.load(table + peer).to(tl.pointer_type(tl.int32)) + place + rank
        tl.atomic_xchg(there, number, sem="release", scope="sys")
    own = tl.load(table + rank).to(tl.pointer_type(tl.int32)) + place
    for peer in range(RANKS):
        while tl.atomic_add(own + peer, 0, sem="acquire", scope="sys") < number:
            pass
    tl.debug_barrier()


@triton.jit
def _sum(parts, flags, calls, x, y, n, rank, RANKS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    step = tl.num_programs(0) * BLOCK
    call = tl.load(calls + program)
    table = parts.to(tl.pointer_type(tl.uint64))
    own = tl.load(table + rank).to(tl.pointer_type(tl.float32))
    for start in range(program * BLOCK, n, step):
        place = start + tl.arange(0, BLOCK)
        tl.store(own + place, tl.load(x + place, mask=place < n), mask=place < n)
    _meet(flags, 2 * call + 1, rank, RANKS)
    for start in range(program * BLOCK, n, step):
        place = start + tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), tl.float32)
        for peer in range(RANKS):
            part = tl.load(table + peer).to(tl.pointer_type(tl.float32))
            total += tl.load(part + place, mask=place < n, other=0.0)
        tl.store(y + place, total, mask=place < n)
    _meet(flags, 2 * call + 2, rank, RANKS)
    tl.store(calls + program, call + 1)


def run(x, group=None):
    group = group or dist.group.WORLD
    place = group.group_name, x.shape
    if place not in _KEPT:
        ranks = dist.get_world_size(group)
        part = symmetric.empty(x.shape, dtype=x.dtype, device=x.device)
        flags = symmetric.empty((_PROGRAMS, ranks), dtype=torch.int32, device=x.device)
        flags.zero_()
        calls = torch.zeros(_PROGRAMS, dtype=torch.int32, device=x.device)
        made = [symmetric.rendezvous(one, group.group_name) for one in (part, flags)]
        made[1].barrier()  # all have set their flags to 0
        _KEPT[place] = part, flags, calls, made
    part, flags, calls, (parts, meets) = _KEPT[place]
    y = torch.empty_like(x)
    _sum[(_PROGRAMS,)](
        parts.buffer_ptrs_dev,
        meets.buffer_ptrs_dev,
        calls,
        x,
        y,
        x.numel(),
        parts.rank,
        RANKS=parts.world_size,
        BLOCK=_BLOCK,
    )
    return y
