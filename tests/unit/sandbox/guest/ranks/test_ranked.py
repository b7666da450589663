"""A call of all ranks: what each is given, what comes back whole, what it leaves in inputs."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from cuassay.sandbox.guest.ranks.ranked import ReturnedError
from tests.support.ranked import ranked, trial_of


def test_parts_go_out_and_come_back_whole() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        assert x.dim() == 2
        whole = x.clone()
        dist.all_reduce(whole)
        rank, ranks = dist.get_rank(), dist.get_world_size()
        return torch.cat([*whole.chunk(ranks), *[whole[:0]] * ranks][rank : rank + 1])

    with ranked(doubled, trial_of("reduce_scatter")) as called:
        x = torch.arange(3 * 5 * 2.0).reshape(3, 5, 2)
        got = called(x)
    assert isinstance(got, torch.Tensor)
    assert torch.equal(got, x.sum(0))


def test_what_a_rank_writes_into_its_input_is_seen_where_the_caller_has_it() -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        if dist.get_rank() == 1:
            x[0] = -1.0
        return x.clone()

    with ranked(writes, trial_of("all_reduce")) as called:
        x = torch.ones(2, 3)
        called(x)
    assert x.tolist() == [[1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: None, "rank 0 returned a NoneType as 'y', expected a tensor"),
        (lambda x: (x, x), "rank 0 returned 2 outputs, expected 1"),
        (lambda x: x[: 2 + dist.get_rank()], r"rank 1 returned 'y' as torch.float32 \[3\], rank 0"),
    ],
)
def test_what_cannot_be_put_together_is_said(returned: object, words: str) -> None:
    assert callable(returned)
    with (
        ranked(returned, trial_of("all_reduce")) as called,
        pytest.raises(ReturnedError, match=words),
    ):
        called(torch.ones(2, 3))


def test_a_world_that_failed_is_made_anew() -> None:
    calls: list[int] = []

    def fails_once(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if x[0] < 0:
            raise ValueError("negative")
        return x * len(calls)

    with ranked(fails_once, trial_of("all_reduce")) as called:
        with pytest.raises(Exception, match="negative"):
            called(-torch.ones(2, 3))
        got = called(torch.ones(2, 3))
    assert torch.equal(torch.as_tensor(got), torch.ones(2, 3))
