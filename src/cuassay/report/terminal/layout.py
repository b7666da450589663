"""Lines for a terminal: labels, hanging indents, marks, bars. Wraps text, never commands."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from rich.text import Text

_LABEL_WIDTH = 12
_BAR_WIDTH = 24
_MINIMUM_WIDTH = 40
# A log line that starts so is an order to GitHub's runner, however it is indented.
_WORKFLOW_COMMAND = re.compile(r"^(\s*:)(?=:)|(#)(?=#\[)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """The signs of one output encoding."""

    passed: str = "✓"
    failed: str = "✗"
    condition: str = "!"
    inconclusive: str = "?"
    skipped: str = "⏭"
    errored: str = "E"
    full: str = "█"
    empty: str = "░"
    over: str = "▶"
    rule: str = "─"
    dot: str = "·"


ASCII = Marks(
    passed="+",
    failed="x",
    skipped="-",
    errored="E",
    full="#",
    empty=".",
    over=">",
    rule="-",
    dot="|",
)
STYLES = {
    "passed": "green",
    "failed": "bold red",
    "condition": "yellow",
    "inconclusive": "yellow",
    "skipped": "dim",
    "errored": "bold magenta",
    "ACCEPTED": "bold green",
    "REJECTED": "bold red",
    "INCONCLUSIVE": "bold yellow",
    "wrong": "bold red",
    "unsafe": "yellow",
    "advice": "cyan",
}


def marks(encoding: str) -> Marks:
    """Return signs that `encoding` can write."""
    return Marks() if encoding.lower().replace("-", "").startswith("utf") else ASCII


def wrapped(text: str, *, width: int, lines: int | None = None) -> list[str]:
    """Return `text` wrapped at `width`, at most `lines` long; a cut shows as `…`."""
    found = textwrap.wrap(text, max(width, _MINIMUM_WIDTH), break_on_hyphens=False) or [""]
    found = [inert(row) for row in found]
    if lines is None or len(found) <= lines:
        return found
    return [*found[: lines - 1], found[lines - 1][: max(width, _MINIMUM_WIDTH) - 1].rstrip() + "…"]


def inert(row: str) -> str:
    """Return `row` so that no CI runner takes it for a workflow command."""
    return _WORKFLOW_COMMAND.sub(r"\1\2 ", row)


def labelled(
    label: str, value: str, *, width: int, style: str = "", lines: int | None = None
) -> list[Text]:
    """Return `value` wrapped beside a dim label, later lines indented under the first."""
    indent = _LABEL_WIDTH + 2
    rows = wrapped(value, width=width - indent, lines=lines)
    return _beside(label, (Text(row, style=style) for row in rows))


def command(label: str, value: str) -> list[Text]:
    """Return a command beside its label, never wrapped, so that it can be copied."""
    return _beside(label, [Text(value, style="bold")])


def code(label: str, rows: Iterable[str], *, style: str = "") -> list[Text]:
    """Return lines of code or log beside a label, never wrapped."""
    return _beside(label, (Text(inert(row), style=style) for row in rows))


def _beside(label: str, rows: Iterable[Text]) -> list[Text]:
    lines: list[Text] = []
    for row in rows:
        head = label if not lines else ""
        lines.append(Text.assemble(("  " + head.ljust(_LABEL_WIDTH), "dim"), row))
    return lines


def bar(share: float | None, *, signs: Marks) -> Text:
    """Return a bar of the error budget: full at 1, with an arrow beyond."""
    if share is None:
        return Text("")
    part = 1.0 if math.isnan(share) else min(max(share, 0.0), 1.0)
    full = round(part * _BAR_WIDTH)
    over = math.isnan(share) or share > 1
    style = "red" if over else "yellow" if part > 0.9 else "green"
    return Text.assemble(
        (signs.full * full, style),
        (signs.empty * (_BAR_WIDTH - full), "dim"),
        (signs.over if over else " ", style),
    )
