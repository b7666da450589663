"""Process-wide state that a candidate has no business with: flags, generators, environment."""

from __future__ import annotations

from cuassay.worker.host import Around, Made


def snapshot() -> dict[str, str]:
    """Return the state by name."""
    return {}


def read(around: Around) -> Made:
    """Execute a ReadState: facts for all that differs from the baseline."""
    raise NotImplementedError
