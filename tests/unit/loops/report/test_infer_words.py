"""The report of decoding in words."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from cuassay_loops.report import infer_words
from tests.support.loop_reports import infer_report


def test_qualities_are_a_table_under_its_header() -> None:
    head, trusted, kernel = infer_words.quality_rows(infer_report())
    assert head[0] == "logits of"
    assert trusted == ("trusted", "1.00e-06", "1.00e-05", "99.5 %", "100.0 %", "12.346")
    assert kernel[1:] == trusted[1:]


def test_notes_say_what_else_was_tried() -> None:
    assert list(infer_words.notes(infer_report())) == [
        "pages: in any order",
        "error over length: slope +0.50, reference +0.45",
        "greedy generation: all 32 tokens as the trusted run's",
        "sampled generation: 9 of 32 tokens as the trusted run's; margin of the next 0.015",
        "advice: the kernel copies its cache",
    ]
    bare = replace(infer_report(), slope=None, checks={}, generations=(), advice=())
    assert list(infer_words.notes(bare)) == []


def test_a_terminal_shows_lengths_and_the_rate_of_false_alarms() -> None:
    first, *rest = infer_words.lines(infer_report())
    assert first == "ACCEPTED  kernel.py at site attention (cpu, micro, bf16)"
    assert rest[-2].startswith("  2 sequences of 20 to 48 tokens; false-alarm rate 0.0001")
    assert rest[-1] == "  seed 5; 3 s"
    without = list(infer_words.lines(replace(infer_report(), quality={})))
    assert not any("perplexity" in line for line in without)


def test_the_document_is_valid_json_with_numbers_that_have_no_end() -> None:
    made = infer_words.document(replace(infer_report(), deviation=math.nan, slope=math.inf))
    found = json.loads(json.dumps(made, allow_nan=False))
    assert isinstance(found["deviation"], str)
    assert isinstance(found["slope"], str)
    assert found["generations"][1] == {
        "kind": "sampled", "tokens": 32, "agreed": 9, "margin": 0.015,
    }  # fmt: skip
    assert infer_words.document(replace(infer_report(), slope=None))["slope"] is None


def test_markdown_ends_with_what_was_judged_where() -> None:
    text = infer_words.markdown(infer_report())
    assert text.startswith("# ACCEPTED: ")
    assert "digest `dddddddd`, seed 5, device cpu, model `micro` in bf16" in text
    assert "torch 2.13" in text.splitlines()[-1]
