"""The guards that live in this process, for exporters and the status file."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuassay_guard.watch import Watch

_lock = threading.Lock()
_watches: weakref.WeakSet[Watch] = weakref.WeakSet()


def add(watch: Watch) -> None:
    """Make a guard known."""
    with _lock:
        _watches.add(watch)


def watches() -> list[Watch]:
    """Return the living guards, sorted by name."""
    with _lock:
        found = list(_watches)
    return sorted(found, key=lambda watch: watch.name)
