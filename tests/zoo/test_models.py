"""Kernels as models write them are accepted, and faults planted in them rejected.

A run judges every third of them, another third under another seed ($CUASSAY_ZOO_SEED);
`benchmarks/world.py --sets models` judges all, over many seeds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.zoo.judging import Gate
from tests.zoo.local_gate import LocalGate
from tests.zoo.manifest import load
from tests.zoo.manifest_models import CODES, HERE, MODELS, Model

_THIRDS = 3
_TURN = int(os.environ.get("CUASSAY_ZOO_SEED") or 0) % _THIRDS
_SLOW = ("fp8_wgmma", "fp8_promote", "fp8_block_deepgemm")  # tensor cores, step by step
_NOW = [one for number, one in enumerate(MODELS) if number % _THIRDS == _TURN]
_NOW = [one for one in _NOW if one.name not in _SLOW]


@pytest.fixture(scope="module")
def local() -> Iterator[Gate]:
    with LocalGate("cpu") as opened:
        yield opened


@pytest.mark.parametrize("model", _NOW, ids=lambda model: model.name)
def test_a_model_is_accepted_and_its_faults_are_rejected(
    model: Model, local: Gate, secret_seed: int, tmp_path: Path
) -> None:
    problem = load(model.problem)
    found = local.judge(problem, model.path, seed=secret_seed, only=CODES)
    assert found.accepted, str(found)
    for fault in model.faults:
        path = model.planted(fault, tmp_path)
        assert local.first_finding(problem, path, codes=CODES, seed=secret_seed, only=CODES), fault


def test_manifest_and_files_agree() -> None:
    assert {one.name for one in MODELS} == {path.stem for path in HERE.glob("*.py")}
    planted = {f"{one.name}.{fault}" for one in MODELS for fault in one.faults}
    assert planted == {path.stem for path in HERE.glob("*.diff")}
    assert len(MODELS) >= 35
    assert len(planted) >= 20
