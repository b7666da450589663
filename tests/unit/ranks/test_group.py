"""The process group: what torch.distributed says of it, and tensors that have no equal parts."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from cuassay.ranks.together import run_together


def test_it_is_the_world_of_its_rank() -> None:
    told = run_together(
        lambda rank: (dist.get_rank(), dist.get_world_size(), dist.get_backend()), 3
    )
    assert told == [(rank, 3, "cuassay") for rank in range(3)]


def test_work_that_is_asked_for_is_there() -> None:
    def program(rank: int) -> list[float]:
        x = torch.full((2,), float(rank))
        begun = dist.all_reduce(x, async_op=True)
        assert begun is not None
        assert begun.is_completed()
        begun.get_future().wait()
        return x.tolist()

    assert run_together(program, 2) == [[1.0, 1.0]] * 2


def test_tensors_that_cannot_be_cut_are_refused() -> None:
    def uneven(rank: int) -> None:
        dist.all_to_all_single(torch.ones(3), torch.ones(3))

    with pytest.raises(ValueError, match="3 elements has no 2 equal parts"):
        run_together(uneven, 2)

    def wrong_sizes(rank: int) -> None:
        dist.all_to_all_single(torch.ones(3), torch.ones(3), [1, 1], [1, 2])

    with pytest.raises((ValueError, RuntimeError), match=r"add up|sum"):
        run_together(wrong_sizes, 2)


def test_rows_that_are_not_contiguous_are_gathered() -> None:
    def program(rank: int) -> list[list[float]]:
        x = torch.arange(6.0).reshape(2, 3).t() + rank
        parts = [torch.zeros(3, 2), torch.zeros(3, 2)]
        dist.all_gather(parts, x)
        return [parts[1][0].tolist(), x[0].tolist()]

    assert run_together(program, 2)[0] == [[1.0, 4.0], [0.0, 3.0]]


def test_functional_collectives_are_delivered_at_their_wait() -> None:
    def program(rank: int) -> list[list[float]]:
        x, ops = torch.tensor([1.0, 2.0]) + 10 * rank, torch.ops._c10d_functional
        name = dist.group.WORLD.group_name  # type: ignore[union-attr]
        made = [
            ops.all_gather_into_tensor(x, 2, name),
            ops.reduce_scatter_tensor(x, "sum", 2, name),
            *ops.all_gather_into_tensor_coalesced([x, 2 * x], 2, name),
            *ops.reduce_scatter_tensor_coalesced([x, 2 * x], "sum", 2, name),
        ]
        return [ops.wait_tensor(one).tolist() for one in made]

    both = [1.0, 2.0, 11.0, 12.0]
    twice = [2 * one for one in both]
    assert run_together(program, 2) == [
        [both, [12.0], both, twice, [12.0], [24.0]],
        [both, [14.0], both, twice, [14.0], [28.0]],
    ]
