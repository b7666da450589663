"""Every known cause of a false alarm is accepted by the gate."""

from __future__ import annotations

import pytest

from tests.zoo.judging import Gate
from tests.zoo.manifest import ALARMS, Honest, load
from tests.zoo.verdicts import few_calls


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
def test_cause_of_a_false_alarm_is_accepted(alarm: Honest, gate: Gate, secret_seed: int) -> None:
    with few_calls():
        found = gate.judge(load(alarm.problem), alarm.path, seed=secret_seed)
    assert found.accepted, str(found)
