"""The documentation of a check as reports carry it: one text for explain, SARIF and HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A check's stable code, its title and the sections of its page: heading and text.

    `address` is where the documentation site has the page, empty where none is known.
    """

    code: str
    title: str
    sections: tuple[tuple[str, str], ...] = ()
    address: str = ""

    def section(self, heading: str) -> str:
        """Return the text under `heading` in one paragraph, empty where there is none."""
        return " ".join(dict(self.sections).get(heading, "").split())

    def text(self) -> str:
        """Return the whole page as plain text."""
        parts = (f"{heading}\n{body}" for heading, body in self.sections)
        return "\n\n".join((f"{self.code}: {self.title}", *parts))

    def markdown(self) -> str:
        """Return the whole page as Markdown."""
        parts = (f"### {heading}\n\n{body}" for heading, body in self.sections)
        return "\n\n".join((f"## {self.code}: {self.title}", *parts))


Rules: TypeAlias = Callable[[str], Rule]  # by code; a code without a page has only its title
