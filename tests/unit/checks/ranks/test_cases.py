"""A small case for each number of ranks."""

from __future__ import annotations

from cuassay.checks.ranks.cases import of_each_count
from tests.support.ranked import trial_of


def test_every_declared_number_of_ranks_has_a_case() -> None:
    trial = trial_of("gemm_reduce_scatter")
    assert [case.axes["ranks"] for case in of_each_count(trial)] == [2, 3, 4]
