"""`cuassay loop infer` as one HTML file: qualities, then divergence over decode steps as SVG."""

from __future__ import annotations

import math

from cuassay.report.clean import html_text, json_island, one_line
from cuassay_loops.report import infer_words
from cuassay_loops.report.train_page import STYLE, Frame
from cuassay_loops.results import InferReport


def page(report: InferReport) -> str:
    """Return the whole page."""
    head, *rest = infer_words.quality_rows(report)
    cells = "".join(f"<th>{html_text(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html_text(text)}</td>" for text in row) + "</tr>" for row in rest
    )
    tone = "good" if report.decision.value == "ACCEPTED" else "bad"
    title = f"{one_line(report.candidate, limit=120)} at {report.site}"
    told = "".join(f"<li>{html_text(note)}</li>" for note in infer_words.notes(report))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html_text(report.decision.value)}</title>"
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'unsafe-inline'\"><style>{STYLE}</style></head><body>"
        f'<h1><span class="{tone}">{report.decision.value}</span> {html_text(title)}</h1>'
        f"<p>{html_text(one_line(report.reason, limit=900))}</p>"
        f"<table><tr>{cells}</tr>{body}</table>{divergence(report)}<ul>{told}</ul>"
        f'<script type="application/json">{json_island(infer_words.document(report))}</script>'
        "</body></html>\n"
    )


def divergence(report: InferReport) -> str:
    """Return the KL divergence from float64 a decode step, kernel and trusted, as SVG."""

    def log(values: tuple[float, ...]) -> list[float]:
        return [math.log10(v) if v > 0 and math.isfinite(v) else math.nan for v in values]

    mine, theirs = log(report.kl_kernel), log(report.kl_trusted)
    values = [value for value in (*mine, *theirs) if math.isfinite(value)]
    if len(mine) < 2 or not values:
        return ""
    steps = range(len(mine))
    frame = Frame(steps, min(values), max(values))
    drawn = frame.line(steps, theirs, "trusted") + frame.line(steps, mine, "candidate")
    return frame.svg("log10 of KL to float64 over decode steps", drawn)
