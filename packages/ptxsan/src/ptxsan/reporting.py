"""A report in words (in the shape of compute-sanitizer's), as JSON, and as SARIF 2.1.0."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ptxsan.findings import Access, Kind, MachineFinding, Severity

if TYPE_CHECKING:
    from ptxsan import ranks
    from ptxsan.api import Report

_BAR = "========= "
_HIDDEN = " (only as -G compiles it: optimisation hides it)"
_RULE = "========="
_TITLES = {
    Kind.OUT_OF_BOUNDS: "Invalid access out of bounds",
    Kind.ADDRESS_OVERFLOW: "Invalid access: the address has overflowed",
    Kind.MISALIGNED: "Invalid misaligned access",
    Kind.READ_ONLY: "Invalid write to read-only memory",
    Kind.UNINITIALISED: "Uninitialized memory is used",
    Kind.RACE: "Race reported",
    Kind.SAME_VALUE_RACE: "Race reported: all write the same value",
    Kind.DIVERGENT_BARRIER: "Barrier error detected",
    Kind.DIVERGENT_COLLECTIVE: "Warp operation with missing threads",
    Kind.DEADLOCK: "Deadlock detected",
    Kind.REFUSED_LAUNCH: "Refused launch",
    Kind.UNSEEN_ERROR: "Unchecked CUDA error",
    Kind.UNWRITTEN_COPY: "Uninitialized memory is copied to the host",
    Kind.FREED: "Use of memory that was freed",
    Kind.PEER_ACCESS: "Access to memory of another device without peer access",
    Kind.STREAM_RACE: "Race between streams detected",
}
_LEVELS = {Severity.WRONG: "error", Severity.NOTE: "note", Severity.ADVICE: "note"}


def text(report: Report) -> str:
    """Return the report as lines in the shape of compute-sanitizer's."""
    lines = [f"{_BAR}PTXSAN"]
    for one in report.findings:
        lines += lines_of(one, report.kernel)
    for one in report.hidden:
        lines += lines_of(one, report.kernel, _HIDDEN)
    if report.no_debug_build:
        lines += [
            f"{_BAR}Note: the build without optimisation (-G) was not executed: "
            f"{report.no_debug_build}",
            f"{_BAR}    The result is that of the optimised build; lines and variables that "
            "optimisation hides are missing",
            _RULE,
        ]
    for order in report.order:
        lines += [
            f"{_BAR}Note: {order.bytes} bytes of buffer '{order.buffer}' from offset "
            f"{order.offset} on differ between the schedules {' and '.join(order.schedules)}",
            _RULE,
        ]
    said = dict.fromkeys(line for each in report.reports for line in each.printed)
    lines += [f"{_BAR}printed: {line}" for line in said]
    if report.inconclusive:
        lines += [f"{_BAR}Not executed to the end: {report.inconclusive}", _RULE]
    count = len(report.wrong)
    found = f"ERROR SUMMARY: {count} error{'' if count == 1 else 's'}"
    if report.inconclusive:
        found += "; no verdict"
    elif not count and report.reports[0].oblivious:
        found += " (no branch and no address depends on data: this holds for all data)"
    found += left_out(one for each in report.reports for one in each.left_out)
    return "\n".join([*lines, f"{_BAR}{found}"])


def ranks_text(report: ranks.Report) -> str:
    """Return the report of launches of several ranks as lines."""
    lines = [f"{_BAR}PTXSAN"]
    for one in report.findings:
        lines += lines_of(one, report.kernel)
    if report.inconclusive:
        lines += [f"{_BAR}Not executed to the end: {report.inconclusive}", _RULE]
    count = len(report.wrong)
    found = f"ERROR SUMMARY: {count} error{'' if count == 1 else 's'}"
    found += "; no verdict" if report.inconclusive else ""
    found += left_out(one for each in report.reports for one in each.left_out)
    return "\n".join([*lines, f"{_BAR}{found}"])


def left_out(texts: Iterable[str]) -> str:
    """Return the end of a last line: what launches use that was not looked at."""
    each = tuple(dict.fromkeys(texts))
    return f"; not covered: {', '.join(each)}" if each else ""


