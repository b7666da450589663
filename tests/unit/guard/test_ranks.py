"""Two processes that train together on the CPU: ranks compared, DDP, FSDP, and a rank that dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import cuassay
from cuassay.errors import UsageError
from cuassay_guard.ranks import RankCheck, RankReport
from tests.support.guards import QUIET, double
from tests.support.paths import python_path
from tests.support.two_ranks import PATIENT_S


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Run both ranks and return what each saw."""
    folder = tmp_path_factory.mktemp("ranks")
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(Path(cuassay.__file__).parents[1], os.getcwd()),
        "CUASSAY_GUARD_STATUS": "off",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.two_ranks"]
    ranks = [
        subprocess.Popen([*command, str(rank), str(folder)], env=environment) for rank in range(2)
    ]
    try:
        codes = [rank.wait(PATIENT_S) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert codes == [0, 0]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_twins_agree(seen: list[dict[str, Any]]) -> None:
    for rank in seen:
        found = rank["twins"]
        assert (found["agree"], found["source"]) == ([True, True], [0, 1])
        assert (found["kind"], found["trusted"], found["errors"]) == (None, True, 0)


def test_only_due_steps_with_a_call_to_share_compare(seen: list[dict[str, Any]]) -> None:
    for rank in seen:
        assert rank["every second step"] == [False, False, False, True, False, True]


@pytest.mark.parametrize("part", ["differs", "raises", "in place"])
def test_the_rank_whose_kernel_differs_is_named_on_every_rank(
    seen: list[dict[str, Any]], part: str
) -> None:
    for rank in seen:
        found = rank[part]
        assert (found["agree"], found["odd"]) == ([False, False], [[1], [1]])
        assert (found["kind"], found["trusted"]) == ("rank", False)
        assert "other results on rank 1 of 2" in found["message"]


@pytest.mark.parametrize("wrapper", ["ddp", "fsdp"])
def test_training_below_a_data_parallel_wrapper_is_what_it_was(
    seen: list[dict[str, Any]], wrapper: str
) -> None:
    for rank in seen:
        found = rank[wrapper]
        assert found["guarded"] == found["plain"]
        assert (found["checked"], found["bad"]) == (6, 0)  # three calls and their gradients
    assert seen[0][wrapper]["plain"] != seen[1][wrapper]["plain"]  # each on rows of its own


def test_a_rank_that_does_not_come_costs_one_wait_and_training_goes_on(
    seen: list[dict[str, Any]],
) -> None:
    found = seen[0]["kept waiting"]
    assert (found["agree"][-1], found["errors"], found["trusted"]) == (None, 1, True)
    assert seen[0]["training goes on"]
    assert seen[1]["training goes on"]


def test_a_rank_that_died_does_not_hang_the_others(seen: list[dict[str, Any]]) -> None:
    found = seen[0]["left alone"]
    assert (found["agree"][-1], found["errors"], found["trusted"]) == (None, 1, True)


def _report(*digests: str, errors: tuple[float, ...] = ()) -> RankReport:
    repeats = tuple(True for _ in digests)
    return RankReport(source=0, digests=digests, repeats=repeats, errors=errors)


def test_the_majority_is_right_and_truth_breaks_ties() -> None:
    assert _report("a", "b", "a").odd == (1,)
    assert _report("b", "a", "a", errors=(0.0, 1.0, 1.0)).odd == (0,)
    assert _report("a", "b", errors=(0.5, 0.1)).odd == (0,)
    assert _report("a", "b", errors=(0.1, float("inf"))).odd == (1,)
    assert _report("a", "b", errors=(0.1, 0.1)).odd == (0, 1)
    assert _report("a", "a").odd == ()


def test_a_kernel_that_does_not_repeat_itself_decides_nothing() -> None:
    report = RankReport(source=0, digests=("a", "b"), repeats=(True, False))
    assert report.nondeterministic
    assert report.agree


def test_ranks_need_a_process_group_and_sane_options() -> None:
    guarded = cuassay.guard(double, trusted=double, **QUIET)
    with pytest.raises(UsageError, match="every is 0"):
        RankCheck(guarded, every=0)
    with pytest.raises(UsageError, match="timeout_s is 0"):
        RankCheck(guarded, timeout_s=0)
    assert not torch.distributed.is_initialized()
    with pytest.raises(UsageError, match="init_process_group first"):
        RankCheck(guarded)
