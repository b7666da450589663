"""What ranks receive, and what does not fit together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from cuassay.ranks.collectives import Kind, MismatchError, Operation, results


def _asked(
    kind: Kind, gives: tuple[int, ...], takes: tuple[int, ...], **more: object
) -> list[Operation]:
    return [
        Operation(kind=kind, group="0", members=(4, 7), rank=rank, gives=gives, takes=takes, **more)  # type: ignore[arg-type]
        for rank in range(2)
    ]


def test_sums_are_rounded_one_rank_after_the_other() -> None:
    given = [[torch.tensor([256.0], dtype=torch.bfloat16)], [torch.ones(1, dtype=torch.bfloat16)]]
    (got,), _ = results(_asked(Kind.ALL_REDUCE, (1,), (1,)), given)
    assert got.dtype is torch.bfloat16
    assert got.item() == 256.0


def test_a_mean_is_the_sum_over_the_ranks() -> None:
    given = [[torch.tensor([1.0])], [torch.tensor([4.0])]]
    (got,), _ = results(_asked(Kind.ALL_REDUCE, (1,), (1,), reduction="AVG"), given)
    assert got.item() == 2.5


def test_a_rank_that_expects_other_sizes_is_named_by_its_rank_in_the_world() -> None:
    given = [[torch.ones(3)], [torch.ones(3)]]
    with pytest.raises(MismatchError, match="rank 4 expects 2, 2 elements in all_gather"):
        results(_asked(Kind.ALL_GATHER, (3,), (2, 2)), given)


def test_another_root_or_reduction_is_another_collective() -> None:
    first, second = _asked(Kind.BROADCAST, (1,), (1,))
    other = replace(second, root=1)
    with pytest.raises(MismatchError, match="with root 0 where rank 7 calls broadcast with root 1"):
        results([first, other], [[torch.ones(1)], [torch.ones(1)]])
    assert len(results([first, second], [[torch.ones(1)], [torch.zeros(1)]])) == 2


def test_an_unknown_reduction_is_refused() -> None:
    with pytest.raises(MismatchError, match="reduces with PREMUL_SUM, expected one of SUM"):
        results(_asked(Kind.ALL_REDUCE, (1,), (1,), reduction="PREMUL_SUM"), [[torch.ones(1)]] * 2)
