"""Which lines of a kernel ran, what they cost to issue, and how far off their results were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxsan import isa
from ptxsan.lines import own_line
from ptxsan.parser import parse

if TYPE_CHECKING:
    from ptxsan.api import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line: whether it ran, the issue slots of its instructions (each counted once, not for
    each execution), and the largest relative error of its float results (0: exact, or none).
    """

    line: int
    text: str
    ran: bool
    slots: int
    error: float


def rows(report: Report) -> list[Row]:
    """Return the lines of the kernel's source; those of the PTX where the source is not known."""
    first = report.reports[0]
    text = (report.source or report.ptx).split("\n")
    errors = {one.ptx_line: one.error for one in first.sites}
    found: dict[int, Row] = {}
    for name, function in parse(report.ptx).functions.items():
        if function.entry and report.kernel not in name:
            continue
        for one in function.body:
            source = own_line(one.source)
            line = source.line if report.source and source is not None else one.line
            if report.source and source is None:
                continue
            old = found.get(line)
            found[line] = Row(
                line=line, text=text[line - 1].rstrip() if line <= len(text) else "",
                ran=one.line in first.statistics.executed_lines or bool(old and old.ran),
                slots=isa.row(one).cost + (old.slots if old else 0),
                error=max(errors.get(one.line, 0.0), old.error if old else 0.0),
            )  # fmt: skip
    return [found[line] for line in sorted(found)]
