"""What a step of a scenario does, in the words of a message."""

from __future__ import annotations

from cuassay.checks.follow import case_of_step
from cuassay.model.scenario import Scenario


def doing(scenario: Scenario, index: int) -> str:
    """Return what step `index` does, in words."""
    if not 0 <= index < len(scenario.steps):
        return "starting up"
    case = case_of_step(scenario, index)
    on = f" on '{case.label}'" if case else ""
    return scenario.steps[index].words + on
