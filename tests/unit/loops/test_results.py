"""Results of loops as data: what counts as left, names of cells, and what is kept as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cuassay.model import serial
from cuassay.model.loop import Start
from cuassay_loops.results import CellResult, Duplicates
from tests.support.loop_reports import CELL, IN_BAND, LEFT, PROBE


def test_the_name_of_a_cell_may_name_a_file() -> None:
    assert CELL.name == "real-adamw-bf16-1-scratch"
    odd = replace(CELL, data="../a b/ü.txt", start=Start.SURE)
    assert odd.name == ".._a_b_ü.txt-adamw-bf16-1-sure"
    assert "/" not in odd.name


@pytest.mark.parametrize(
    ("result", "left"),
    [
        (IN_BAND, False),
        (LEFT, True),
        (replace(IN_BAND, failure="it raised"), True),
        (replace(IN_BAND, loss_left_band=True), False),  # the loss decides nothing
        (replace(IN_BAND, undecided="no time"), False),
    ],
)
def test_a_kernel_is_at_fault_where_a_gradient_leaves_or_it_fails(
    result: CellResult, left: bool
) -> None:
    assert result.left is left


@pytest.mark.parametrize(
    ("probe", "left"),
    [
        (PROBE, False),
        (replace(PROBE, wrong=(3,)), True),
        (replace(PROBE, parameter="head"), True),
        (replace(PROBE, failure="it raised"), True),
        (replace(PROBE, undecided="no memory"), False),
    ],
)
def test_samples_that_differ_from_their_equals_are_at_fault(probe: Duplicates, left: bool) -> None:
    assert probe.left is left


def test_a_cell_is_read_as_it_was_kept() -> None:
    text = json.dumps(serial.to_json(LEFT))
    assert serial.from_json(CellResult, json.loads(text)) == LEFT
