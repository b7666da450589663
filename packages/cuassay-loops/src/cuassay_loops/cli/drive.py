"""Run a loop's job: live progress on stderr, the report where it was asked for, the exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from cuassay.cli.drive import EXIT_CODES, INTERRUPTED, emit_json
from cuassay.cli.sinks import say
from cuassay.model import serial
from cuassay.model.jobs import BlameJob, InferJob, LoopJob, TrainJob
from cuassay.model.verdict import Decision
from cuassay_loops.cli.options import LoopForms
from cuassay_loops.results import BlameReport, InferReport, TrainReport

_CLEAR = "\r\x1b[2K"


def drive(job: LoopJob, output: LoopForms) -> int:
    """Run a job and show its report in every form that was asked for; return the exit code."""
    kind: type[Any]
    words: Any
    page: Any
    match job:
        case TrainJob():
            from cuassay_loops.report import train_page, train_words

            kind, words, page = TrainReport, train_words, train_page.page
        case InferJob():
            from cuassay_loops.report import infer_page, infer_words

            kind, words, page = InferReport, infer_words, infer_page.page
        case BlameJob():
            from cuassay_loops.report import blame_words

            kind, words, page = BlameReport, blame_words, blame_words.page
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
        emit_json(words.document(found))
    else:
        lines = words.lines(found)
        for line in [next(lines)] if output.quiet else lines:
            click.echo(line)
    for path, make in ((output.html, page), (output.result, words.markdown)):
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
