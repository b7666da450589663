"""A program of one rank that calls every collective; and the same under gloo, a process a rank."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

Program = Callable[[int], object]


def every_collective(rank: int) -> list[torch.Tensor]:
    """Return what each collective gives this rank, of whole numbers: their sums have one result."""
    ranks = dist.get_world_size()
    x = torch.sin(torch.arange(12.0) * (rank + 1)).mul(10).round() * 100
    found = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
        total = (x / 100).clone()
        dist.all_reduce(total, op=op)
        found.append(total)
    to_one = x.clone()
    dist.reduce(to_one, dst=1)
    found.append(to_one if rank == 1 else torch.zeros(0))
    sent = x.clone()
    dist.broadcast(sent, src=1)
    found.append(sent)
    parts = [torch.zeros(12) for _ in range(ranks)]
    dist.all_gather(parts, x)
    found += parts
    held = [torch.zeros(12) for _ in range(ranks)] if rank == 0 else None
    dist.gather(x, held, dst=0)
    found += held or []
    mine = torch.zeros(4)
    dist.scatter(mine, list(x[: 4 * ranks].reshape(-1, 4)[:ranks]) if rank == 1 else None, src=1)
    found.append(mine)
    mixed = torch.zeros(3 + rank)
    rows = torch.arange(12.0).reshape(12, 1) + 100 * rank
    sizes = [2, 3, 4][:ranks] + [1] * (ranks - 3)
    takes = [sizes[rank]] * ranks
    exchanged = torch.zeros(sum(takes), 1)
    dist.all_to_all_single(exchanged, rows[: sum(sizes)], takes, sizes)
    found += [mixed, exchanged]
    begun = dist.isend(x, (rank + 1) % ranks)
    came = torch.zeros(12)
    dist.recv(came, (rank - 1) % ranks)
    assert begun is not None
    begun.wait()
    found.append(came)
    dist.barrier()
    told: list[object] = [None] * ranks
    dist.all_gather_object(told, {"rank": rank})
    assert told == [{"rank": one} for one in range(ranks)]
    return found


def _run(rank: int, ranks: int, folder: str, program: Program) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    store = FileStore(f"{folder}/store", ranks)
    dist.init_process_group("gloo", rank=rank, world_size=ranks, store=store)
    torch.save(program(rank), f"{folder}/{rank}.pt")


def under_gloo(program: Program, ranks: int) -> list[list[torch.Tensor]]:
    """Return what a program gives each rank where gloo connects processes."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        started = [
            context.Process(target=_run, args=(rank, ranks, folder, program))
            for rank in range(ranks)
        ]
        for one in started:
            one.start()
        for one in started:
            one.join()
        return [torch.load(Path(folder, f"{rank}.pt")) for rank in range(ranks)]
