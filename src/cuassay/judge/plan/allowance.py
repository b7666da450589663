"""What one check may take, so that every trial has an end however heavy its reference is.

Seconds are counted (`contract.memory.Room.run_s`) and never measured, and what others made before
costs the same: what a check tries depends neither on how busy a machine is nor on which checks run
beside it.
"""

from __future__ import annotations

from cuassay.errors import CannotJudgeError


class AllowanceSpentError(CannotJudgeError):
    """What a check tries while it plans takes longer than it may."""


class Allowance:
    """The seconds of one check, by count: of its scenarios, and of the runs that plan them.

    A check always has its first scenario. Those that follow have to be within `limit_s`.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._judged_s = self._tried_s = 0.0
        self._tried: set[str] = set()
        self.planning = False
        self.spent = False  # whether something was not tried for want of time

    def allows(self, seconds: float) -> bool:
        """Whether a scenario of so many seconds may run; count it if so."""
        if self._judged_s and self._judged_s + seconds > self._limit_s:
            return False
        self._judged_s += seconds
        return True

    def spend(self, what: str, seconds: float) -> None:
        """Count a run of the reference that is made to plan, the same one once.

        Raises AllowanceSpentError where the runs before it took all there was.
        """
        if not self.planning or what in self._tried:
            return
        if self._tried_s > self._limit_s:
            self.spent = True
            raise AllowanceSpentError("no time is left to try the reference on more inputs")
        self._tried.add(what)
        self._tried_s += seconds
