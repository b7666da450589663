"""Which kernels of its own a candidate launches, and what becomes of it without them."""

from __future__ import annotations

from cuassay.model.steps import Disarm
from cuassay.worker.host import Around, Made


def read(around: Around) -> Made:
    """Execute a ReadLaunches."""
    raise NotImplementedError


def disarm(around: Around, step: Disarm) -> Made:
    """Execute a Disarm."""
    raise NotImplementedError
