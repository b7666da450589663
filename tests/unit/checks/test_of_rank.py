"""A finding says which rank returned the worst element."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cuassay.catalog import registry
from cuassay.checks.numeric.values import Num001
from cuassay.checks.of_rank import with_rank
from cuassay.checks.ranks.agreement import Rank002
from cuassay.model.outcome import Where
from cuassay.model.scenario import Scenario
from tests.support.ranked import findings, function_of, ranked, trial_of

NOTHING = Scenario(label="", cases=(), steps=())


@pytest.mark.parametrize(
    ("operator", "index", "rank"),
    [
        ("all_reduce", (2, 5), "rank 2"),  # each rank returns it
        ("ring_attention", (1, 0, 0, 0), "rank 1"),  # each has its own
        ("reduce_scatter", (4, 0), "rank 1"),  # 9 rows in parts of 3
        ("reduce_scatter", (8, 0), "rank 2"),
    ],
)
def test_the_rank_is_that_of_the_element(operator: str, index: tuple[int, ...], rank: str) -> None:
    problem = registry.get(operator)
    output = problem.outputs[0].name
    axes = {axis.name: 9 for axis in problem.var_axes()} | {"ranks": 3}
    place = Where(output=output, index=index, axes=axes)
    finding = Num001().finding("wrong", scenario=NOTHING, where=place)
    assert with_rank(finding, problem).details == (("returned by", rank),)


def test_what_has_no_ranks_or_no_place_stays_as_it_is() -> None:
    finding = Num001().finding("wrong", scenario=NOTHING)
    assert with_rank(finding, registry.get("all_reduce")) is finding
    placed = replace(finding, where=Where(output="y", index=(1, 2), axes={"rows": 3}))
    assert with_rank(placed, registry.get("rmsnorm")) is placed


def test_a_kernel_that_is_wrong_on_one_rank_is_told_with_it() -> None:
    trial = trial_of("all_reduce")
    text = """
import torch.distributed as dist


def run(x):
    y = x.clone()
    dist.all_reduce(y)
    return y + (dist.get_rank() == 1)
"""
    with ranked(function_of(text), trial) as called:
        first = next(iter(findings(Rank002(), trial, called)))
    assert ("returned by", "rank 1") in first.details
