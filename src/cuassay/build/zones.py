"""Where storages have guard zones, for who executes kernels on them; nowhere unless it is said."""

from __future__ import annotations

from collections.abc import Callable


def _none(address: int) -> int:
    return 0


# Bytes of the guard zones before and after the storage at an address.
bytes_at: Callable[[int], int] = _none
