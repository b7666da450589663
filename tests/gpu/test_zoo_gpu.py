"""The zoo's raw CUDA and Triton pairs, compiled and judged on a GPU."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
import torch
from tests.zoo.judging import Gate
from tests.zoo.manifest import PAIRS, Pair, load

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
COMPILED = [pair for pair in PAIRS if pair.cuda or pair.triton]


@pytest.fixture(scope="module")
def gpu_gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


@pytest.mark.parametrize("pair", COMPILED, ids=lambda pair: pair.name)
def test_bug_is_rejected_and_twin_accepted(pair: Pair, gpu_gate: Gate) -> None:
    if pair.triton:
        pytest.importorskip("triton")
    problem, seed = load(pair.problem), secrets.randbits(62)
    bug = gpu_gate.judge(problem, pair.bug, profile=pair.since, seed=seed)
    assert bug.rejected, str(bug)
    assert set(bug.codes) & set(pair.codes), str(bug)
    twin = gpu_gate.judge(problem, pair.twin, profile=pair.since, seed=seed)
    assert twin.accepted, str(twin)
