"""The documentation site has a page for every check and class; `make docs` builds it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cuassay.checks import registry
from cuassay.cli.pages import CLASSES_PAGE, pages
from cuassay.model.diagnosis import Cause
from cuassay.model.failure_classes import FAILURE_CLASSES

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(([^)#\s]+)")


def test_every_check_class_and_cause_has_its_words() -> None:
    made = pages()
    for code in registry.codes():
        text = made[f"checks/{code}.md"]
        assert text.startswith(f"# {code}: ")
        assert "What it cannot see" in text
    assert all(f"### {name}\n" in made[CLASSES_PAGE] for name in FAILURE_CLASSES)
    assert all(f"`{cause.value}`" in made["checks/causes.md"] for cause in Cause)


def test_checks_file_under_classes_that_exist() -> None:
    named = {name for code in registry.codes() for name in registry.classes(code)}
    assert named
    assert named <= set(FAILURE_CLASSES)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_links_beside_the_site_lead_somewhere(page: str) -> None:
    for target in _LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        assert target.startswith("http") or (ROOT / target).exists(), f"{page}: {target}"


def test_architecture_fits_three_screens_and_names_what_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 120
    roots = (ROOT, ROOT / "src/cuassay", ROOT / "packages/ptxsan/src")
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]*(?:\.py|\.md)?|[a-z_0-9]+\.py)`", text))
    assert "checks/state/earlier_calls.py" in named
    lost = {
        name
        for name in named
        if not any((root / name).exists() for root in (*roots, roots[2] / "ptxsan", ROOT / "docs"))
        and not any((roots[1] / part / name).exists() for part in ("oracle", "sandbox"))
    }
    assert not lost
