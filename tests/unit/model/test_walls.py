"""Walls: without a required one no candidate runs, and a verdict without them says so."""

from __future__ import annotations

from cuassay.model.walls import (
    BY_NAME,
    MEMORY,
    NETWORK,
    READS,
    STANDS,
    WALLS,
    WRITES,
    fallen,
    walls_condition,
    were_tried,
    why_not_run,
)

_WHOLE = {wall.name: STANDS for wall in WALLS}


def test_all_walls_together_ask_for_nothing() -> None:
    assert fallen(_WHOLE) == ()
    assert why_not_run(_WHOLE) == walls_condition(_WHOLE) == ""


def test_a_wall_that_is_not_required_keeps_no_candidate_from_running() -> None:
    assert fallen({**_WHOLE, NETWORK: "no: EPERM"}) == ()


def test_a_required_wall_that_fell_or_was_not_reported_is_named_with_its_fix() -> None:
    outcomes = {**_WHOLE, READS: "no: no Landlock"}
    del outcomes[MEMORY]
    why = why_not_run(outcomes)
    assert f"{READS}: no: no Landlock" in why
    assert f"{MEMORY}: no: not reported" in why
    assert WRITES not in why
    assert "--no-sandbox" in why
    condition = walls_condition(outcomes)
    assert READS in condition
    assert MEMORY in condition


def test_a_fix_that_two_walls_share_is_said_once() -> None:
    fix = BY_NAME[WRITES].fix
    assert fix == BY_NAME[READS].fix
    assert why_not_run({MEMORY: STANDS}).count(fix) == 1


def test_walls_count_as_tried_with_the_first_required_outcome() -> None:
    assert not were_tried({})
    assert not were_tried({NETWORK: STANDS})
    assert were_tried({WRITES: "no: EPERM"})
