"""Kernels of a call on a GPU: the profiler sees them, their code is read, wide accesses show."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import torch
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, PAIRS, Pair, load

from cuassay.model.outcome import Passed

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
ONLY = ("NUM001", "KERNEL001")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


def summary(gate: Gate, pair: Pair) -> str:
    found = gate.judge(load(pair.problem), pair.twin, seed=secrets.randbits(62), only=ONLY)
    assert found.accepted, str(found)
    (report,) = (r for r in found.verdict.checks if r.code == "KERNEL001")
    assert isinstance(report.outcome, Passed), report.outcome
    return report.outcome.summary


@pytest.mark.parametrize("name", ["cuda_vectors_of_16_bytes", "gpu_library_does_the_work"])
def test_registers_occupancy_and_widths_stand_in_the_report(name: str, gate: Gate) -> None:
    text = summary(gate, next(pair for pair in PAIRS if pair.name == name))
    assert "registers, occupancy" in text, text
    assert "16-byte accesses" in text, text
    assert "profiler:" not in text, text
    assert "machine code:" not in text, text


def test_triton_kernels_are_seen_by_name(gate: Gate) -> None:
    found = gate.judge(
        load("rmsnorm"), HERE / "honest" / "rmsnorm_triton.py", seed=5, only=("KERNEL001",)
    )
    (report,) = found.verdict.checks
    assert isinstance(report.outcome, Passed), report.outcome
    assert "registers, occupancy" in report.outcome.summary
