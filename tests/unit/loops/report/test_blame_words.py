"""The report that names a kernel of several, in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cuassay.model.verdict import Decision
from cuassay_loops.report import blame_words
from tests.support.loop_reports import blame_report


@pytest.mark.parametrize(
    ("decision", "word"),
    [
        (Decision.REJECTED, "BLAMED"),
        (Decision.ACCEPTED, "CLEARED"),
        (Decision.INCONCLUSIVE, "INCONCLUSIVE"),
    ],
)
def test_a_decision_about_several_kernels_has_words_of_its_own(
    decision: Decision, word: str
) -> None:
    report = replace(blame_report(), decision=decision)
    assert next(blame_words.lines(report)).startswith(f"{word}  norm makes the run")
    assert blame_words.markdown(report).startswith(f"# {word}: norm")
    assert f"<h1>{word}</h1>" in blame_words.page(report)


def test_runs_are_numbered_with_where_they_left() -> None:
    rows = [line.split() for line in blame_words.lines(blame_report()) if line.startswith("  ")]
    assert rows[1] == ["1", "norm,", "rope", "LEFT", "3", "w", "0.5", "0.01"]
    assert rows[2] == ["2", "rope", "in", "band"]


def test_what_was_compared_decides_what_is_promised() -> None:
    gradients = "\n".join(blame_words.lines(blame_report()))
    assert "false-alarm rate 0.0001 a run" in gradients
    losses = "\n".join(blame_words.lines(replace(blame_report(), witness="losses")))
    assert "no false-alarm rate is stated" in losses
    assert "nothing was isolated" in gradients
    isolated = "\n".join(blame_words.lines(replace(blame_report(), isolated=True)))
    assert "isolated" not in isolated


def test_a_page_runs_no_script_and_shows_names_as_text() -> None:
    hostile = replace(blame_report(), reason="<script>alert(1)</script>", culprit="</script>")
    page = blame_words.page(hostile)
    assert "<script>alert" not in page
    assert page.count("</script>") == 1  # of the data, which the name does not end
    assert "default-src 'none'" in page
    assert "no kernel" in blame_words.markdown(replace(blame_report(), culprit=""))


def test_a_rate_of_zero_is_none_in_the_document() -> None:
    found = json.loads(json.dumps(blame_words.document(blame_report()), allow_nan=False))
    assert (found["verdict"], found["culprit"]) == ("REJECTED", "norm")
    assert [run["left"] for run in found["runs"]] == [True, False]
    assert found["false_alarm_rate"] == 1e-4
    bare = blame_words.document(replace(blame_report(), false_alarm_rate=0.0))
    assert bare["false_alarm_rate"] is None
