"""Parts of collectives meet in the order in which each rank calls them."""

from __future__ import annotations

from cuassay.ranks.collectives import Kind, Operation
from cuassay.ranks.meetings import Meetings, waiting_words


def _part(rank: int, kind: Kind = Kind.BARRIER, group: str = "0", root: int = 0) -> Operation:
    return Operation(kind=kind, group=group, members=(3, 5, 8), rank=rank, root=root, line="k.py:4")


def test_the_second_call_of_a_rank_belongs_to_the_second_of_others() -> None:
    meetings: Meetings[str] = Meetings()
    first = meetings.join(_part(0), "a")
    second = meetings.join(_part(0), "b")
    assert meetings.join(_part(1), "c") is first
    assert meetings.join(_part(2), "d") is first
    assert first.is_full
    assert [what for _, what in first.in_order] == ["a", "c", "d"]
    assert meetings.waiting == [second]
    assert second.absent == [5, 8]


def test_groups_and_messages_meet_apart() -> None:
    meetings: Meetings[str] = Meetings()
    here = meetings.join(_part(0), "a")
    assert meetings.join(_part(1, group="1"), "b") is not here
    sent = meetings.join(_part(2, Kind.SEND, root=1), "s")
    assert sent.absent == [5]
    assert meetings.join(_part(1, Kind.RECV, root=0), "other way") is not sent
    assert meetings.join(_part(1, Kind.RECV, root=2), "r") is sent
    assert [what for _, what in sent.in_order] == ["s", "r"]


def test_who_waits_for_whom_is_said_with_the_line() -> None:
    told = waiting_words(_part(0), [5, 8])
    assert told == "waits in barrier (k.py:4) for rank 5 and rank 8"
