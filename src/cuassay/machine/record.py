"""A finding as the runtime keeps it."""

from __future__ import annotations

from dataclasses import dataclass


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
