"""`cuassay changed`: judge the kernels that a change concerns; for hooks and CI."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuassay.cli import manifest, options, sinks
from cuassay.cli.drive import EXIT_CODES, begun_report
from cuassay.cli.sinks import say
from cuassay.errors import UsageError
from cuassay.model.options import Options

if TYPE_CHECKING:
    from cuassay.model.jobs import TrialJob
    from cuassay.report.judged import Judged

_GIT_S = 60


@click.command("changed")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--since", metavar="REF", help="Files changed since this commit branched off (git).")
@click.option("--all", "everything", is_flag=True, help="Every kernel that is listed.")
@click.option("--manifest", "listed", metavar="FILE", help="Where the kernels are listed.")
@options.judging_options("quick")
@options.output_options
@click.pass_context
def changed(
    context: click.Context,
    *,
    files: tuple[str, ...],
    since: str | None,
    everything: bool,
    listed: str | None,
    judging: Options,
    output: options.Output,
) -> None:
    """Judge the kernels among FILES, or those changed since a commit.

    Kernels and their problems are listed in pyproject.toml ([tool.cuassay.kernels]) or in
    cuassay-kernels.toml. A kernel is judged where it, its problem or the list has changed.
    """
    from cuassay.engine.run import one_judge
    from cuassay.model.jobs import TrialJob

    if any(target.form in ("json", "agent", "html") for target in output.targets):
        raise UsageError("--json, --html and agent hold one trial; use sarif, junit or markdown")
    found = manifest.read_manifest(Path(listed).expanduser() if listed else None, Path.cwd())
    if everything:
        kernels = found.kernels()
    else:
        given = [Path(file).absolute() for file in files]
        if since is not None:
            # The files that differ from where `reference` and HEAD parted.
            if since.startswith("-"):
                raise UsageError(f"--since '{since}' is no commit")
            top = Path(_git(found.folder, "rev-parse", "--show-toplevel").strip())
            names = _git(found.folder, "diff", "--name-only", "-z", "--merge-base", since, "--")
            given += [top / name for name in names.split("\0") if name]
        elif not files:
            raise UsageError("nothing to look at: give FILES, --since REF, or --all")
        kernels = found.touched(tuple(given))
    jobs = [
        TrialJob(problem=found.problem_of(kernel) or "", candidate=str(kernel), **judging.chosen())
        for kernel in kernels
    ]
    if not jobs:
        say("no listed kernel is concerned")
    with one_judge():
        ended = [_judged(job, output) for job in jobs]
    sinks.emit([trial for trial, _ in ended], output.targets, quiet=output.quiet)
    context.exit(worst([code for _, code in ended]))


def worst(codes: list[int]) -> int:
    """Return the exit code of several trials: rejected, then off, then undecided, then 0."""
    return next((code for code in (1, 2, 3) if code in codes), 0)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_GIT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git cannot be run: {error}; give FILES instead of --since") from None
    if done.returncode:
        why = done.stderr.strip().splitlines()
        raise UsageError(
            f"git {' '.join(arguments[:2])} failed: {why[-1] if why else done.returncode}; fetch "
            "the commit (fetch-depth: 0 in CI), or give FILES"
        )
    return done.stdout


def _judged(job: TrialJob, output: options.Output) -> tuple[Judged, int]:
    """Judge one kernel, show it as it goes, and return the trial with its exit code."""
    from cuassay.engine import run
    from cuassay.home import runs_dir
    from cuassay.model.events import EngineFinished, EngineStopped
    from cuassay.report.judged import Judged

    report = begun_report(output, job)
    trial = Judged(path=job.candidate, root=sinks.root(), stopped="the trial ended with no word")
    code = 3
    try:
        for event in run.check(job):
            report.consume(event)
            if isinstance(event, EngineFinished):
                verdict = event.verdict
                kept = sinks.kept_candidate(runs_dir() / verdict.run)
                trial = dataclasses.replace(trial, verdict=verdict, candidate=kept)
                code = EXIT_CODES[verdict.decision]
            elif isinstance(event, EngineStopped):
                trial = dataclasses.replace(trial, stopped=event.message, exit_code=event.exit_code)
                code = event.exit_code
                say(f"cuassay: {trial.name}: {event.message}")
    finally:
        report.close()
    return trial, code
