"""Every check in running order, and the page of every code. Imports no torch."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from cuassay.checks.base import Check, Page
from cuassay.errors import UnknownNameError

HEADINGS = (
    "What it does",
    "Why it matters",
    "How it decides",
    "Can it be wrong?",
    "Example",
    "Options",
)
_FOLDER = Path(__file__).parent
# Code -> file and class that hold its docstring. Checks first, in running order.
_PAGES = {
    "API002": ("api002.py", "Api002"),
    "API001": ("api001.py", "Api001"),
    "API003": ("api003.py", "Api003"),
    "STATE001": ("state001.py", "State001"),
    "MEM001": ("mem001.py", "Mem001"),
    "KNOWN001": ("known001.py", "Known001"),
    "NUM001": ("num001.py", "Num001"),
    "NUM002": ("num002.py", "Num002"),
    "META001": ("meta001.py", "Meta001"),
    "SHP001": ("shp001.py", "Shp001"),
    "FUZZ001": ("fuzz001.py", "Fuzz001"),
    "DET001": ("det001.py", "Det001"),
    "BUILD001": ("endings.py", "Build001"),
    "RUN001": ("endings.py", "Run001"),
    "RUN002": ("endings.py", "Run002"),
    "RUN003": ("endings.py", "Run003"),
    "RUN004": ("endings.py", "Run004"),
    "RUN005": ("endings.py", "Run005"),
    "RUN006": ("endings.py", "Run006"),
}


@cache
def all_checks() -> tuple[Check, ...]:
    """Return one instance of every check, cheap host-state checks first."""
    from cuassay.checks.api001 import Api001
    from cuassay.checks.api002 import Api002
    from cuassay.checks.api003 import Api003
    from cuassay.checks.det001 import Det001
    from cuassay.checks.fuzz001 import Fuzz001
    from cuassay.checks.known001 import Known001
    from cuassay.checks.mem001 import Mem001
    from cuassay.checks.meta001 import Meta001
    from cuassay.checks.num001 import Num001
    from cuassay.checks.num002 import Num002
    from cuassay.checks.shp001 import Shp001
    from cuassay.checks.state001 import State001

    return (
        Api002(),
        Api001(),
        Api003(),
        State001(),
        Mem001(),
        Known001(),
        Num001(),
        Num002(),
        Meta001(),
        Shp001(),
        Fuzz001(),
        Det001(),
    )


def codes() -> tuple[str, ...]:
    """Return every code that `page` knows: checks in running order, then how runs end."""
    return tuple(_PAGES)


def page(code: str) -> Page:
    """Return the documentation of a code, upper or lower case.

    Raises UnknownNameError with a suggestion where there is no such code.
    """
    known = code.strip().upper()
    if known not in _PAGES:
        raise UnknownNameError("code", code, _PAGES, "see `cuassay explain` for all of them")
    file, name = _PAGES[known]
    return _parse(known, _docstring(_FOLDER / file, name))


def _docstring(file: Path, class_name: str) -> str:
    """Return a class's docstring from its source: also where python -OO stripped it."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return ast.get_docstring(node) or ""
    raise ValueError(f"{file.name} has no class {class_name}")


def _parse(code: str, text: str) -> Page:
    title, *lines = text.splitlines()
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        if line in HEADINGS:
            sections.append((line, []))
        elif sections:
            sections[-1][1].append(line.strip())
    parsed = tuple((heading, "\n".join(body).strip()) for heading, body in sections)
    return Page(code=code, title=title, sections=parsed)
