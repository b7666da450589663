"""Every check in running order, and the page of every code. Imports no torch."""

from __future__ import annotations

import ast
import importlib
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
# Every check in running order, cheap host-state checks first and violent ones last. Those with a
# process of their own stand together: before and after one of them each costs a CUDA context.
_CHECKS = (
    "API002",
    "API001",
    "API003",
    "PROC001",
    "STATE001",
    "STATE002",
    "MEM001",
    "MEM002",
    "MEM004",
    "MEM101",
    "INIT101",
    "RACE101",
    "SYNC101",
    "PREC101",
    "KNOWN001",
    "NUM001",
    "NUM002",
    "META001",
    "SHP001",
    "FUZZ001",
    "LAYOUT001",
    "GRAD001",
    "LOOP001",
    "LOOP002",
    "DET001",
    "DET002",
    "GHOST001",
    "KERNEL001",
    "OPCHECK001",
    "COMPILE001",
    "PERF001",
    "STREAM001",
    "GRAPH001",
    "DEVICE001",
    "BIG001",
    "RACE001",
    "MEM003",
)
_ENDINGS = ("BUILD001", "RUN001", "RUN002", "RUN003", "RUN004", "RUN005", "RUN006", "RUN007")


def _place(code: str) -> tuple[str, str]:
    """Return the module and the class of a code: `NUM001` is num001.Num001."""
    name = code.capitalize()
    return ("endings" if code in _ENDINGS else code.lower()), name


@cache
def all_checks() -> tuple[Check, ...]:
    """Return one instance of every check in running order."""
    found = []
    for module, name in map(_place, _CHECKS):
        check: Check = getattr(importlib.import_module(f"cuassay.checks.{module}"), name)()
        found.append(check)
    return tuple(found)


def codes() -> tuple[str, ...]:
    """Return every code that `page` knows: checks in running order, then how runs end."""
    return (*_CHECKS, *_ENDINGS)


def page(code: str) -> Page:
    """Return the documentation of a code, upper or lower case.

    Raises UnknownNameError with a suggestion where there is no such code.
    """
    known = code.strip().upper()
    if known not in codes():
        raise UnknownNameError("code", code, codes(), "see `cuassay explain` for all of them")
    module, name = _place(known)
    return _parse(known, _docstring(_FOLDER / f"{module}.py", name))


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
