"""Correct twins, and every known cause of a false alarm, are accepted by the gate."""

from __future__ import annotations

import pytest

from tests.zoo.judging import Gate
from tests.zoo.manifest import ALARMS, PAIRS, Honest, Pair, load

# By problem: one after another, candidates of a problem share its truths.
ON_CPU = sorted(
    (pair for pair in PAIRS if not pair.needs_gpu), key=lambda pair: (pair.problem, pair.name)
)


@pytest.mark.parametrize("pair", ON_CPU, ids=lambda pair: pair.name)
def test_twin_is_accepted(pair: Pair, gate: Gate, secret_seed: int) -> None:
    if pair.triton:
        pytest.importorskip("triton")
    found = gate.judge(
        load(pair.problem), pair.twin, seed=secret_seed, require=pair.require, only=pair.checks
    )
    assert found.accepted, str(found)


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_cause_of_a_false_alarm_is_accepted(alarm: Honest, gate: Gate, secret_seed: int) -> None:
    found = gate.judge(load(alarm.problem), alarm.path, seed=secret_seed)
    assert found.accepted, str(found)
