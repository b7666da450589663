"""The report of `cuassay loop infer` in words: terminal lines, RESULT.md and the JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cuassay.report.clean import one_line, plain_fields
from cuassay.report.markdown import code as markdown_code
from cuassay.report.markdown import table as markdown_table
from cuassay.report.markdown import text as inert
from cuassay_loops.report.train_words import surroundings, table
from cuassay_loops.results import InferReport

SCHEMA = "cuassay/infer/1"
_HEADER = ("logits of", "mean KL", "worst KL", "top-1", "top-5", "perplexity")


def document(report: InferReport) -> dict[str, Any]:
    """Return the JSON document of `cuassay loop infer --json`."""
    return {
        "schema": SCHEMA,
        "verdict": report.decision.value,
        **plain_fields(report, "reason site problem candidate digest device"),
        "preset": report.preset.name,
        **plain_fields(report, "precision seed lengths false_alarm_rate"),
        "quality": {
            name: plain_fields(found, "kl worst_kl top1 top5 perplexity")
            for name, found in report.quality.items()
        },
        **plain_fields(report, "step group deviation noise kl_trusted kl_kernel"),
        "lengthening": [plain_fields(one, "length error trusted") for one in report.lengthening],
        **plain_fields(report, "slope slope_trusted"),
        "generations": [
            plain_fields(told, "kind tokens agreed margin") for told in report.generations
        ],
        **plain_fields(report, "checks advice failure environment duration_s"),
    }


def quality_rows(report: InferReport) -> list[tuple[str, ...]]:
    """Return the table of qualities, its header first."""
    rows: list[tuple[str, ...]] = [_HEADER]
    for name, found in report.quality.items():
        rows.append(
            (
                name,
                f"{found.kl:.2e}",
                f"{found.worst_kl:.2e}",
                f"{100 * found.top1:.1f} %",
                f"{100 * found.top5:.1f} %",
                f"{found.perplexity:.5g}",
            )
        )
    return rows


def notes(report: InferReport) -> Iterator[str]:
    """Yield what else was tried, in words."""
    for name, text in report.checks.items():
        yield f"{name}: {one_line(text)}"
    if report.slope is not None and report.slope_trusted is not None:
        yield (
            f"error over length: slope {report.slope:+.2f}, reference {report.slope_trusted:+.2f}"
        )
    for told in report.generations:
        kind, count = f"{told.kind} generation", told.tokens
        if told.agreed == count:
            yield f"{kind}: all {count} tokens as the trusted run's"
        else:
            yield (
                f"{kind}: {told.agreed} of {count} tokens as the trusted run's; margin of the next "
                f"{told.margin:.2g}"
            )
    for text in report.advice:
        yield f"advice: {one_line(text)}"


def lines(report: InferReport) -> Iterator[str]:
    """Yield what a terminal shows."""
    yield (
        f"{report.decision.value}  {one_line(report.candidate, limit=80)} at site {report.site} "
        f"({report.device}, {report.preset.name}, {report.precision})"
    )
    yield f"  {one_line(report.reason, limit=900)}"
    yield ""
    if report.quality:
        yield from table(quality_rows(report))
        yield ""
    for note in notes(report):
        yield f"  {note}"
    yield (
        f"  {len(report.lengths)} sequences of {min(report.lengths)} to {max(report.lengths)} "
        f"tokens; false-alarm rate {report.false_alarm_rate:g} for a correct kernel's logits"
    )
    yield f"  seed {report.seed}; {report.duration_s:.0f} s"


def markdown(report: InferReport) -> str:
    """Return RESULT.md."""
    return "\n".join(
        [
            f"# {report.decision.value}: {markdown_code(report.candidate)} at `{report.site}`",
            "",
            f"{inert(report.reason, limit=900)}.",
            "",
            *markdown_table(quality_rows(report)),
            "",
            *(f"- {inert(note, limit=900)}" for note in notes(report)),
            f"- digest `{report.digest}`, seed {report.seed}, device {inert(report.device)}, "
            f"model `{report.preset.name}` in {report.precision}",
            f"- {surroundings(report.environment)}",
            "",
        ]
    )
