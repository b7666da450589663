"""The report of a training matrix in words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from cuassay_loops.report import train_words
from cuassay_loops.results import CellResult, Duplicates
from tests.support.loop_reports import IN_BAND, LEFT, PROBE, train_report


@pytest.mark.parametrize(
    ("result", "gradient", "where"),
    [
        (IN_BAND, "in band", "–"),
        (LEFT, "LEFT @7", "blocks.0.norm[1,2,3,4,...]"),
        (replace(LEFT, rows=()), "LEFT @7", "blocks.0.norm"),
        (replace(LEFT, failure="it raised"), "FAILED", "it raised"),
        (replace(LEFT, undecided="no time"), "undecided", "no time"),
    ],
)
def test_a_row_says_how_a_cell_went_and_where_it_left(
    result: CellResult, gradient: str, where: str
) -> None:
    row = dict(zip(train_words.HEADER, train_words.row(result), strict=True))
    assert (row["gradient"], row["first left"]) == (gradient, where)
    assert row["kernel"] == "2.4999"
    measured = (row["bias"], row["deviation"], row["noise"])
    assert measured == (("-0.25", "0.5", "0.01") if result.gradient_left_band else ("–",) * 3)


def test_a_cell_that_does_not_begin_at_random_says_how() -> None:
    assert train_words.row(IN_BAND)[0] == "real"
    assert train_words.row(LEFT)[0] == "real (trained)"


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (PROBE, "gradients alike to 0.001 (trusted: 0.002)"),
        (replace(PROBE, wrong=(1, 9)), "2 samples differ from their equals by 0.001"),
        (replace(PROBE, parameter="head", deviation=0.3), "gradient of head off the samples'"),
        (replace(PROBE, undecided="no memory"), "undecided: no memory"),
        (replace(PROBE, failure="it raised", wrong=(1,)), "it raised"),
    ],
)
def test_a_batch_of_duplicates_is_one_line(probe: Duplicates, words: str) -> None:
    line = train_words.duplicates(probe)
    assert line.startswith("a batch of 256 duplicates (bf16, scratch): ")
    assert words in line


def test_a_terminal_shows_the_decision_first_and_where_cells_are_kept_last() -> None:
    first, reason, *rest = train_words.lines(train_report())
    assert first.startswith("REJECTED  kernel.py at site rmsnorm (cpu, micro: vocabulary 300")
    assert reason == "  a gradient left the band"
    assert rest[-1] == "  seed 5; 12 s; cells in /runs/x"
    resumed = list(train_words.lines(replace(train_report(), resumed=1)))
    assert resumed[-1] == "  seed 5; 12 s, 1 cells kept from before; cells in /runs/x"


def test_columns_are_as_wide_as_their_widest_text() -> None:
    assert list(train_words.table([("a", "b"), ("long", "c")])) == ["  a     b", "  long  c"]


def test_numbers_without_an_end_are_valid_json() -> None:
    odd = replace(LEFT, deviation=math.inf, loss_candidate=math.nan)
    made = train_words.document(replace(train_report(), cells=(odd,)))
    text = json.dumps(made, allow_nan=False)
    (cell,) = json.loads(text)["cells"]
    assert isinstance(cell["deviation"], str)
    assert cell["step"] == 7
    assert json.loads(text)["schema"] == train_words.SCHEMA


def test_markdown_holds_the_matrix_and_nothing_that_a_name_brings() -> None:
    hostile = replace(train_report(), reason="![x](http://evil)", device="`cpu`\n# no")
    text = train_words.markdown(hostile)
    assert "\n# no" not in text
    assert "![x](" not in text
    assert text.count("LEFT") == 1
