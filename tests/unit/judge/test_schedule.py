"""The order of checks, of what they need alone; the table is that of all registered ones."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from cuassay.checks.base import Check
from cuassay.checks.needs import Group, Needs, Process, Split, When
from cuassay.checks.registry import all_checks
from cuassay.judge.schedule import Schedule, begins_ahead, needs_new_process, schedule
from cuassay.model.device import CUDA, Device
from cuassay.model.steps import Mode
from cuassay.model.verdict import Profile

_OTHERS = (Profile.STANDARD, Profile.DEEP)
# All checks in the order of one side, | between two processes, by profiles and device.
_ONE_SIDE = [
    (
        (Profile.QUICK,),
        "cpu",
        "API005 | PROC001 NUM001 RANK001 RANK002 MEM004 API002 API001 STATE001 MEM002 SHP001 "
        "API003 API004 MEM001 KNOWN001 NUM002 NUM004 NUM005 META001 SHP002 FUZZ001 NUM003 "
        "LAYOUT001 GRAD001 "
        "LOOP001 LOOP002 DET001 DET002 CONFIG001 MEM101 INIT101 RACE101 SYNC101 PREC101 "
        "STREAM101 LAUNCH101 BIG002 APART001 RANK003 STREAM001 GRAPH001 RACE001 "
        "MEM003 "
        "PERF001 | COMPILE001 | DEVICE001 | BIG001 GHOST001 OPCHECK001 KERNEL001",
    ),
    (
        (Profile.QUICK,),
        "cuda",
        "API005 | PROC001 NUM001 RANK001 RANK002 MEM004 API002 API001 STATE001 MEM002 SHP001 "
        "API003 API004 MEM001 KNOWN001 NUM002 NUM004 NUM005 META001 SHP002 FUZZ001 NUM003 "
        "LAYOUT001 GRAD001 "
        "LOOP001 LOOP002 DET001 DET002 CONFIG001 RANK003 STREAM001 GRAPH001 "
        "RACE001 MEM003 "
        "PERF001 | COMPILE001 | DEVICE001 | BIG001 GHOST001 OPCHECK001 KERNEL001 MEM101 "
        "INIT101 RACE101 SYNC101 PREC101 STREAM101 LAUNCH101 BIG002 APART001",
    ),
    (
        _OTHERS,
        "cpu",
        "API005 API002 API001 API003 API004 | PROC001 STATE001 | MEM001 MEM002 MEM004 | "
        "KNOWN001 NUM001 NUM002 NUM004 NUM005 META001 | SHP001 SHP002 FUZZ001 NUM003 | "
        "LAYOUT001 GRAD001 | LOOP001 LOOP002 | DET001 DET002 | GHOST001 | CONFIG001 | OPCHECK001 "
        "| KERNEL001 | COMPILE001 | MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 LAUNCH101 "
        "BIG002 | APART001 | RANK001 RANK002 RANK003 | PERF001 | STREAM001 | GRAPH001 | "
        "DEVICE001 | "
        "BIG001 | RACE001 | MEM003",
    ),
    (
        _OTHERS,
        "cuda",
        "API005 API002 API001 API003 API004 | PROC001 STATE001 | MEM001 MEM002 MEM004 | "
        "KNOWN001 NUM001 NUM002 NUM004 NUM005 META001 | SHP001 SHP002 FUZZ001 NUM003 | "
        "LAYOUT001 GRAD001 | LOOP001 LOOP002 | DET001 DET002 | GHOST001 | CONFIG001 | OPCHECK001 "
        "| KERNEL001 | COMPILE001 | RANK001 RANK002 RANK003 | PERF001 | STREAM001 | GRAPH001 | "
        "DEVICE001 | BIG001 | RACE001 | MEM003 | MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 "
        "LAUNCH101 BIG002 | APART001",
    ),
]
# Where sides run: what comes before them, what the first runs, what any does, what comes after.
_SIDES = [
    (
        (Profile.QUICK,),
        "cpu",
        "API005",
        "PROC001",
        "RANK001 RANK002 API002 STATE001 KNOWN001 SHP002 GRAD001 LOOP001 LOOP002 CONFIG001 "
        "RANK003 MEM003 "
        "DEVICE001 BIG001",
        "NUM001 MEM004 STREAM001 RACE001 COMPILE001 API001 MEM002 SHP001 API003 API004 MEM001 "
        "NUM002 NUM004 NUM005 META001 FUZZ001 LAYOUT001 GRAPH001 GHOST001 OPCHECK001 KERNEL001",
        "NUM003 DET001 DET002 MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 LAUNCH101 BIG002 "
        "APART001 PERF001",
    ),
    (
        (Profile.QUICK,),
        "cuda",
        "API005",
        "PROC001",
        "RANK001 RANK002 API002 STATE001 KNOWN001 SHP002 GRAD001 LOOP001 LOOP002 CONFIG001 "
        "RANK003 MEM003 "
        "DEVICE001 BIG001",
        "NUM001 MEM004 STREAM001 RACE001 COMPILE001 API001 MEM002 SHP001 API003 API004 MEM001 "
        "NUM002 NUM004 NUM005 META001 FUZZ001 LAYOUT001 GRAPH001 GHOST001 OPCHECK001 KERNEL001",
        "NUM003 DET001 DET002 PERF001 MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 "
        "LAUNCH101 BIG002 APART001",
    ),
    (
        _OTHERS,
        "cpu",
        "API005",
        "",
        "API002 PROC001 STATE001 KNOWN001 SHP002 GRAD001 LOOP001 LOOP002 CONFIG001 RANK001 "
        "RANK002 RANK003 "
        "DEVICE001 BIG001 MEM003",
        "NUM001 MEM004 COMPILE001 STREAM001 RACE001 API001 MEM002 SHP001 API003 API004 MEM001 "
        "NUM002 NUM004 NUM005 META001 FUZZ001 LAYOUT001 GHOST001 OPCHECK001 KERNEL001 GRAPH001",
        "NUM003 DET001 DET002 MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 LAUNCH101 BIG002 "
        "APART001 PERF001",
    ),
    (
        _OTHERS,
        "cuda",
        "API005",
        "",
        "API002 PROC001 STATE001 KNOWN001 SHP002 GRAD001 LOOP001 LOOP002 CONFIG001 RANK001 "
        "RANK002 RANK003 "
        "DEVICE001 BIG001 MEM003",
        "NUM001 MEM004 COMPILE001 STREAM001 RACE001 API001 MEM002 SHP001 API003 API004 MEM001 "
        "NUM002 NUM004 NUM005 META001 FUZZ001 LAYOUT001 GHOST001 OPCHECK001 KERNEL001 GRAPH001",
        "NUM003 DET001 DET002 PERF001 MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 "
        "LAUNCH101 BIG002 APART001",
    ),
]


def _codes(checks: Iterable[Check]) -> str:
    return " ".join(check.code for check in checks)


def _all(order: Schedule) -> tuple[Check, ...]:
    return (*order.first, *order.untouched, *order.others)


@pytest.mark.parametrize(("profiles", "device", "expected"), _ONE_SIDE)
def test_one_side_runs_all_checks_in_this_order_and_these_processes(
    profiles: tuple[Profile, ...], device: str, expected: str
) -> None:
    for profile in profiles:
        said, before = list[str](), None
        for check in _all(schedule(all_checks(), profile, Device(device))):
            if before is not None and needs_new_process(check, before, profile):
                said.append("|")
            said.append(check.code)
            before = check
        assert " ".join(said) == expected


@pytest.mark.parametrize(
    ("profiles", "device", "first", "untouched", "first_side", "any_side", "after"), _SIDES
)
def test_several_sides_share_all_checks_so(
    profiles: tuple[Profile, ...],
    device: str,
    first: str,
    untouched: str,
    first_side: str,
    any_side: str,
    after: str,
) -> None:
    for profile in profiles:
        order = schedule(all_checks(), profile, Device(device))
        assert _codes(order.first) == first
        assert _codes(order.untouched) == untouched
        assert _codes(order.of_first_side) == first_side
        assert _codes(order.of_any_side) == any_side
        assert _codes(order.after_sides) == after


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
@pytest.mark.parametrize("profile", list(Profile))
def test_every_check_has_one_turn(profile: Profile, device: str) -> None:
    order = schedule(all_checks(), profile, Device(device))
    assert sorted(_codes(_all(order)).split()) == sorted(one.code for one in all_checks())
    sides = (*order.of_first_side, *order.of_any_side, *order.after_sides)
    assert sorted(_codes(sides).split()) == sorted(one.code for one in order.others)


def test_what_begins_ahead_is_executed_by_the_machine_or_has_processes_of_its_own() -> None:
    assert _codes(filter(begins_ahead, all_checks())) == (
        "MEM101 INIT101 RACE101 SYNC101 PREC101 STREAM101 LAUNCH101 BIG002 APART001 MEM003"
    )


def _check(name: str, **needs: object) -> Check:
    """Return a check of which nothing is known but what it needs."""

    class Made(Check):
        code = name

    Made.needs = Needs(**needs)  # type: ignore[arg-type]
    return Made()


@pytest.mark.parametrize(
    ("before", "check", "quick", "otherwise"),
    [
        ({}, {}, False, False),
        ({}, {"group": Group.SHAPES}, False, True),
        ({"group": Group.NONE}, {"group": Group.NONE}, False, True),
        ({}, {"process": Process.NEW_IF_WRONG}, False, False),
        ({}, {"process": Process.OWN}, True, True),
        ({}, {"process": Process.UNTOUCHED}, True, True),
        ({"process": Process.OWN}, {}, True, True),
        ({"process": Process.UNTOUCHED}, {}, False, False),
        ({"process": Process.OWN}, {"process": Process.OWN, "when": When.LATE}, False, True),
    ],
)
def test_a_process_is_shared_where_both_checks_allow_it(
    before: dict[str, object], check: dict[str, object], quick: bool, otherwise: bool
) -> None:
    pair = _check("B", **check), _check("A", **before)
    assert needs_new_process(*pair, Profile.QUICK) is quick
    assert needs_new_process(*pair, Profile.STANDARD) is otherwise


def test_the_first_check_of_a_side_has_a_process_of_its_own_but_a_late_one_at_quick() -> None:
    late = _check("A", process=Process.OWN, when=When.LATE)
    assert needs_new_process(_check("B"), None, Profile.QUICK)
    assert not needs_new_process(late, None, Profile.QUICK)
    assert needs_new_process(late, None, Profile.DEEP)


def test_at_quick_what_decides_first_takes_the_process_of_the_preparations_and_no_other_does() -> (
    None
):
    first = _check("A", when=When.FIRST)
    assert not needs_new_process(first, None, Profile.QUICK)
    assert needs_new_process(_check("B"), first, Profile.QUICK)
    assert needs_new_process(first, None, Profile.STANDARD)
    assert not needs_new_process(_check("B"), first, Profile.STANDARD)


def test_of_any_side_what_waits_longest_is_taken_first_and_nothing_that_runs_alone() -> None:
    checks = [
        _check("A", split=Split.ANY_SIDE),
        _check("B", split=Split.AMONG_SIDES),
        _check("C", split=Split.ANY_SIDE, when=When.EARLY),
        _check("D", split=Split.ANY_SIDE, alone=True),
        _check("E", when=When.AFTER_SIDES),
        _check("F", split=Split.AT_ONCE),
    ]
    order = schedule(checks, Profile.STANDARD, CUDA)
    assert _codes(order.of_any_side) == "C A"
    needed = _check("N", split=Split.ANY_SIDE, when=When.DECISIVE)
    needed.worth = 4.0  # type: ignore[misc]
    assert _codes(schedule([*checks, needed], Profile.STANDARD, CUDA).of_any_side) == "N C A"
    assert _codes(order.of_first_side) == "B F"
    assert _codes(order.after_sides) == "D E"
    assert _codes(order.others) == "A B C D E F"


def test_a_mode_is_stated_where_all_scenarios_of_a_check_have_it() -> None:
    assert [one.code for one in all_checks() if one.needs.mode is not Mode.PLAIN] == ["MEM002"]
