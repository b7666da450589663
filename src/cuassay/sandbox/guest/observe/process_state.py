"""Process-wide state that a candidate has no business with: flags, generators, environment.

The candidate shares this process, so what is read here could be a lie: one that means to can
restore everything for the moment of the reading. The baseline is taken before its import with
functions that were taken before it, which makes casual tampering visible, and no more.
Nothing here starts CUDA.
"""

from __future__ import annotations

from cuassay.sandbox.guest.interface import Around, Made
from cuassay.sandbox.guest.observe import native_calls, own_process
from cuassay.sandbox.guest.observe.state_snapshot import TEXT_MOST, differences, snapshot

_FACTS = 200


def read(around: Around) -> Made:
    """Execute a ReadState: facts `name`, `old -> new` for all that differs from the baseline."""
    if around.baseline is None:
        raise RuntimeError("there is no state to compare with: this process took no baseline")
    asked = own_process.asked() | native_calls.asked()
    changed = differences(around.baseline, snapshot() | asked)
    facts = [(name[:TEXT_MOST], f"{old} -> {new}") for name, (old, new) in changed.items()]
    return Made(facts=tuple(facts[:_FACTS]))
