"""Consume a trial's events: show them, write what was asked for, return the exit code."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuassay.cli.options import Output
from cuassay.errors import CannotJudgeError
from cuassay.model.events import CaseFinished, EngineFinished, EngineStopped, Event, Progress
from cuassay.model.verdict import Decision, Verdict

if TYPE_CHECKING:
    from cuassay.report.terminal import TerminalReport

EXIT_CODES = {Decision.ACCEPTED: 0, Decision.REJECTED: 1, Decision.INCONCLUSIVE: 3}
INTERRUPTED = 130
BUG_REPORT = (
    "This is a fault of cuassay, not of your kernel. Please report it with the text above and "
    "the output of `cuassay doctor` at https://github.com/cuassay/cuassay/issues"
)


def drive(events: Iterator[Event], output: Output) -> int:
    """Show a trial and return 0, 1, 2, 3 or 130.

    Raises CannotJudgeError where the events end without a verdict or a reason.
    """
    seen: list[Event] = []
    report = _report(output)
    try:
        for event in events:
            if not isinstance(event, CaseFinished | Progress):
                seen.append(event)
            report.consume(event)
    except KeyboardInterrupt:
        report.close()
        return _interrupted(seen, output)
    finally:
        report.close()
    match seen[-1] if seen else None:
        case EngineFinished(verdict=verdict):
            return _finished(verdict, output)
        case EngineStopped() as stopped:
            return _stopped(stopped, seen, output)
    raise CannotJudgeError("the trial ended without a verdict; run `cuassay doctor`")


def emit_json(document: dict[str, Any]) -> None:
    """Print one document, and nothing else, on stdout."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def say(message: str) -> None:
    """Print one message on stderr."""
    from cuassay.report.clean import clean

    click.echo(clean(message), err=True)


def _report(output: Output) -> TerminalReport:
    from cuassay.home import runs_dir
    from cuassay.report.terminal import TerminalReport, console

    progress = console(stderr=True, no_color=not output.color)
    return TerminalReport(
        progress if output.json else console(no_color=not output.color),
        progress=None if output.quiet else progress,
        quiet=output.quiet,
        summarise=not output.json,
        replayed=output.replayed,
        runs=str(runs_dir()),
    )


def _finished(verdict: Verdict, output: Output) -> int:
    from cuassay.report.json_report import document

    if output.json:
        emit_json(document(verdict))
    if output.html is not None:
        _write_html(verdict, output.html, quiet=output.quiet or output.json)
    return EXIT_CODES[verdict.decision]


def _write_html(verdict: Verdict, path: Path, *, quiet: bool) -> None:
    """Write the page in one step; failing costs one message, never the verdict."""
    from cuassay.report.html import render

    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_text(render(verdict), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        _discard(temporary)
        why = error.strerror or str(error)
        say(f"cuassay: --html {path} was not written: {why}; the verdict above stands")
        return
    if not quiet:
        say(f"HTML report: {path}")


def _discard(path: Path) -> None:
    try:
        os.unlink(path)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EROFS, errno.EACCES, errno.ENOTDIR):
            raise


def _stopped(stopped: EngineStopped, seen: list[Event], output: Output) -> int:
    from cuassay.report.json_report import stopped_document

    if output.json:
        emit_json(stopped_document(stopped, seen))
    if stopped.traceback:
        say(stopped.traceback.rstrip())
    say(f"cuassay: {stopped.message}")
    if stopped.traceback:
        say(BUG_REPORT)
    return stopped.exit_code


def _interrupted(seen: list[Event], output: Output) -> int:
    from cuassay.model.events import EngineStarted
    from cuassay.report.json_report import error_document

    run = next((event.run for event in seen if isinstance(event, EngineStarted)), "")
    kept = f"; what was seen so far is in run {run}" if run else ""
    message = f"interrupted: no verdict{kept}"
    if output.json:
        emit_json(error_document(message, kind="interrupted", exit_code=INTERRUPTED, seen=seen))
    say(f"cuassay: {message}")
    return INTERRUPTED
