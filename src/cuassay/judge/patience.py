"""A step that does not end in time is asked once more, with twice the time.

What compiles when it is first called (Triton's autotuner, torch.compile) or shares a busy
machine may need longer than a step's limit, and finds most of its work done the second time.
What never ends shows it twice; after that its candidate gets no more patience.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from cuassay.model.scenario import Scenario
from cuassay.model.trace import TimedOut

if TYPE_CHECKING:
    from cuassay.checks.base import Run

_TIMES = 2.0
_LONGEST_S = 120.0  # limits that twice are more than this are long enough as they are


class Patience:
    """What one candidate's steps have shown of the time they need."""

    def __init__(self) -> None:
        self._slow = self._hangs = False

    def of(self, scenario: Scenario) -> Scenario:
        """Return a scenario with the limit that the candidate is known to need."""
        return _with_more(scenario) if self._slow and _may_be_longer(scenario) else scenario

    def longer(self, scenario: Scenario, run: Run) -> Scenario | None:
        """Return the scenario to run in place of one that timed out; None to believe it."""
        if not isinstance(run.result.termination, TimedOut) or self._hangs:
            return None
        return _with_more(scenario) if _may_be_longer(scenario) else None

    def saw(self, run: Run) -> None:
        """Learn from the run of a longer scenario."""
        self._hangs = isinstance(run.result.termination, TimedOut)
        self._slow = not self._hangs


def _may_be_longer(scenario: Scenario) -> bool:
    return _TIMES * scenario.timeout_s <= _LONGEST_S


def _with_more(scenario: Scenario) -> Scenario:
    return dataclasses.replace(scenario, timeout_s=_TIMES * scenario.timeout_s)
