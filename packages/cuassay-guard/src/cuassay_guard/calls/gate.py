"""What an unsampled call costs: one number drawn, one comparison, a test of its signature.

All threads draw their numbers from one `itertools.count`, which is a single call into C: each
call has a number of its own without a lock, and the one whose number is due is checked. Gaps
between due numbers are geometric, so it does not matter which thread meets them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from cuassay_guard.calls.fork import ForkLock
from cuassay_guard.calls.signature import NO_MEMO, Memo


class Gate:
    """The calls of one guard: their number, which is checked next, and what is known of them.

    `draw()` gives a call its number; from `due` on a call asks `claim` whether it is to be
    checked. `memo` is a quick test for the signature that was sampled last; `same` is that test
    where tensors by place are all there is, else None, and raises TypeError for another number.
    """

    __slots__ = ("_drawn", "_elsewhere", "_lock", "draw", "due", "memo", "same")

    def __init__(self, gap: int) -> None:
        self.draw: Callable[[], int] = itertools.count().__next__
        self.due = gap
        self.remember(NO_MEMO)
        self._lock = ForkLock()
        self._drawn = 0  # numbers that no call has
        self._elsewhere = 0  # calls that drew no number

    def remember(self, memo: Memo) -> None:
        """Take the test for another signature."""
        same, given, count, _, names = memo
        self.memo = memo
        self.same = same if given == count and not names else None

    def claim(self, number: int, gap: Callable[[], int]) -> bool:
        """Whether the call of this number is checked; `gap` says how many pass until the next."""
        with self._lock.mine():
            if number < self.due:
                return False
            self.due = number + 1 + gap()
            return True

    def arm(self, gap: int) -> None:
        """Let so many calls pass before the next that is checked."""
        with self._lock.mine():
            self.due = self._next() + gap

    def skip(self, calls: int) -> int:
        """Count calls that were made elsewhere; return how many pass before the next is due.

        Negative where it was among them.
        """
        with self._lock.mine():
            self._elsewhere += calls
            self.due -= calls
            number = self._next()
            return self.due - number

    @property
    def calls(self) -> int:
        """How many calls there were, exact for those that have returned."""
        with self._lock.mine():
            return self._next() - self._drawn + self._elsewhere

    def _next(self) -> int:
        """Return the number that the next call gets. The count tells it by giving one away."""
        number = self.draw() + 1
        self._drawn += 1
        self.due += 1
        return number
