"""The report of `cuassay loop blame` in words: terminal, RESULT.md, HTML and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cuassay.report.clean import html_text, json_island, one_line, plain_fields
from cuassay.report.markdown import table as markdown_table
from cuassay.report.markdown import text as inert
from cuassay_loops.report.train_words import surroundings, table
from cuassay_loops.results import BlameReport

SCHEMA = "cuassay/blame/1"
_HEADER = ("run", "kernels active", "part", "outcome", "step", "where", "deviation", "noise")
_HERE = "the config ran in the judge's process, with your rights: nothing was isolated"


def document(report: BlameReport) -> dict[str, Any]:
    """Return the JSON document of `cuassay loop blame --json`."""
    run_names = "active part left step group deviation noise failure"
    return {
        "schema": SCHEMA,
        "verdict": report.decision.value,
        **plain_fields(report, "reason config sites culprit part"),
        "search_runs": report.search,
        "runs": [plain_fields(run, run_names) for run in report.runs],
        **plain_fields(report, "steps witness diverged losses power"),
        "false_alarm_rate": report.false_alarm_rate or None,
        **plain_fields(report, "isolated environment duration_s"),
    }


def _rows(report: BlameReport) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_HEADER]
    for index, run in enumerate(report.runs, 1):
        rows.append(
            (
                str(index),
                one_line(", ".join(run.active), limit=70),
                one_line(run.part, limit=30),
                "LEFT" if run.left else "in band",
                "" if run.step is None else str(run.step),
                one_line(run.failure or run.group, limit=50),
                f"{run.deviation:.2g}" if run.deviation else "",
                f"{run.noise:.2g}" if run.deviation else "",
            )
        )
    return rows


def _word(report: BlameReport) -> str:
    cleared = {"ACCEPTED": "CLEARED", "REJECTED": "BLAMED", "INCONCLUSIVE": "INCONCLUSIVE"}
    return cleared[report.decision.value]


def lines(report: BlameReport) -> Iterator[str]:
    """Yield what a terminal shows."""
    yield f"{_word(report)}  {one_line(report.reason, limit=900)}"
    yield ""
    yield from table(_rows(report))
    yield ""
    if report.witness == "losses":
        yield "  only losses could be compared: no false-alarm rate is stated"
    else:
        yield f"  false-alarm rate {report.false_alarm_rate:g} a run for correct kernels"
    if not report.isolated:
        yield f"  {_HERE}"
    yield (
        f"  {report.search} paired runs found it, {len(report.runs)} in all; "
        f"{report.duration_s:.0f} s"
    )


def markdown(report: BlameReport) -> str:
    """Return RESULT.md."""
    return "\n".join(
        [
            f"# {_word(report)}: {inert(report.culprit, limit=900) or 'no kernel'}",
            "",
            f"{inert(report.reason, limit=900)}.",
            "",
            *markdown_table(_rows(report)),
            "",
            f"- {surroundings(report.environment)}",
            *([f"- {_HERE}"] if not report.isolated else []),
            "",
        ]
    )


def page(report: BlameReport) -> str:
    """Return one HTML file without scripts."""
    head, *rest = _rows(report)
    cells = "".join(f"<th>{html_text(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html_text(text)}</td>" for text in row) + "</tr>" for row in rest
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<title>cuassay loop blame</title>"
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\"><style>body{font:15px/1.5 system-ui;margin:2rem auto;"
        "max-width:60rem}td,th{padding:.2rem .6rem;text-align:left;border-bottom:1px solid #ccc}"
        f"</style></head><body><h1>{_word(report)}</h1>"
        f"<p>{html_text(one_line(report.reason, limit=900))}</p>"
        f"<table><tr>{cells}</tr>{body}</table>"
        f'<script type="application/json">{json_island(document(report))}</script></body></html>\n'
    )
