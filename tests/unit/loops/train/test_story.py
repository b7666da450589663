"""What the runs of a matrix say together: who rejects, who leaves it open, in which words."""

from __future__ import annotations

import dataclasses

import pytest

from cuassay.model.loop import Start
from cuassay.model.verdict import Decision
from cuassay_loops.results import Cell, CellResult, Duplicates
from cuassay_loops.train.story import decide_matrix, ranges, story


def _cell(
    data: str = "real", optimizer: str = "sgd", seed: int = 0, **changes: object
) -> CellResult:
    cell = Cell(data=data, optimizer=optimizer, precision="bf16", seed=seed)
    made = CellResult(cell=cell, learning_rate=0.1, steps=100)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def _left(**changes: object) -> CellResult:
    given: dict[str, object] = {
        "gradient_left_band": True, "step": 7, "parameter": "embed", "deviation": 0.5,
        "noise": 0.01,
    }  # fmt: skip
    return _cell(**(given | changes))  # type: ignore[arg-type]


def _probe(**changes: object) -> Duplicates:
    made = Duplicates(precision="bf16", start=Start.SCRATCH, samples=64)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_runs_inside_the_band_accept() -> None:
    decision, why = decide_matrix([_cell(), _cell(seed=1, steps=300)], probes=[_probe()])
    assert decision is Decision.ACCEPTED
    assert why == "no gradient left the noise band in 2 runs of up to 300 steps"


def test_one_run_outside_rejects_whatever_the_others_say() -> None:
    cells = [_cell(undecided="out of memory"), _cell(failure="it died"), _left(rows=(1, 2))]
    decision, why = decide_matrix(cells)
    assert decision is Decision.REJECTED
    assert why.startswith("gradients leave the noise band in 1 runs, first at step 7 with real+sgd")
    assert "embed rows 1, 2, deviation 0.5 where trusted from trusted is 0.01" in why


@pytest.mark.parametrize(
    ("cells", "probes", "decision", "words"),
    [
        ([_cell(), _cell(failure="it died")], [], Decision.REJECTED, "failed in 1 of 2 runs"),
        ([_cell()], [_probe(wrong=(3,))], Decision.REJECTED, "gradients of 1 samples (3) differ"),
        ([_cell()], [_probe(failure="x")], Decision.REJECTED, "a batch of 64 duplicates: x"),
        ([_cell()], [_probe(parameter="w")], Decision.REJECTED, "the gradient of w is off"),
        ([_cell()], [_probe(undecided="no")], Decision.INCONCLUSIVE, "batch of duplicates: no"),
        ([_cell(undecided="oom")], [], Decision.INCONCLUSIVE, "from 1 of 1 runs: oom"),
        ([], [], Decision.INCONCLUSIVE, "no cell was run"),
    ],
)
def test_what_fails_rejects_and_what_says_nothing_leaves_it_open(
    cells: list[CellResult], probes: list[Duplicates], decision: Decision, words: str
) -> None:
    found, why = decide_matrix(cells, probes=probes)
    assert found is decision
    assert words in why


def test_the_story_tells_where_the_loss_shows_the_fault() -> None:
    cells = [
        _left(loss_left_band=True),
        _left(data="zipf1"),
        _cell(data="zipf1", seed=1),
        _cell(optimizer="adamw"),
        _cell(optimizer="muon", undecided="no"),
    ]
    assert story(cells) == (
        "the loss leaves with: real+sgd; only gradients show it with: zipf1+sgd (1 of 2); "
        "hidden with: zipf1+sgd (1 of 2), real+adamw"
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], ""),
        ([3], "3"),
        ([3, 5, 6, 7], "3, 5-7"),
        ([0, 2, 4, 6, 8], "0, 2, 4, 6, ..."),
        ([1, 2, 3, 4], "1-4"),
    ],
)
def test_numbers_as_ranges(numbers: list[int], expected: str) -> None:
    assert ranges(numbers) == expected
