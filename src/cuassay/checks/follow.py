"""What steps of a scenario did: the case that each works on, what they had to leave undone."""

from __future__ import annotations

from collections.abc import Iterator

from cuassay.model.case import Case
from cuassay.model.reports import Laid
from cuassay.model.scenario import Scenario, Step
from cuassay.model.step import Held
from cuassay.model.trace import StepDone


def followed(scenario: Scenario) -> Iterator[tuple[int, Step, Held]]:
    """Yield each step's index, the step and what slots, results and graphs hold after it."""
    held = Held()
    for index, step in enumerate(scenario.steps):
        step.follow(held)
        yield index, step, held


def case_of_step(scenario: Scenario, index: int) -> Case | None:
    """Return the case that step `index` works on, or None where it works on none."""
    held = Held()
    position: int | None = None
    for step in scenario.steps[: index + 1]:
        position = step.follow(held)
    return None if position is None else scenario.cases[position]


def lies_elsewhere(record: StepDone) -> bool:
    """Whether a tensor could not be laid out as an Arrange or CallInto step asks."""
    return isinstance(record.report, Laid) and bool(record.report.impossible)
