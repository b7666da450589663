"""Consume a trial's events: show them, write what was asked for, return the exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from cuassay.cli import sinks
from cuassay.cli.options import Output
from cuassay.cli.sinks import say
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.model.events import CaseFinished, EngineFinished, EngineStopped, Event, Progress
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Decision
from cuassay.store.runs import last_duration_s

if TYPE_CHECKING:
    from cuassay.report.terminal.trial import TerminalReport

EXIT_CODES = {Decision.ACCEPTED: 0, Decision.REJECTED: 1, Decision.INCONCLUSIVE: 3}
INTERRUPTED = 130
BUG_REPORT = (
    "This is a fault of cuassay, not of your kernel. Please report it with the text above and "
    "the output of `cuassay doctor` at https://github.com/cuassay/cuassay/issues"
)


def drive(events: Iterator[Event], output: Output, *, job: TrialJob | None = None) -> int:
    """Show a trial and return 0, 1, 2, 3 or 130; `job` is what was asked for, if it is a trial.

    Raises CannotJudgeError where the events end without a verdict or a reason.
    """
    seen: list[Event] = []
    report = begun_report(output, job)
    try:
        for event in events:
            if not isinstance(event, CaseFinished | Progress):
                seen.append(event)
            report.consume(event)
    except KeyboardInterrupt:
        report.close()
        from cuassay.model.events import EngineStarted
        from cuassay.report.json_report import error_document

        run = next((event.run for event in seen if isinstance(event, EngineStarted)), "")
        message = "interrupted: no verdict"
        if run:
            message += f"; what was seen so far is in run {run}"
        if output.json:
            emit_json(error_document(message, kind="interrupted", exit_code=INTERRUPTED, seen=seen))
        say(f"cuassay: {message}")
        return INTERRUPTED
    finally:
        report.close()
    match seen[-1] if seen else None:
        case EngineFinished(verdict=verdict):
            if any(target.form != "terminal" for target in output.targets):
                from cuassay.home import runs_dir
                from cuassay.report.judged import Judged

                kept = sinks.kept_candidate(runs_dir() / verdict.run) if verdict.run else None
                judged = Judged(
                    path=output.path or verdict.candidate,
                    root=sinks.root(),
                    verdict=verdict,
                    candidate=kept,
                )
                sinks.emit((judged,), output.targets, quiet=output.quiet or output.json)
            return EXIT_CODES[verdict.decision]
        case EngineStopped() as stopped:
            return _stopped(stopped, seen, output)
    raise CannotJudgeError("the trial ended without a verdict; run `cuassay doctor`")


def emit_json(document: dict[str, Any]) -> None:
    """Print one document, and nothing else, on stdout."""
    click.echo(sinks.dumped(document))


@contextmanager
def waiting(text: str, *, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Say on stderr what a command is at until its result is there; yields what changes the words.

    On a terminal a moving line from the third second on, elsewhere a line a minute.
    """
    from cuassay.report.terminal.trial import console
    from cuassay.report.terminal.waiting import Waiting

    with Waiting(None if quiet else console(stderr=True)) as shown:
        shown.say(text)
        yield shown.say


def begun_report(output: Output, job: TrialJob | None) -> TerminalReport:
    """Return the consumer that shows a trial as it goes; it shows the estimate of `job` already."""
    from cuassay.home import runs_dir
    from cuassay.report.terminal.trial import TerminalReport, console

    progress = console(stderr=True, no_color=not output.color)
    report = TerminalReport(
        console(no_color=not output.color) if output.form == "terminal" else progress,
        progress=None if output.quiet else progress,
        quiet=output.quiet,
        verbose=output.verbose,
        summarise=output.form == "terminal",
        replayed=output.replayed,
        runs=str(runs_dir()),
    )
    if job is None:
        report.begin()
    else:
        # The last runs are looked at only where somebody sees the estimate.
        last_s = None if output.quiet else last_duration_s(job)
        report.begin(profile=job.profile.value, last_s=last_s)
    return report


def _stopped(stopped: EngineStopped, seen: list[Event], output: Output) -> int:
    from cuassay.report.json_report import stopped_document

    if output.json:
        emit_json(stopped_document(stopped, seen))
    # Write the forms that can say that there is no verdict; an HTML page cannot.
    from cuassay.report.judged import Judged

    judged = Judged(
        path=output.path,
        root=sinks.root(),
        stopped=stopped.message,
        exit_code=stopped.exit_code,
    )
    kept = [t for t in output.targets if t.form != "html" and (t.form, t.path) != ("json", None)]
    sinks.emit((judged,), kept, quiet=output.quiet)
    if stopped.traceback:
        say(stopped.traceback.rstrip())
    say(f"cuassay: {stopped.message}")
    if stopped.traceback:
        say(BUG_REPORT)
    return stopped.exit_code


def require_home() -> None:
    """Make cuassay's folder. Raises UsageError where it cannot be written."""
    from cuassay.home import home

    place = home()
    try:
        place.mkdir(parents=True, exist_ok=True)
        why = "" if os.access(place, os.W_OK) else "permission denied"
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise UsageError(
            f"cuassay cannot write its folder {place} ({why}); set CUASSAY_HOME to a folder that "
            "you can write"
        )
