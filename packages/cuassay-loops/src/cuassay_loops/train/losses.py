"""The loss as a witness: when a run's loss leaves what trusted runs do to each other.

No false-alarm rate is claimed for it, and it decides nothing: whether and in which direction a
fault shows in the loss turns on the learning rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

_MEMORY = 0.9
_TIMES = 5.0  # of the largest smoothed difference of trusted from trusted so far
_SHARE = 0.005  # of the loss that is no difference worth telling


@dataclass(slots=True)
class LossBand:
    """Smoothed differences from the trusted run's loss; `step` is where the candidate left."""

    noise: float = 0.0
    candidate: float = 0.0
    width: float = 0.0
    step: int | None = None

    def update(self, step: int, trusted: float, *, noise: float, candidate: float) -> None:
        """Take one step's losses into account."""
        if self.step is not None:
            return
        if math.isfinite(trusted) and not math.isfinite(candidate):
            self.step = step
            return
        self.noise = _MEMORY * self.noise + (1.0 - _MEMORY) * (noise - trusted)
        self.candidate = _MEMORY * self.candidate + (1.0 - _MEMORY) * (candidate - trusted)
        self.width = max(self.width, abs(self.noise))
        if abs(self.candidate) > _TIMES * self.width + _SHARE * abs(trusted):
            self.step = step
