"""`cuassay check`: may this kernel ship?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
from click.core import ParameterSource

from cuassay.cli import early, options
from cuassay.cli.defaults import Defaults, read_defaults
from cuassay.cli.drive import EXIT_CODES, drive, waiting
from cuassay.cli.sinks import say
from cuassay.cli.tactics import judge_tactics
from cuassay.cli.watch import Check, watch
from cuassay.errors import UsageError
from cuassay.model.device import CPU
from cuassay.model.options import Options
from cuassay.model.verdict import Decision, Profile

# An engineer at a terminal sees the condition. Where a program reads the verdict, who wrote the
# kernel may not say what is right unless somebody agrees.
_FOR_PROGRAMS = frozenset(("agent", "github"))


@click.command("check")
@click.argument("path")
@click.option(
    "--problem",
    default="",
    metavar="PROBLEM",
    help="A problem's folder, definition.json, FILE.py[:FUNCTION], MODULE:FUNCTION or a "
    "catalogue name (`cuassay problem list`). Default: what the kernel's file is named after.",
)
@options.judging_options("standard")
@click.option(
    "--fail-fast/--no-fail-fast",
    default=None,
    help="Stop at the first wrong result; or never. Default at quick: stop where a plain call is "
    "wrong on every input.",
)
@click.option(
    "--recorded", default="", metavar="FOLDER", help="Also try calls that `loop capture` recorded."
)
@click.option(
    "--gpu-memory",
    metavar="SIZE",
    help="GPU memory that cuassay plans for itself, such as 8GiB. Default at quick: 8GiB.",
)
@click.option(
    "--arch",
    default="",
    metavar="ARCH",
    help="Compile CUDA C++ and Triton kernels for a GPU that is not there, such as sm_100, and "
    "judge them on the CPU.",
)
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
@options.own_problem_option
@click.option(
    "--budget",
    metavar="SECONDS",
    help="The longest that the trial may take, such as 5m. Default at quick: 2m, else no limit.",
)
@click.option(
    "--no-sandbox",
    is_flag=True,
    help="Also judge where this machine does not confine the kernel, under a condition.",
)
@click.option("--watch", "watches", is_flag=True, help="Judge again after each save.")
@click.option(
    "--tactics",
    "allow_list",
    metavar="FILE",
    help="Judge every tactic of the kernel by itself (an autotuner's configurations, a FlashInfer "
    "runner's tactics) and write which may be used to FILE, as JSON.",
)
@options.output_options
@click.pass_context
def check(
    context: click.Context,
    *,
    path: str,
    problem: str,
    judging: Options,
    fail_fast: bool | None,
    recorded: str,
    gpu_memory: str | None,
    arch: str,
    budget: str | None,
    strict: bool,
    no_sandbox: bool,
    own_problem: bool,
    watches: bool,
    allow_list: str | None,
    output: options.Output,
) -> None:
    """Judge the kernel at PATH against a problem.

    What a repository states in [tool.cuassay] of its pyproject.toml (profile, problem, require)
    holds where no option says otherwise.
    """
    from cuassay.engine import run
    from cuassay.model.jobs import TrialJob

    output = replace(output, path=path)
    if arch:
        if judging.device is not None and judging.device.on_gpu:
            raise UsageError(f"--arch judges on the CPU; leave --device {judging.device} out")
        arch = options.architecture(arch, option="--arch")
        judging = replace(judging, device=CPU)
    stated = read_defaults(path)
    if stated.profile and context.get_parameter_source("profile") is ParameterSource.DEFAULT:
        judging = replace(judging, profile=Profile(stated.profile))
    if not judging.require:
        judging = replace(judging, require=options.required_conditions(stated.require))
    agreed = own_problem or _FOR_PROGRAMS.isdisjoint(target.form for target in output.targets)

    def once(check_job: Check) -> int:
        candidate = options.candidate_path(path)
        broken = early.syntax_error(path)
        if broken is not None and all(target.form == "terminal" for target in output.targets):
            return _unparsable(path, broken, quiet=output.quiet)
        against = _against(path, candidate, problem, stated, agreed=agreed, quiet=output.quiet)
        job = TrialJob(
            problem=against.problem,
            candidate=against.candidate,
            strict=strict,
            fail_fast=fail_fast,
            no_sandbox=no_sandbox,
            arch=arch,
            own_problem=agreed,
            written_from=against.written_from,
            recorded=options.recorded_folder(recorded),
            gpu_memory_gib=options.memory_gib(gpu_memory, option="--gpu-memory"),
            budget_s=options.duration_s(budget, option="--budget"),
            **judging.chosen(),
        )
        if allow_list is not None:
            return judge_tactics(job, output, Path(allow_list).expanduser())
        return drive(check_job(job), output, job=job)

    if watches:
        if allow_list is not None:
            raise UsageError("--watch judges one kernel again and again; leave --tactics out")
        against = problem or stated.problem
        if not against:
            with contextlib.suppress(UsageError):  # told by the first trial
                against = early.found_problem(path).problem
        files = (path.partition("::")[0], against.partition(":")[0])
        found = [Path(file).expanduser() for file in files if file]
        context.exit(watch([file for file in found if file.exists()], once, device=judging.device))
    context.exit(once(run.check))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Against:
    """What a candidate is judged against; `written_from` is the file of a plain reference."""

    problem: str
    candidate: str
    written_from: str = ""


def _against(
    path: str, candidate: str, problem: str, stated: Defaults, *, agreed: bool, quiet: bool
) -> _Against:
    """Return the problem: the option's, the repository's, or what the kernel's file says."""
    from cuassay.formats.own_problem import require_agreement

    tell: Callable[[str], None] = (lambda _: None) if quiet else say
    if problem:
        early.known_problem(problem)
        return _Against(problem=problem, candidate=candidate)
    if stated.problem:
        early.known_problem(stated.problem)
        tell(f"cuassay: judging against {stated.problem}: [tool.cuassay] of {stated.path} says so")
        return _Against(problem=stated.problem, candidate=candidate)
    found = early.found_problem(path)
    if not found.reference:
        tell(f"cuassay: judging against {found.problem}: {found.why}")
        return _Against(problem=found.problem, candidate=candidate)
    source = found.kernel.partition("::")[0]
    require_agreement(Path(source), agreed=agreed)
    tell(f"cuassay: judging {found.why}; the file runs as trusted code to learn its inputs")
    with waiting(f"runs {found.reference} to learn its inputs and outputs", quiet=quiet):
        written, kernel = early.prepared(found)
    return _Against(problem=written, candidate=kernel, written_from=source)


def _unparsable(path: str, error: SyntaxError, *, quiet: bool) -> int:
    """Say why a file is no Python, at once; return the exit code of a rejection."""
    from cuassay.report.clean import one_line

    text = one_line((error.text or "").strip(), limit=120)
    cause = f"{one_line(error.msg)}: the file is not valid Python"
    number = f":{error.lineno}" if error.lineno else ""  # of a null byte no line is known
    place = f"{one_line(error.filename or path)}{number}"
    if quiet:
        click.echo(f"{Decision.REJECTED.value} {one_line(path)}: {cause} ({place})")
        return EXIT_CODES[Decision.REJECTED]
    click.echo(f"{Decision.REJECTED.value}  {one_line(path)}")
    click.echo(f"  cause       {cause}")
    click.echo(f"  line        {place}  {text}".rstrip())
    click.echo("  do          correct the line")
    return EXIT_CODES[Decision.REJECTED]
