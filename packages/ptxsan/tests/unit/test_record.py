"""A finding as the runtime keeps it: what its packed fields say."""

from __future__ import annotations

import dataclasses

import pytest

from ptxsan.record import Record
from ptxsan.runtime import layout as L

_RECORD = Record(*[0] * 15)


def _record(**changes: int) -> Record:
    return dataclasses.replace(_RECORD, **changes)


def test_the_wait_for_copies_names_its_instruction() -> None:
    assert _record().copy_wait_site is None
    assert _record(copy_wait=1).copy_wait_site == 0
    pending = _record(copy_wait=1 << 31 | 8)
    assert (pending.copies_pending, pending.copy_wait_site) == (True, 7)
    assert not _record(copy_wait=8).copies_pending


@pytest.mark.parametrize(
    ("other_what", "kind"),
    [(4, L.ATOMIC), (4 | 8, L.ATOMIC), (8, L.READ), (0, L.WRITE), (64 | L.READ, L.READ),
     (64 | 4 | L.WRITE, 4 | L.WRITE)],
)  # fmt: skip
def test_the_partner_of_a_race_did_what_its_flags_say(other_what: int, kind: int) -> None:
    assert _record(other_what=other_what).other_kind == kind
