"""A finding as the runtime keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from ptxsan.runtime import layout as L


@dataclass(frozen=True, slots=True)
class Record:
    """One finding record, unpacked."""

    kind: int
    site: int
    other_site: int
    gid: int
    other_gid: int
    count: int
    address: int
    allocation: int
    space: int
    bytes: int
    what: int
    other_what: int
    extra: int
    granule: int
    copy_wait: int

    @property
    def copies_pending(self) -> bool:
        """Whether the thread had cp.async copies that had not arrived."""
        return bool(self.copy_wait >> 31)

    @property
    def copy_wait_site(self) -> int | None:
        """The instruction by which the thread last waited for copies."""
        site = self.copy_wait & 0x7FFFFFFF
        return site - 1 if site else None

    @property
    def other_kind(self) -> int:
        """What the partner of a race did: a kind (from watch.py) or the flags of a record."""
        if self.other_what & 64:
            return self.other_what & 15
        if self.other_what & 4:
            return L.ATOMIC
        return L.READ if self.other_what & 8 else L.WRITE
