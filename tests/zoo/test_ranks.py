"""Kernels that several ranks share: each planted bug is found by a check of ranks, no twin is.

The whole gate on them is `benchmarks/ranks.py`. Here the checks run in this process, and the ranks
in processes of their own; kernels in Triton are built in a worker of the gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cuassay.catalog import registry
from cuassay.checks.interface.inputs_unchanged import Api001
from cuassay.checks.numeric.values import Num001
from cuassay.checks.ranks.agreement import Rank002
from cuassay.checks.ranks.late import Rank001
from tests.support.ranked import findings, function_of, ranked, trial_of
from tests.zoo.judging import Gate
from tests.zoo.ranks.faults import FAULTS, FAULTS_OF_TRITON, OPERATORS, TWINS, Fault

CHECKS = (Rank002(), Rank001(), Api001(), Num001())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(fault: Fault) -> None:
    trial = trial_of(OPERATORS.get(fault.twin, fault.twin))
    with ranked(function_of(fault.text, fault.name), trial) as called:
        found = (one for check in CHECKS for one in findings(check, trial, called))
        wrong = next((one for one in found if one.condition == ""), None)
    assert wrong is not None
    assert "NameError" not in wrong.message, "the edit does not run"


@pytest.mark.parametrize("twin", sorted(path.stem for path in TWINS.glob("[!t]*.py")))
def test_a_twin_is_right(twin: str) -> None:
    trial = trial_of(OPERATORS.get(twin, twin))
    with ranked(function_of((TWINS / f"{twin}.py").read_text(), twin), trial) as called:
        found = [one for check in CHECKS for one in findings(check, trial, called)]
    assert not [one.message for one in found]


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate("cpu") as opened:
        yield opened


@pytest.mark.parametrize("twin", ["triton_flags", "triton_norm"])
def test_a_twin_in_triton_is_accepted(gate: Gate, twin: str) -> None:
    said = gate.judge(registry.get(OPERATORS[twin]), TWINS / f"{twin}.py", only=("RANK002",))
    assert said.accepted, str(said)


@pytest.mark.parametrize("fault", FAULTS_OF_TRITON, ids=lambda fault: fault.name)
def test_a_planted_bug_in_triton_is_rejected(gate: Gate, tmp_path: Path, fault: Fault) -> None:
    path = tmp_path / "kernel.py"
    path.write_text(fault.text)
    said = gate.judge(registry.get(OPERATORS[fault.twin]), path, only=("RANK002",), fail_fast=True)
    assert said.rejected, str(said)
