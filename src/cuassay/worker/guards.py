"""Guard zones around every allocation of a process in guarded mode."""

from __future__ import annotations

from cuassay.worker.host import Around, Made


def install(device: str) -> object:
    """Make every later allocation of this process a guarded one; before CUDA starts."""
    raise NotImplementedError


def read(around: Around) -> Made:
    """Execute a ReadGuards."""
    raise NotImplementedError
