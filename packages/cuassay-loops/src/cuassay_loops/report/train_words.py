"""The report of a training matrix in words: terminal lines, RESULT.md and the JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cuassay.report.clean import one_line, plain_data, plain_fields
from cuassay.report.markdown import code as markdown_code
from cuassay.report.markdown import table as markdown_table
from cuassay.report.markdown import text as inert
from cuassay_loops.results import CellResult, Duplicates, TrainReport

SCHEMA = "cuassay/train/1"
_NO_NUMBER = "–"


def document(report: TrainReport) -> dict[str, Any]:
    """Return the JSON document of `cuassay loop train --json`; not finite numbers are strings."""
    preset = "name vocab hidden layers heads kv_heads ffn batch length"
    probe = "precision start samples wrong spread noise_spread parameter deviation noise failure"
    return {
        "schema": SCHEMA,
        "verdict": report.decision.value,
        **plain_fields(report, "reason site problem candidate digest device"),
        "preset": plain_fields(report.preset, preset),
        **plain_fields(report, "steps false_alarm_rate seed isolated options"),
        "data": plain_data(report.text),
        "cells": [cell(result) for result in report.cells],
        "planned": report.planned,
        "duplicates": [plain_fields(one, f"{probe} undecided") for one in report.duplicates],
        **plain_fields(report, "resumed environment duration_s kept"),
    }


def duplicates(probe: Duplicates) -> str:
    """Return in a line what a large batch of duplicates said."""
    lead = f"a batch of {probe.samples} duplicates ({probe.precision}, {probe.start.value}): "
    if probe.failure or probe.undecided:
        return lead + one_line(probe.failure or f"undecided: {probe.undecided}", limit=200)
    if probe.wrong:
        return lead + (
            f"{len(probe.wrong)} samples differ from their equals by {probe.spread:.2g} "
            f"(trusted: {probe.noise_spread:.2g})"
        )
    if probe.parameter:
        return lead + (
            f"gradient of {one_line(probe.parameter, limit=40)} off the samples' alone by "
            f"{probe.deviation:.2g} (trusted: {probe.noise:.2g})"
        )
    return lead + f"gradients alike to {probe.spread:.2g} (trusted: {probe.noise_spread:.2g})"


def cell(result: CellResult) -> dict[str, Any]:
    """Return one entry of `cells`."""
    return {
        **plain_fields(result.cell, "data optimizer precision seed start"),
        **plain_fields(result, "learning_rate steps loss_left_band gradient_left_band step"),
        **plain_fields(result, "loss_step parameter rows how ratio cosine bias deviation noise"),
        "evidence_log10": plain_data(result.evidence),
        "needed_log10": plain_data(result.needed),
        **plain_fields(result, "loss_trusted loss_noise loss_candidate failure undecided"),
        **plain_fields(result, "duration_s curves"),
    }


HEADER = (
    "data", "optimizer", "prec.", "seed", "lr", "gradient", "first left", "bias", "deviation",
    "noise", "loss", "trusted", "twin", "kernel",
)  # fmt: skip


def row(result: CellResult) -> tuple[str, ...]:
    """Return a cell of the matrix as texts in the order of HEADER."""
    what = result.cell
    start = "" if what.start.value == "scratch" else f" ({what.start.value})"
    if result.undecided:
        gradient, where = "undecided", one_line(result.undecided, limit=60)
    elif result.failure:
        gradient, where = "FAILED", one_line(result.failure, limit=60)
    elif result.gradient_left_band:
        gradient, where = f"LEFT @{result.step}", parameter_words(result)
    else:
        gradient, where = "in band", _NO_NUMBER
    left = result.gradient_left_band
    return (
        one_line(what.data, limit=24) + start,
        what.optimizer,
        what.precision,
        str(what.seed),
        f"{result.learning_rate:g}",
        gradient,
        where,
        f"{result.bias:+.2g}" if left else _NO_NUMBER,
        f"{result.deviation:.2g}" if left else _NO_NUMBER,
        f"{result.noise:.2g}" if left else _NO_NUMBER,
        f"LEFT @{result.loss_step}" if result.loss_left_band else "in band",
        f"{result.loss_trusted:.4f}",
        f"{result.loss_noise:.4f}",
        f"{result.loss_candidate:.4f}",
    )


def parameter_words(result: CellResult) -> str:
    """Return the parameter and its rows in words."""
    if not result.rows:
        return one_line(result.parameter, limit=40)
    shown = ",".join(map(str, result.rows[:4])) + (",..." if len(result.rows) > 4 else "")
    return f"{one_line(result.parameter, limit=24)}[{shown}]"


def lines(report: TrainReport) -> Iterator[str]:
    """Yield what a terminal shows."""
    sizes = report.preset
    yield (
        f"{report.decision.value}  {one_line(report.candidate, limit=80)} at site {report.site} "
        f"({report.device}, {sizes.name}: vocabulary {sizes.vocab}, hidden {sizes.hidden}, "
        f"{sizes.layers} layers, {sizes.batch} x {sizes.length} tokens)"
    )
    yield f"  {one_line(report.reason, limit=900)}"
    yield ""
    yield from table([HEADER, *map(row, report.cells)])
    yield ""
    for name, about in report.text.items():
        yield f"  {one_line(name, limit=60)}: {one_line(about)}"
    for probe in report.duplicates:
        yield f"  {duplicates(probe)}"
    yield (
        f"  false-alarm rate {report.false_alarm_rate:g} a run for a correct kernel (gradients at "
        "the same state; see docs/loops.md); the loss decides nothing"
    )
    told = ", ".join(f"{name} {value}" for name, value in report.options.items())
    if told:
        yield f"  {told}"
    again = f", {report.resumed} cells kept from before" if report.resumed else ""
    yield f"  seed {report.seed}; {report.duration_s:.0f} s{again}; cells in {report.kept}"


def table(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows with aligned columns."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for each in rows:
        yield "  " + "  ".join(text.ljust(w) for text, w in zip(each, widths, strict=True)).rstrip()


def surroundings(environment: Mapping[str, str]) -> str:
    """Return the versions and the device of a run in one inert line."""
    return inert(", ".join(f"{name} {value}" for name, value in environment.items()), limit=900)


def markdown(report: TrainReport) -> str:
    """Return RESULT.md: what a researcher pastes into an issue."""
    sizes = report.preset
    options = "".join(f", {name} {value}" for name, value in report.options.items())
    parts = [
        f"# {report.decision.value}: {markdown_code(report.candidate)} at `{report.site}`",
        "",
        f"{inert(report.reason, limit=900)}.",
        "",
        f"Model `{sizes.name}`: vocabulary {sizes.vocab}, hidden {sizes.hidden}, {sizes.layers} "
        f"layers, batches of {sizes.batch} x {sizes.length} tokens, up to {report.steps} steps"
        f"{options}. Gradients were compared at the same weights and batch with trusted kernels; "
        f"the band is what trusted kernels do to each other. A correct kernel leaves it with "
        f"probability {report.false_alarm_rate:g} a run at most.",
        "",
        *markdown_table([HEADER, *map(row, report.cells)]),
        "",
        *(f"- {markdown_code(name)}: {inert(about)}" for name, about in report.text.items()),
        *(f"- {inert(duplicates(probe))}" for probe in report.duplicates),
        f"- digest `{report.digest}`, seed {report.seed}, device {inert(report.device)}",
        f"- {surroundings(report.environment)}",
        "",
    ]
    return "\n".join(parts)
