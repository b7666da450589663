"""Operations that touch the same bytes, and which of them clash."""

from __future__ import annotations

from ptxsan.footprints import Accesses, span
from ptxsan.host.journal import Deed, Journal, Place
from ptxsan.host.order import Order

A, B = 10, 11


def _journal() -> Journal:
    order = Order()
    order.create(A, blocking=False)
    order.create(B, blocking=False)
    return Journal(order)


def _deed(journal: Journal, what: str, stream: int) -> Deed:
    return Deed(what=what, place=Place(), operation=journal.order.operation(stream))


def test_a_write_beside_a_read_clashes_and_names_both() -> None:
    journal = _journal()
    reads = Accesses(reads=span(0, 8))
    assert journal.enter("x", _deed(journal, "first", A), reads) is None
    found = journal.enter("x", _deed(journal, "second", B), Accesses(writes=span(4, 12)))
    assert found is not None
    assert (found.offset, found.did, found.before) == (4, "writes", "reads")
    assert (found.later.what, found.earlier.what) == ("second", "first")


def test_reads_updates_and_other_bytes_do_not_clash() -> None:
    journal = _journal()
    one = Accesses(reads=span(0, 8), updates=span(8, 12), writes=span(16, 20))
    other = Accesses(reads=span(0, 8), updates=span(8, 12), writes=span(20, 24))
    assert journal.enter("x", _deed(journal, "first", A), one) is None
    assert journal.enter("x", _deed(journal, "second", B), other) is None
    assert journal.enter("y", _deed(journal, "third", B), one) is None


def test_an_update_clashes_with_a_plain_read_and_not_with_a_strong_one() -> None:
    for mine, clashes in (
        (Accesses(reads=span(0, 4)), True),
        (Accesses(glances=span(0, 4)), False),
    ):
        journal = _journal()
        journal.enter("x", _deed(journal, "first", A), Accesses(updates=span(0, 4)))
        assert (journal.enter("x", _deed(journal, "second", B), mine) is not None) == clashes


def test_what_the_host_waited_for_is_forgotten() -> None:
    journal = _journal()
    journal.enter("x", _deed(journal, "first", A), Accesses(writes=span(0, 4)))
    journal.order.host_waits_all()
    assert journal.enter("x", _deed(journal, "second", B), Accesses(writes=span(0, 4))) is None
    assert [deed.what for _, deed, _ in journal.pending(journal.order.host_knows)] == ["second"]


def test_a_loop_on_one_stream_keeps_one_entry_and_still_clashes() -> None:
    journal = _journal()
    for _ in range(1000):
        journal.enter("x", _deed(journal, "loop", A), Accesses(writes=span(0, 64)))
    assert len(list(journal.pending(lambda timeline, time: False))) == 1
    assert not journal.dropped
    assert journal.enter("x", _deed(journal, "other", B), Accesses(reads=span(8, 12))) is not None


def test_a_smaller_access_does_not_hide_a_larger_one_before_it() -> None:
    journal = _journal()
    journal.enter("x", _deed(journal, "all", A), Accesses(writes=span(0, 64)))
    journal.enter("x", _deed(journal, "some", A), Accesses(writes=span(0, 4)))
    found = journal.enter("x", _deed(journal, "other", B), Accesses(reads=span(32, 36)))
    assert found is not None
    assert found.earlier.what == "all"
