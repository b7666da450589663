"""The gate without processes judges as the real one does: it counts false alarms for us."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cuassay.model.outcome import Passed
from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate
from tests.zoo.manifest import PAIRS, Pair, load

# Bugs that harm nobody's process.
HARMLESS = ("eps_dropped", "gamma_ignored", "bf16_row_sum", "unwritten_tail", "memo_by_address")


@pytest.fixture(scope="module")
def local() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.name in HARMLESS], ids=lambda pair: pair.name
)
def test_bug_is_rejected_and_twin_accepted(pair: Pair, local: Gate, secret_seed: int) -> None:
    problem = load(pair.problem)
    only = ("NUM001", *pair.codes)  # what the checks find is not the question here
    assert local.first_finding(problem, pair.bug, codes=pair.codes, seed=secret_seed, only=only)
    assert local.judge(problem, pair.twin, seed=secret_seed, only=only).accepted


def test_what_asks_no_more_than_right_or_wrong_makes_no_truth(
    local: Gate, secret_seed: int
) -> None:
    """Answers within the reference's own error are right."""
    pair = next(pair for pair in PAIRS if pair.name == "eps_dropped")
    problem = load(pair.problem)
    found = local.judge(problem, pair.twin, seed=secret_seed + 1, only=("SHP001",))
    (report,) = found.verdict.checks
    assert isinstance(report.outcome, Passed)
    assert report.scenarios > 2
    smallest = local.truths(problem, secret_seed + 1)
    assert smallest is not None
    assert len(smallest.truths) == 1  # it was made before any check ran


def test_a_wrong_size_is_found_where_right_ones_need_no_truth(
    local: Gate, secret_seed: int
) -> None:
    pair = next(pair for pair in PAIRS if pair.name == "last_tile_dropped")
    found = local.judge(load(pair.problem), pair.bug, seed=secret_seed, only=("SHP001",))
    assert found.codes == ("SHP001",)
