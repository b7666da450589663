"""Pages of causes: one a cause, each in words of its own that a reader finishes."""

from __future__ import annotations

import pytest

from cuassay.diagnosis.causes import PAGES
from cuassay.model.diagnosis import Cause


def test_every_cause_has_a_page_and_no_page_is_left_over() -> None:
    assert PAGES.keys() == set(Cause)


def test_no_two_causes_are_called_or_repaired_alike() -> None:
    for part in ("name", "words"):
        said = [getattr(page, part) for page in PAGES.values()]
        assert len(set(said)) == len(said), part


@pytest.mark.parametrize("cause", list(Cause))
def test_a_page_is_short_and_names_what_to_do(cause: Cause) -> None:
    page = PAGES[cause]
    assert len(page.name) <= 50
    for text in (page.name, page.words, page.remedy):
        assert text == text.strip()
        assert text
        assert not text.endswith(".")  # it becomes part of a sentence
    assert len(page.words.split()) <= 25
    assert len(page.remedy.split()) <= 30
    assert page.words[0].islower()
