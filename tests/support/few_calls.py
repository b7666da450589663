"""Little time for what only a clock ends: calls that are repeated until their time is over."""

from __future__ import annotations

import pytest

from cuassay.model.effort import Effort

# The share of its time that each of these has.
_SHARE = 0.1
_CLOCKS = ("many_s", "leak_s", "serving_s", "varied_s")


def give_little_time(patch: pytest.MonkeyPatch) -> None:
    """Give what repeats calls a tenth of its time: for kernels in which it finds nothing."""
    for name in _CLOCKS:
        row = getattr(Effort, name)
        patch.setattr(Effort, name, type(row)(*(_SHARE * seconds for seconds in row.every())))
