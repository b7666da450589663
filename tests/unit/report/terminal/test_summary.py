"""The last block of a report: the verdict, what it rests on, and what to do next."""

from __future__ import annotations

import dataclasses

from cuassay.model.verdict import AxisCoverage, Verdict
from cuassay.report.terminal.layout import ASCII
from cuassay.report.terminal.summary import quiet_line, summary
from tests.support import samples


def _told(verdict: Verdict, **options: bool) -> str:
    lines = summary(verdict, width=120, signs=ASCII, runs="/runs", **options)
    return "\n".join(line.plain for line in lines)


def test_a_rejection_leads_with_its_cause_and_an_acceptance_with_where_it_holds() -> None:
    rejected = _told(samples.told())
    assert "REJECTED" in rejected
    assert rejected.index("cause") < rejected.index("conditions")
    accepted = _told(samples.accepted())
    assert "judged" in accepted
    assert "why" not in accepted.split("time")[0].split()


def test_what_a_replay_did_not_look_at_is_not_told() -> None:
    told = _told(samples.accepted(), replayed=True)
    for label in ("checks", "power", "seed", "scope"):
        assert not any(line.strip().startswith(label) for line in told.splitlines()), label


def test_more_is_told_where_more_is_asked_for() -> None:
    short, long = _told(samples.accepted()), _told(samples.accepted(), verbose=True)
    assert len(long.splitlines()) > len(short.splitlines())
    assert "sandbox" in long
    assert "sandbox" not in short
    assert "/runs/" in long
    assert "cuassay report " in short


def test_a_truth_that_is_not_float64_is_told_unasked() -> None:
    verdict = dataclasses.replace(samples.accepted(), truth="float32", truth_reason="")
    assert "float32: no reason given" in _told(verdict)
    assert "float64:" not in _told(samples.accepted())


def test_axes_beyond_ten_are_counted() -> None:
    axes = tuple(AxisCoverage(axis=f"a{n}", values=(n,)) for n in range(13))
    told = _told(dataclasses.replace(samples.accepted(), coverage=axes), verbose=True)
    assert "and 4 more axes, all in the JSON" in told
    assert "a8" in told


def test_a_quiet_line_names_the_cause_or_the_reason() -> None:
    line = quiet_line(samples.told()).plain
    assert line.startswith("REJECTED kernels/bf16_accumulate.py: ")
    assert line.endswith("cuassay replay " + samples.RUN + "/F1")
    accepted = quiet_line(dataclasses.replace(samples.accepted(), reason="all held.")).plain
    assert "\n" not in accepted
    assert ": all held" in accepted
