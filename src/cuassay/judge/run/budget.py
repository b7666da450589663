"""The time that a whole trial may take, so that no candidate keeps a judge by being slow.

Each step of a scenario has a limit, and a candidate may spend it in every one: by a slow import,
say, which each of its processes repeats. When the time is over its process is ended and nothing
more of it is run. A scenario that ends so decides nothing. Time in which the trial waits for other
trials, or for a compiler, does not count: a compiler has a limit of its own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from cuassay.errors import CannotJudgeError
from cuassay.model.jobs import QUICK_S
from cuassay.model.verdict import Profile

_LAST = 1 / 8  # of the time, in which no check begins but those that judge what is executed already


class BudgetSpentError(CannotJudgeError):
    """The time of the trial is over."""


class TimeBudget:
    """The seconds of one trial; None: as many as it takes.

    `missed` are the checks that did not run, `cut` those that ran as the time ended.
    """

    def __init__(
        self, limit_s: float | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limit_s = limit_s
        self._clock, self._began = clock, clock()
        self._changing = threading.Lock()
        self._holders, self._held_since, self._held_s = 0, 0.0, 0.0
        self._over, self._waits = threading.Event(), False
        self.missed: dict[str, None] = {}
        self.cut: dict[str, None] = {}

    @staticmethod
    def of(profile: Profile, wished_s: float | None, *, spent_s: float = 0.0) -> TimeBudget:
        """Return the budget of a trial: what is wished, at `quick` two minutes otherwise.

        `spent_s` of it are over: who waits for the verdict waited for imports and files too.
        """
        limit_s = QUICK_S if wished_s is None and profile is Profile.QUICK else wished_s
        budget = TimeBudget(limit_s)
        budget._began -= spent_s
        return budget

    @property
    def is_spent(self) -> bool:
        """Whether the time is over; once it is, it stays so."""
        if self.limit_s is not None and not self._over.is_set():
            with self._changing:
                if self._left_s() <= 0.0:
                    self._over.set()
        return self._over.is_set()

    @property
    def is_nearly_spent(self) -> bool:
        """Whether what is left is for checks of what ran beside the others: it has been executed.

        A trial whose reference takes long loses others to its end, and not these to all others.
        """
        if self.limit_s is None:
            return False
        with self._changing:
            return self._left_s() <= _LAST * self.limit_s

    @property
    def is_half_spent(self) -> bool:
        """Whether half of the time is over."""
        if self.limit_s is None:
            return False
        with self._changing:
            return self._left_s() <= self.limit_s / 2

    def _left_s(self) -> float:
        now = self._clock()
        held = self._held_s + (now - self._held_since if self._holders else 0.0)
        return (self.limit_s or 0.0) - (now - self._began - held)

    def check(self) -> None:
        """Raise BudgetSpentError where the time is over."""
        if self.is_spent:
            raise BudgetSpentError(f"not run: {self.reason}")

    @property
    def reason(self) -> str:
        """Why nothing more is run, in words."""
        return f"the {self.limit_s:g} s of this trial are over; --budget SECONDS gives it more"

    @property
    def condition(self) -> str:
        """The condition of a verdict that was reached without some checks, or an empty string."""
        if not self.missed and not self.cut:
            return ""
        parts = []
        if self.missed:
            parts.append(f"did not run {', '.join(self.missed)}")
        if self.cut:
            parts.append(f"ended {', '.join(self.cut)} early")
        return (
            f"time: the trial {' and '.join(parts)}, for its {self.limit_s:g} s were over; judge "
            "with --budget SECONDS before you rely on what these look for"
        )

    def hold(self, *, held: bool) -> None:
        """Stop the clock, or let it go on; whoever stopped it lets it go on."""
        with self._changing:
            now = self._clock()
            if held and not self._holders:
                self._held_since = now
            elif not held and self._holders == 1:
                self._held_s += now - self._held_since
            self._holders = max(0, self._holders + (1 if held else -1))

    def wait(self, *, waits: bool) -> None:
        """Follow whether the trial waits for others, which may be said more than once."""
        if waits != self._waits:
            self._waits = waits
            self.hold(held=waits)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop the clock for this block."""
        self.hold(held=True)
        try:
            yield
        finally:
            self.hold(held=False)

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """End this block when the time is over; raises BudgetSpentError then, and where it was."""
        self.check()
        if self.limit_s is None:
            yield
            return
        try:
            async with asyncio.timeout(self._left_s()) as clock:
                yield
        except TimeoutError:
            if not clock.expired():
                raise
            self._over.set()
            self.check()
