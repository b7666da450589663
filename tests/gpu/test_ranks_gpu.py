"""Ranks on GPUs: they share one where there are fewer GPUs than ranks, else NCCL connects them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.zoo.judging import Gate
from tests.zoo.ranks.faults import (
    FAULTS,
    FAULTS_OF_GRAPHS,
    FAULTS_OF_STREAMS,
    FAULTS_OF_TRITON,
    OPERATORS,
    TWINS,
    TWINS_OF_GRAPHS,
    Fault,
)

from cuassay.catalog import registry

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
CHECKS = ("RANK001", "RANK002", "NUM001", "API001")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


@pytest.mark.parametrize(
    "twin",
    [
        *("all_reduce", "expert_exchange", "symmetric", "symmetric_operators", "side_stream"),
        *("triton_norm", "triton_flags"),
    ],
)
def test_a_twin_is_accepted(gate: Gate, twin: str) -> None:
    problem = registry.get(OPERATORS.get(twin, twin))
    said = gate.judge(problem, TWINS / f"{twin}.py", only=CHECKS)
    assert said.accepted, said.verdict.reason
    how = next(one for one in said.verdict.conditions if one.startswith("ranks: "))
    assert ("sharing" in how) == (torch.cuda.device_count() < 4)


@pytest.mark.parametrize(
    "name",
    [
        "half_used_early",
        "right_on_rank_0",
        "own_size_for_all",
        "half_not_waited_for",
        "written_while_read",
        "others_read_before_written",
        *(one.name for one in (*FAULTS_OF_STREAMS, *FAULTS_OF_TRITON)),
    ],
)
def test_a_planted_bug_is_rejected(gate: Gate, tmp_path: Path, name: str) -> None:
    every = (*FAULTS, *FAULTS_OF_STREAMS, *FAULTS_OF_TRITON)
    fault = next(one for one in every if one.name == name)
    path = tmp_path / "kernel.py"
    path.write_text(fault.text)
    problem = registry.get(OPERATORS.get(fault.twin, fault.twin))
    said = gate.judge(problem, path, only=CHECKS, fail_fast=True)
    assert said.rejected, said.verdict.reason
    assert "RankEnded" not in said.verdict.reason


TWO_GPUS = pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="each rank needs a GPU of its own"
)


@TWO_GPUS
@pytest.mark.parametrize("twin", TWINS_OF_GRAPHS)
def test_a_twin_holds_in_graphs(gate: Gate, twin: str) -> None:
    problem = registry.get(OPERATORS.get(twin, twin))
    said = gate.judge(problem, TWINS / f"{twin}.py", only=("RANK003",), require=("graphs",))
    assert said.accepted, said.verdict.reason


@TWO_GPUS
@pytest.mark.parametrize("fault", FAULTS_OF_GRAPHS, ids=lambda fault: fault.name)
def test_what_no_graph_holds_is_a_condition(gate: Gate, tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(fault.text)
    problem = registry.get(OPERATORS.get(fault.twin, fault.twin))
    said = gate.judge(problem, path, only=("RANK003",))
    assert any(one.startswith("graphs: ") for one in said.verdict.conditions)
