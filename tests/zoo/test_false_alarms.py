"""Every known cause of a false alarm is accepted by the gate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.zoo.judging import Gate
from tests.zoo.local_gate import InProcess
from tests.zoo.manifest import ALARMS, Honest, load


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.name)
@pytest.mark.parametrize("start", [InProcess, pytest.param(None, marks=pytest.mark.thorough)])
def test_cause_of_a_false_alarm_is_accepted(
    alarm: Honest, start: Any, gate: Gate, secret_seed: int
) -> None:
    """In this process, and by `make power` in processes of their own, as kernels in Triton are."""
    start = None if alarm.triton else start
    found = gate.judge(load(alarm.problem), alarm.path, seed=secret_seed, start=start)
    assert found.accepted, str(found)
