"""A step that does not end in time is asked once more, with twice the time.

What compiles when it is first called (Triton's autotuner, torch.compile) or shares a busy
machine may need longer than a step's limit, and finds most of its work done the second time.
What never ends shows it twice; after that its candidate gets no more patience, and after some
more scenarios without an end it is not run any more. The PTX machine stops a launch that takes most
of a step's time: no verdict follows from that, and two of them are enough to know it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from cuassay.checks.endings.findings import first_raised
from cuassay.errors import CannotJudgeError
from cuassay.model.scenario import Scenario
from cuassay.model.trace import Claim, TimedOut

if TYPE_CHECKING:
    from cuassay.checks.base import Run

_TIMES = 2.0
_MOST = 4  # scenarios without an end, after which no other is run
_MOST_STOPPED = 2  # that the PTX machine stopped
_SHARE = 0.5  # of a step's time, from which on the machine was out of it
_LONGEST_S = 120.0  # limits that twice are more than this are long enough as they are


class Patience:
    """What one candidate's steps have shown of the time they need."""

    def __init__(self) -> None:
        self._slow, self._hung, self._stopped = False, 0, 0

    def of(self, scenario: Scenario) -> Scenario:
        """Return a scenario with the limit that the candidate is known to need.

        Raises CannotJudgeError after too many without an end: each costs its whole limit.
        """
        if self._hung >= _MOST:
            raise CannotJudgeError(f"not run: {self._hung} scenarios before it did not end")
        if self._stopped >= _MOST_STOPPED:
            raise CannotJudgeError(
                f"not run: the PTX machine stopped {self._stopped} scenarios before it, whose "
                "launches take too long without an NVIDIA GPU"
            )
        return _with_more(scenario) if self._slow and _may_be_longer(scenario) else scenario

    def longer(self, scenario: Scenario, run: Run) -> Scenario | None:
        """Return the scenario to run in place of one that timed out; None to believe it."""
        if not _timed_out(run) or self._hung:
            return None
        return _with_more(scenario) if _may_be_longer(scenario) else None

    def saw(self, run: Run, *, longer: bool, limit_s: float) -> None:
        """Learn from a run that is believed; `longer`: it had twice the time, `limit_s` a step."""
        self._hung += _timed_out(run)
        raised = first_raised(run)
        if raised is not None and raised.claim is Claim.UNCOVERED:
            self._stopped += run.result.duration_s > _SHARE * limit_s
        self._slow = self._slow or (longer and not _timed_out(run))


def _timed_out(run: Run) -> bool:
    return isinstance(run.result.termination, TimedOut)


def _may_be_longer(scenario: Scenario) -> bool:
    return _TIMES * scenario.timeout_s <= _LONGEST_S


def _with_more(scenario: Scenario) -> Scenario:
    return dataclasses.replace(scenario, timeout_s=_TIMES * scenario.timeout_s)