def lines_of(one: MachineFinding, kernel: str, note: str = "", place: str = "") -> list[str]:
    """Return a finding in words; `note` follows its title, `place` is a line of its own."""
    what = _TITLES.get(one.kind, one.kind.value.replace("-", " ").capitalize())
    head = {"error": "", "note": "Note: "}[_LEVELS[one.severity]]
    lines = [f"{_BAR}{head}{what}{note}"]
    lines += [f"{_BAR}    {line}" for line in one.text.split("\n")]
    for access in one.accesses[:3]:
        if not access.ptx_line:  # the host's code
            if access.source_line:
                line = f"{access.source_file}:{access.source_line}"
                lines.append(f"{_BAR}    {access.what} at {line}")
            continue
        lines.append(f"{_BAR}    {access.what} at {_place(access, kernel)}")
        thread, block = _plain(access.thread), _plain(access.block)
        lines.append(f"{_BAR}    by thread {thread} in block {block}{access.on_device}")
    if one.count > 1:
        lines.append(f"{_BAR}    {one.count} times")
    if place:
        lines.append(f"{_BAR}    {place}")
    return [*lines, _RULE]


def _place(access: Access, kernel: str) -> str:
    line = f"PTX line {access.ptx_line}"
    if access.source_line:
        line = f"{access.source_file}:{access.source_line} ({line})"
    return f"{line} in {access.kernel or kernel}"


def _plain(place: tuple[int, int, int]) -> str:
    return "({},{},{})".format(*place)


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain data for JSON."""
    first = report.reports[0]
    return {
        "version": 1,
        "kernel": report.kernel,
        "grid": report.grid,
        "block": report.block,
        "ok": report.ok,
        "inconclusive": report.inconclusive or None,
        "findings": [row(one) for one in report.findings]
        + [row(one, optimised=False) for one in report.hidden],
        "order_dependent": [
            {"buffer": one.buffer, "schedules": one.schedules, "offset": one.offset,
             "bytes": one.bytes}
            for one in report.order
        ],
        "schedules": [one.schedule for one in report.reports],
        "no_debug_build": report.no_debug_build or None,
        "for_all_data": first.oblivious and not report.inconclusive,
        "not_covered": first.not_covered + first.left_out,
        "printed": first.printed,
        "lane_instructions": first.statistics.lane_instructions,
        "compile_s": first.statistics.compile_s,
        "run_s": first.statistics.run_s,
    }  # fmt: skip


def row(one: MachineFinding, *, optimised: bool = True) -> dict[str, Any]:
    """Return a finding as plain data for JSON; `optimised`: the optimised build shows it."""
    return {
        "kind": one.kind.value,
        "severity": one.severity.value,
        "text": one.text,
        "space": one.space or None,
        "allocation": one.allocation or None,
        "offset": one.offset,
        "bytes": one.bytes or None,
        "count": one.count,
        "optimised_build": optimised,
        "accesses": [
            {
                "what": access.what,
                "ptx_line": access.ptx_line,
                "file": access.source_file,
                "line": access.source_line,
                "block": access.block,
                "thread": access.thread,
                **(
                    {}
                    if access.device is None
                    else {"device": access.device, "launch": access.launch}
                ),
            }
            for access in one.accesses
        ],
    }


def sarif(report: Report, path: str) -> str:
    """Return the findings as a SARIF 2.1.0 log; `path` is the file that was given."""
    return sarif_of((*report.findings, *report.hidden), path)


def sarif_of(every: Sequence[MachineFinding], path: str) -> str:
    """Return findings as a SARIF 2.1.0 log."""
    rules = sorted({one.kind.value for one in every})
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "ptxsan", "rules": [{"id": one} for one in rules]}},
                "results": [_result(one, path) for one in every],
            }
        ],
    }
    return json.dumps(log, indent=2)


def _result(one: MachineFinding, path: str) -> dict[str, Any]:
    line = next((access.source_line for access in one.accesses if access.source_line), None)
    ptx = one.ptx_line if path.endswith(".ptx") else None
    return {
        "ruleId": one.kind.value,
        "level": _LEVELS[one.severity],
        "message": {"text": one.text},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": path},
                    "region": {"startLine": ptx or line or 1},
                }
            }
        ],
    }


def trace(report: Report) -> Iterator[str]:
    """Yield the kernel's source lines (of the PTX, where there is none) with what ran of each."""
    from ptxsan.tracing import rows

    every = rows(report)
    whole = sum(row.slots for row in every) or 1
    counted = Counter({row.line: row.slots for row in every})
    yield f"{'line':>6} {'ran':>4} {'slots':>6}  source"
    for row in every:
        share = f"{100 * counted[row.line] / whole:.0f}%" if row.ran else "-"
        error = f"   error {row.error:.1e}" if row.error else ""
        yield f"{row.line:>6} {'yes' if row.ran else 'no':>4} {share:>6}  {row.text}{error}"
