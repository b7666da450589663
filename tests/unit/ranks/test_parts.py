"""Each rank's part of an input, and how many ranks there are."""

from __future__ import annotations

import pytest
import torch

from cuassay.catalog import registry
from cuassay.model.ranks import Ranks, parts
from cuassay.ranks.parts import part_of, rank_count


@pytest.mark.parametrize(("length", "ranks"), [(5, 4), (1, 3), (8, 4), (9, 2), (3, 4)])
def test_parts_are_those_of_torch_chunk(length: int, ranks: int) -> None:
    x = torch.arange(length)
    chunks = [*x.chunk(ranks), *[x[:0]] * ranks][:ranks]
    assert [x[a:b].tolist() for a, b in parts(length, ranks)] == [one.tolist() for one in chunks]


@pytest.mark.parametrize("name", ["own", "split", "whole"])
def test_a_part_is_a_ranks_own_memory_and_what_all_have_is_copied(name: str) -> None:
    x, ranks = torch.arange(12.0).reshape(4, 3), Ranks(own=("own",), split=("split",))
    part = part_of(x, name, ranks, rank=2, count=4)
    assert torch.equal(part, {"own": x[2], "split": x[2:3], "whole": x}[name])
    part += 1
    assert x[2].tolist() == ([6.0, 7.0, 8.0] if name == "whole" else [7.0, 8.0, 9.0])


def test_an_input_says_how_many_ranks_there_are() -> None:
    found = registry.get("all_gather")
    assert found.ranks is not None
    assert rank_count(found.inputs, [torch.ones(7, 2), 3], found.ranks) == 3
    found = registry.get("ring_attention")
    assert found.ranks is not None
    assert rank_count(found.inputs, [torch.ones(4, 1, 2, 16)] * 3, found.ranks) == 4
