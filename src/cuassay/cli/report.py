"""`cuassay report`: a finished run in any form, without judging anything again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cuassay.cli import options, sinks
from cuassay.errors import UsageError

if TYPE_CHECKING:
    from cuassay.report.judged import Judged


@click.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@options.output_options
def report(
    *,
    runs: tuple[str, ...],
    formats: tuple[str, ...],
    as_json: bool,
    html: str | None,
    quiet: bool,
    no_color: bool,
) -> None:
    """Show finished runs again, in any form, without judging anything.

    RUN is a run's id, the start of one, its folder, or `last`. Several runs make one SARIF log,
    JUnit file, Markdown text or list of annotations. Exit code 0: written, whatever the
    verdicts are, 2: the call is off.
    """
    output = options.output(
        as_json=as_json, html=html, quiet=quiet, no_color=no_color, formats=formats
    )
    trials = tuple(judged(run) for run in runs)
    if output.form == "terminal":
        for trial in trials:
            _show(trial, output)
    sinks.emit(trials, output.targets, quiet=quiet or output.json)


def judged(where: str) -> Judged:
    """Return the trial that a run folder keeps. Raises UsageError where nothing ended there."""
    from cuassay.model.events import EngineStopped
    from cuassay.report.judged import Judged
    from cuassay.store.runs import open_run

    run = open_run(where)
    verdict = run.verdict()
    stopped = ""
    if verdict is None:
        ends = [event for event in run.events() if isinstance(event, EngineStopped)]
        stopped = ends[-1].message if ends else "the run was interrupted before its verdict"
    return Judged(
        path=run.job().candidate,
        root=sinks.root(),
        verdict=verdict,
        stopped=stopped,
        candidate=sinks.kept_candidate(run.path),
    )


def _show(trial: Judged, output: options.Output) -> None:
    from cuassay.home import runs_dir
    from cuassay.model.events import CheckFinished, EngineFinished
    from cuassay.report.terminal import TerminalReport, console

    if trial.verdict is None:
        raise UsageError(f"{trial.name} has no verdict: {trial.reason}")
    shown = TerminalReport(
        console(no_color=not output.color), quiet=output.quiet, runs=str(runs_dir())
    )
    for check in trial.verdict.checks:
        shown.consume(CheckFinished(report=check))
    shown.consume(EngineFinished(verdict=trial.verdict))
