"""Run a loop's job: live progress on stderr, the report where it was asked for, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from cuassay.cli.drive import EXIT_CODES, INTERRUPTED, emit_json
from cuassay.cli.sinks import say
from cuassay.model import serial
from cuassay.model.jobs import BlameJob, InferJob, LoopJob, TrainJob
from cuassay.model.verdict import Decision
from cuassay_loops.cli.options import LoopForms

_CLEAR = "\r\x1b[2K"


def drive_train(job: TrainJob, output: LoopForms) -> int:
    """Run `cuassay loop train` and return its exit code."""
    from cuassay.model.loop import TrainReport
    from cuassay_loops.report import train_page, train_words

    return _drive(
        job,
        output,
        kind=TrainReport,
        document=train_words.document,
        lines=train_words.lines,
        markdown=train_words.markdown,
        page=train_page.page,
    )


def drive_blame(job: BlameJob, output: LoopForms) -> int:
    """Run `cuassay loop blame` and return its exit code."""
    from cuassay.model.loop import BlameReport
    from cuassay_loops.report import blame_words

    return _drive(
        job,
        output,
        kind=BlameReport,
        document=blame_words.document,
        lines=blame_words.lines,
        markdown=blame_words.markdown,
        page=blame_words.page,
    )


def drive_infer(job: InferJob, output: LoopForms) -> int:
    """Run `cuassay loop infer` and return its exit code."""
    from cuassay.model.loop import InferReport
    from cuassay_loops.report import infer_page, infer_words

    return _drive(
        job,
        output,
        kind=InferReport,
        document=infer_words.document,
        lines=infer_words.lines,
        markdown=infer_words.markdown,
        page=infer_page.page,
    )


def _drive(
    job: LoopJob,
    output: LoopForms,
    *,
    kind: type[Any],
    document: Callable[[Any], dict[str, Any]],
    lines: Callable[[Any], Iterator[str]],
    markdown: Callable[[Any], str],
    page: Callable[[Any], str],
) -> int:
    """Run a job and show its report in every form that was asked for; return the exit code."""
    from cuassay.engine import run

    live = _Live(quiet=output.quiet or output.json)
    try:
        found = serial.from_json(kind, run.document(job, live))
    except KeyboardInterrupt:
        live.end()
        say("cuassay: interrupted; what is finished is kept, and the same command goes on from it")
        if output.json:
            emit_json({"error": "interrupted", "exit_code": INTERRUPTED})
        return INTERRUPTED
    finally:
        live.end()
    decision: Decision = found.decision
    if output.json:
        emit_json(document(found))
    else:
        for line in [next(lines(found))] if output.quiet else lines(found):
            click.echo(line)
    for path, make in ((output.html, page), (output.result, markdown)):
        if path is not None:
            _write(path, make(found), quiet=output.quiet or output.json)
    return EXIT_CODES[decision]


def _write(path: Path, text: str, *, quiet: bool) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        say(f"cuassay: {path} was not written: {error.strerror or error}; the verdict stands")
        return
    if not quiet:
        say(f"written: {path}")


class _Live:
    """One line on a terminal that is written over; nothing where nobody watches."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._open = False

    def __call__(self, text: str) -> None:
        if self._shown:
            from cuassay.report.clean import one_line

            click.echo(f"{_CLEAR}{one_line(text, limit=150)}", err=True, nl=False)
            self._open = True

    def end(self) -> None:
        """Leave the line empty."""
        if self._open:
            click.echo(_CLEAR, err=True, nl=False)
            self._open = False
