"""The site's pages of checks, classes and causes: all of them, and every link leads somewhere."""

from __future__ import annotations

import posixpath
import re

from cuassay.checks import registry
from cuassay.cli.pages import CLASSES_PAGE, pages
from cuassay.diagnosis import PAGES
from cuassay.model.failure_classes import FAILURE_CLASSES

_PAGES = pages()


def test_every_check_class_and_cause_has_its_place() -> None:
    assert {f"checks/{code}.md" for code in registry.codes()} <= _PAGES.keys()
    for name in FAILURE_CLASSES:
        assert f"### {name}\n" in _PAGES[CLASSES_PAGE]
    for cause in PAGES:
        assert f"| `{cause.value}` |" in _PAGES["checks/causes.md"]


def test_links_lead_to_pages_and_headings_that_are_there() -> None:
    for place, text in _PAGES.items():
        prose = re.sub(r"```.*?```|^ {4}.*$|`[^`]*`", "", text, flags=re.DOTALL | re.MULTILINE)
        for target in re.findall(r"\]\(([^)]+)\)", prose):
            file, _, heading = target.partition("#")
            found = posixpath.normpath(posixpath.join(posixpath.dirname(place), file))
            if found in _PAGES and heading:
                assert f"### {heading.upper()}\n" in _PAGES[found], (place, target)
            elif not target.startswith("http"):
                assert found in _PAGES or found == "diagnosis.md", (place, target)


def test_rows_of_tables_have_as_many_cells_as_their_head() -> None:
    for place, text in _PAGES.items():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(cells) == 1, (place, table[:80])


def test_a_check_s_page_says_which_classes_it_covers() -> None:
    code = next(code for code in registry.codes() if registry.classes(code))
    for name in registry.classes(code):
        assert f"failure-classes.md#{name.lower()}" in _PAGES[f"checks/{code}.md"]
