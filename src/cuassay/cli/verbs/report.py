"""`cuassay report`: a run in any form, in the browser, or beside another; nothing is judged."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuassay.cli import options, sinks
from cuassay.errors import UnknownNameError, UsageError
from cuassay.store.audits import is_audit

if TYPE_CHECKING:
    from cuassay.model.audit import Audit
    from cuassay.model.outcome import CheckReport, Finding
    from cuassay.report.judged import Judged

_AUDIT_FORMS = ("terminal", "json", "html")


@click.command("report")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--open", "opens", is_flag=True, help="Serve it on this machine and open it in the browser."
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port of --open. Default: a free one.")
@click.option("--diff", "old", metavar="OLD", help="Show what changed from OLD, a run or an audit.")
@options.output_options
@click.pass_context
def report(
    context: click.Context,
    *,
    runs: tuple[str, ...],
    opens: bool,
    port: int | None,
    old: str | None,
    output: options.Output,
) -> None:
    """Show finished runs again, in any form, without judging anything.

    RUN is a run's id, the start of one, its folder, or `last`; or an audit's id or folder.
    Several runs make one SARIF log, JUnit file, Markdown text or list of annotations.

    With --open one run or audit is served on this machine's loopback until interrupted, also while
    it runs: its pages are loaded again every few seconds. Nobody else can open them, since the
    address holds a secret word.
    """
    if opens:
        import webbrowser

        from cuassay.view import View

        view = View(folder_of(_only(runs, "--open")), port=port or 0)
        click.echo(view.address)
        sinks.say("serving until interrupted (Ctrl+C)")
        webbrowser.open(view.address)
        with contextlib.suppress(KeyboardInterrupt):
            view.serve()
        return
    if port is not None:
        raise UsageError("--port is the port of --open; add --open")
    if old is not None:
        if other := output.other_form:
            form = "--html" if other == "html" else f"--format {other}"
            raise UsageError(f"{form}: --diff is shown as text, or as a document with --json")
        worse = _show_difference(old, _only(runs, "--diff"), as_json=output.json)
        context.exit(1 if worse else 0)
    folders = [folder_of(run) for run in runs]
    if len(folders) == 1 and is_audit(folders[0]):
        # Show an audit: its own tables, page and document, and its trials in the other forms.
        folder = folders[0]
        from cuassay.cli.audit_show import show_audit
        from cuassay.store.audits import read_audit

        own = tuple(target for target in output.targets if target.form in _AUDIT_FORMS)
        rest = tuple(target for target in output.targets if target.form not in _AUDIT_FORMS)
        if any(target.form == "agent" for target in rest):
            raise UsageError(f"--format agent holds one trial, and {folder.name} is an audit")
        if rest:
            sinks.emit(audit_trials(folder), rest, quiet=output.quiet)
        if own:
            show_audit(read_audit(folder), folder, dataclasses.replace(output, targets=own))
        return
    trials = tuple(
        trial
        for folder in folders
        for trial in (audit_trials(folder) if is_audit(folder) else (judged(folder),))
    )
    if output.form == "terminal":
        from cuassay.home import runs_dir
        from cuassay.model.events import CheckFinished, EngineFinished
        from cuassay.report.terminal.trial import TerminalReport, console

        for trial in trials:
            if trial.verdict is None:
                raise UsageError(f"{trial.name} has no verdict: {trial.reason}")
            terminal = TerminalReport(
                console(no_color=not output.color),
                quiet=output.quiet,
                verbose=output.verbose,
                runs=str(runs_dir()),
            )
            for check in trial.verdict.checks:
                terminal.consume(CheckFinished(report=check))
            terminal.consume(EngineFinished(verdict=trial.verdict))
    sinks.emit(trials, output.targets, quiet=output.quiet or output.json)


def audit_trials(folder: Path) -> tuple[Judged, ...]:
    """Return every trial of an audit, in the order of its plan."""
    from cuassay.report.judged import Judged
    from cuassay.store.audits import read_audit
    from cuassay.store.runs import RunFolder

    found = []
    for result in read_audit(folder).results:
        run = folder / result.run if result.run else None
        verdict = RunFolder(run).verdict() if run is not None else None
        # A verdict without what no file for another tool shows: audits have thousands.
        found.append(
            Judged(
                path=result.item.candidate,
                root=sinks.root(),
                verdict=None
                if verdict is None
                else dataclasses.replace(verdict, checks=tuple(map(_light_check, verdict.checks))),
                stopped=result.reason or result.ending.value,
                candidate=sinks.kept_candidate(run) if run is not None else None,
            )
        )
    return tuple(found)


def _light_check(check: CheckReport) -> CheckReport:
    from cuassay.model.outcome import Failed

    outcome = check.outcome
    if isinstance(outcome, Failed):
        outcome = dataclasses.replace(outcome, findings=_light_findings(outcome.findings))
    return dataclasses.replace(check, outcome=outcome, advice=_light_findings(check.advice))


def _light_findings(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    return tuple(dataclasses.replace(f, scenario=None, error_map=None) for f in findings)


def judged(folder: Path) -> Judged:
    """Return the trial that a run folder keeps. Raises UsageError where there is no job."""
    from cuassay.model.events import EngineStopped
    from cuassay.report.judged import Judged
    from cuassay.store.runs import RunFolder

    run = RunFolder(folder)
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


def _only(runs: tuple[str, ...], option: str) -> str:
    if len(runs) != 1:
        raise UsageError(f"{len(runs)} runs are given; {option} takes one")
    return runs[0]


def _show_difference(old: str, new: str, *, as_json: bool) -> bool:
    """Print what changed; return whether a kernel that was accepted is not any more."""
    from cuassay.cli.drive import emit_json
    from cuassay.report import audit_diff

    change = audit_diff.difference(_loaded(old), _loaded(new))
    if as_json:
        emit_json(audit_diff.document(change))
    else:
        for line in audit_diff.lines(change):
            click.echo(line)
    return bool(change.regressions)


def _loaded(where: str) -> Audit:
    """Return an audit, or a run as an audit of one candidate."""
    from cuassay.store import audits
    from cuassay.store.runs import open_run

    path = Path(where).expanduser()
    if audits.is_audit(path):
        return audits.read_audit(path)
    try:
        return audits.read_audit(audits.open_audit(where))
    except UsageError as error:
        if not isinstance(error, UnknownNameError) and not path.is_dir():
            raise
    from cuassay.audit.condense import audit_of_run

    return audit_of_run(open_run(where))


def folder_of(where: str) -> Path:
    """Return the folder of a run or an audit. Raises UsageError where it is neither."""
    from cuassay.store.audits import open_audit
    from cuassay.store.runs import open_run

    path = Path(where).expanduser()
    if where and path.is_dir() and is_audit(path):
        return path
    try:
        return open_run(where).path
    except UnknownNameError as unknown:
        try:
            return open_audit(where)
        except UnknownNameError:
            raise unknown from None
