"""The card of a finding: what was measured against what, pictures, evidence, and no markup."""

from __future__ import annotations

import dataclasses

from cuassay.report.html.finding import finding_card
from tests.support import samples


def _card(*, pictures: bool = False, **changes: object) -> str:
    finding = dataclasses.replace(samples.hot_rows(), **changes)  # type: ignore[arg-type]
    return finding_card(finding, pictures=pictures, text_bytes=4096)


def test_a_card_says_what_was_measured_against_what_was_allowed() -> None:
    card = _card()
    assert "measured 0.0892, allowed 0.00486" in card
    assert 'id="F1"' in card
    assert "NUM002" in card
    assert "cuassay replay" in card


def test_what_was_not_measured_has_no_bar() -> None:
    assert '<div class="budget">' not in _card(measured=None)
    assert '<div class="mark">' not in _card(allowed=None)
    assert "measured 0.0892 (" in _card(allowed=None)


def test_pictures_are_drawn_where_they_are_asked_for_and_there_are_any() -> None:
    assert "<svg" not in _card(growth=None).split("budget")[0]
    drawn = _card(pictures=True)
    assert "grows with tokens" in drawn
    assert "Where grad_embed_weight is off" in drawn
    bare = _card(pictures=True, growth=None, error_map=None)
    assert '<div class="pair">' not in bare


def test_a_map_whose_cells_do_not_fit_its_shape_is_not_drawn() -> None:
    broken = dataclasses.replace(samples.error_map(), rows=7)
    assert "is off" not in _card(pictures=True, error_map=broken, growth=None)


def test_evidence_is_open_where_it_is_all_there_is() -> None:
    text = "Traceback <b>"
    assert '<details class="plot" open>' in _card(evidence=text, measured=None)
    assert '<details class="plot">' in _card(evidence=text)
    assert "<b>" not in _card(evidence=text).split("Traceback")[1][:20]


def test_text_of_a_candidate_is_escaped_and_cut() -> None:
    card = _card(message='<img src=x onerror="y">', evidence="x" * 10_000, title="<i>")
    assert "<img" not in card
    assert "<i>" not in card
    assert len(card) < 12_000
