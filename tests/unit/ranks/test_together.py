"""Ranks as threads: every collective gives what gloo gives, and who waits is said."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.utils._python_dispatch import TorchDispatchMode

from cuassay.oracle.lift.run import lift
from cuassay.ranks.collectives import MismatchError
from cuassay.ranks.together import RanksStuckError, run_together
from tests.support.rank_programs import every_collective, under_gloo


def test_every_collective_gives_the_bits_that_gloo_gives() -> None:
    ours = run_together(every_collective, 3)
    for rank, theirs in enumerate(under_gloo(every_collective, 3)):
        mine = ours[rank]
        assert isinstance(mine, list)
        assert len(mine) == len(theirs)
        for place, (got, wanted) in enumerate(zip(mine, theirs, strict=True)):
            assert torch.equal(got, wanted), (rank, place)


def test_a_rank_that_does_not_come_is_named() -> None:
    def program(rank: int) -> None:
        if rank != 1:
            dist.all_reduce(torch.ones(2))

    with pytest.raises(RanksStuckError, match=r"rank 0 waits in all_reduce \(test_together.py:\d+"):
        run_together(program, 3)


def test_two_ranks_that_both_send_first_wait_for_each_other() -> None:
    def program(rank: int) -> None:
        dist.send(torch.ones(2), 1 - rank)
        dist.recv(torch.ones(2), 1 - rank)

    with pytest.raises(RanksStuckError, match=r"rank 1 waits in send \(.*\) for rank 0"):
        run_together(program, 2)


def test_different_collectives_do_not_meet() -> None:
    def program(rank: int) -> None:
        if rank:
            dist.broadcast(torch.ones(2), src=0)
        else:
            dist.all_reduce(torch.ones(2))

    with pytest.raises(MismatchError, match=r"rank 0 calls all_reduce .* where rank 1 calls broad"):
        run_together(program, 2)


def test_what_a_rank_raises_is_raised_and_no_thread_is_left() -> None:
    def program(rank: int) -> None:
        if rank == 1:
            raise ValueError("of rank 1")
        dist.barrier()

    before, threads = c10d._world, {*threading.enumerate()}
    with pytest.raises(ValueError, match="of rank 1"):
        run_together(program, 3)
    assert c10d._world is before
    assert not {*threading.enumerate()} - threads


class _Counts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations that come by."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_each_thread_is_in_the_modes_of_the_caller() -> None:
    mode = _Counts()  # type: ignore[no-untyped-call]
    with mode, torch.no_grad():
        enabled = run_together(lambda rank: (torch.ones(2) + 1, torch.is_grad_enabled())[1], 3)
    assert enabled == [False] * 3
    assert mode.count >= 6


def test_a_sum_over_ranks_is_taken_in_float64() -> None:
    """What float32 loses is there in a lifted reference."""

    def reference(x: torch.Tensor) -> torch.Tensor:
        def program(rank: int) -> torch.Tensor:
            part = x[rank].clone()
            dist.all_reduce(part)
            return part

        parts = run_together(program, x.shape[0])
        return torch.stack([one for one in parts if isinstance(one, torch.Tensor)])

    x = torch.tensor([[1.0], [1e-12], [1e-12]])
    (got,) = lift(reference, [x])
    assert got.dtype is torch.float64
    assert float(got[1, 0]) == pytest.approx(1.0 + 2e-12, rel=1e-15)
    assert float(reference(x)[1, 0]) == 1.0


def test_ranks_make_groups_of_some_of_them_in_every_call() -> None:
    def program(rank: int) -> list[float]:
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        x = torch.tensor([float(rank)])
        dist.all_reduce(x, group=pairs[rank // 2])
        total = x.clone()
        dist.all_reduce(total)
        assert dist.get_rank(pairs[rank // 2]) == rank % 2
        return [float(x), float(total)]

    for _ in range(2):
        assert run_together(program, 4) == [[1.0, 12.0], [1.0, 12.0], [5.0, 12.0], [5.0, 12.0]]


def test_a_group_of_an_earlier_call_is_refused() -> None:
    (old, *_) = run_together(lambda _: dist.group.WORLD, 2)
    with pytest.raises(RuntimeError, match="this process group is of an earlier call"):
        run_together(lambda _: old.barrier().wait(), 2)  # type: ignore[attr-defined]
