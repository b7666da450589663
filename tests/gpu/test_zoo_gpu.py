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
COMPILED = [
    pair
    for pair in PAIRS
    if (pair.needs_gpu or pair.triton) and pair.gpus <= torch.cuda.device_count()
]


@pytest.fixture(scope="module")
def gpu_gate() -> Iterator[Gate]:
    with Gate("cuda") as opened:
        yield opened


@pytest.mark.parametrize("pair", COMPILED, ids=lambda pair: pair.name)
def test_bug_is_rejected(pair: Pair, gpu_gate: Gate) -> None:
    if pair.triton:
        pytest.importorskip("triton")
    seed = secrets.randbits(62)
    found = gpu_gate.first_finding(
        load(pair.problem),
        pair.bug,
        codes=pair.codes,
        seed=seed,
        profile=pair.since,
        require=pair.require,
    )
    assert found is not None, f"accepted at {pair.since} under seed {seed}"


@pytest.mark.parametrize("pair", COMPILED, ids=lambda pair: pair.name)
def test_twin_is_accepted(pair: Pair, gpu_gate: Gate) -> None:
    if pair.triton:
        pytest.importorskip("triton")
    seed = secrets.randbits(62)
    found = gpu_gate.judge(load(pair.problem), pair.twin, seed=seed, require=pair.require)
    assert found.accepted, str(found)
