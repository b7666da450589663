"""`cuassay audit`: judge a whole tree of problems and candidates as one run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuassay.cli import options
from cuassay.cli.audit_show import show_audit, show_plan, show_powers, show_problems, write_traces
from cuassay.cli.drive import INTERRUPTED
from cuassay.cli.sinks import say, targets, writable
from cuassay.errors import UsageError
from cuassay.inputs.seeds import new_root
from cuassay.model.options import Options

if TYPE_CHECKING:
    from cuassay.audit.found import Tree
    from cuassay.audit.plan import Plan, WantedCandidates
    from cuassay.engine.executors import TaskExecutor
    from cuassay.model.audit import AuditHeader, AuditResult, ProblemPower
    from cuassay.store.audits import AuditFolder


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of one call, checked."""

    tree: str
    run: str | None
    choice: WantedCandidates
    dry_run: bool
    problems_only: bool
    judging: Options
    strict: bool
    own_problem: bool
    budget_s: float | None
    timeout_s: float | None
    executor: str
    address: str | None
    lanes: int | None
    traces: Path | None
    output: options.Output


@click.command("audit")
@click.argument("tree", required=False)
@click.option(
    "--run",
    "run_folder",
    metavar="FOLDER",
    help="Folder of the audit; the same command resumes an interrupted one.",
)
@click.option("--dry-run", is_flag=True, help="Show the plan and judge nothing.")
@click.option(
    "--problems-only",
    is_flag=True,
    help="Judge the problems: which broken kernels their own inputs and rule let through.",
)
@click.option("--only", multiple=True, metavar="PATTERN", help="Names or paths to judge: 'rms*'.")
@click.option("--family", multiple=True, metavar="NAME", help="Only this operator family.")
@click.option("--author", multiple=True, metavar="NAME", help="Only this author or model.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="At most N candidates.")
@click.option("--budget", metavar="TIME", help="Start no trial after this time: 90s, 30m, 2h.")
@click.option("--timeout", metavar="TIME", help="Longest time for one candidate.  [default: 30m]")
@click.option(
    "--executor",
    type=click.Choice(("local", "ray")),
    default="local",
    show_default=True,
    help="Where trials run.",
)
@click.option(
    "--address", metavar="ADDRESS", help="The Ray cluster. Default: cuassay starts one here."
)
@click.option(
    "--lanes", type=click.IntRange(1), metavar="N", help="Trials at a time.  [default: what fits]"
)
@options.judging_options("quick")
@options.own_problem_option
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--html", metavar="FILE", help="Also write a one-file HTML report.")
@click.option("--traces", metavar="FILE", help="Also write Traces, as flashinfer-trace keeps them.")
@click.option("--quiet", "-q", is_flag=True, help="Print the totals in one line.")
@click.option("--no-color", is_flag=True, help="Plain text, also on a terminal.")
@click.pass_context
def audit(
    context: click.Context,
    *,
    tree: str | None,
    run_folder: str | None,
    only: tuple[str, ...],
    family: tuple[str, ...],
    author: tuple[str, ...],
    limit: int | None,
    dry_run: bool,
    problems_only: bool,
    budget: str | None,
    timeout: str | None,
    executor: str,
    address: str | None,
    lanes: int | None,
    judging: Options,
    strict: bool,
    own_problem: bool,
    as_json: bool,
    html: str | None,
    traces: str | None,
    quiet: bool,
    no_color: bool,
) -> None:
    """Judge every candidate in TREE against its problem.

    TREE is a folder in any supported format, or a list (.csv, .jsonl) of problems and
    candidates.
    """
    from cuassay.audit.plan import WantedCandidates
    from cuassay.store.audits import header_of

    if tree is None:
        if run_folder is None:
            raise UsageError("no TREE is given: expected a folder, a list, or --run AUDIT_FOLDER")
        tree = header_of(Path(run_folder).expanduser()).tree
    asked = Asked(
        tree=tree,
        run=run_folder,
        choice=WantedCandidates(only=only, families=family, authors=author, limit=limit),
        dry_run=dry_run,
        problems_only=problems_only,
        judging=judging,
        strict=strict,
        own_problem=own_problem,
        budget_s=options.duration_s(budget, option="--budget"),
        timeout_s=options.duration_s(timeout or "30m", option="--timeout"),
        executor=executor,
        address=address,
        lanes=lanes,
        traces=writable(traces, option="--traces") if traces else None,
        output=options.Output(
            targets=targets((), as_json=as_json, html=html), quiet=quiet, color=not no_color
        ),
    )
    context.exit(_audit(asked))


def _audit(asked: Asked) -> int:
    from cuassay.audit.discover import discover
    from cuassay.audit.plan import make_plan
    from cuassay.report.terminal import audit as audit_terminal

    found = discover(asked.tree)
    if asked.problems_only:
        return _problems_only(asked, found)
    header, folder = _header(asked)
    judged_as = {
        "profile": header.profile.value,
        "version": header.version,
        "require": ",".join(header.require),
        "precision": header.precision.value if header.precision else "",
        "strict": str(header.strict),
    }
    plan = make_plan(found, asked.choice, root=header.tree, judged_as=judged_as)
    if asked.dry_run:
        return show_plan(plan, asked.output)
    if not plan.planned:
        for line in audit_terminal.oddity_lines(plan.oddities):
            say(line)
        raise UsageError(
            f"{asked.tree} holds no candidate to judge (of {len(found.pairs)} found, "
            f"{plan.left_out} are left out by the filters); `--dry-run` shows the plan"
        )
    return _judge(asked, plan, header, folder)


def _header(asked: Asked) -> tuple[AuditHeader, AuditFolder]:
    """Return the header of a new audit, or of the one that goes on in the given folder."""
    from cuassay import __version__
    from cuassay.audit.driver import now
    from cuassay.home import audits_dir
    from cuassay.model.audit import AuditHeader
    from cuassay.store.audits import AuditFolder, header_of, is_audit
    from cuassay.store.files import fresh_id

    name = fresh_id()
    place = Path(asked.run).expanduser().absolute() if asked.run else audits_dir() / name
    header = AuditHeader(
        id=name,
        tree=str(Path(asked.tree).expanduser().absolute()),
        profile=asked.judging.profile,
        device=asked.judging.device or "default",
        seed=new_root() if asked.judging.seed is None else asked.judging.seed,
        started_at=now(),
        version=__version__,
        executor=asked.executor,
        require=asked.judging.require,
        precision=asked.judging.precision,
        filters=asked.choice.words(),
        budget_s=asked.budget_s,
        strict=asked.strict,
        own_problem=asked.own_problem,
    )
    if is_audit(place):
        # The header of an audit that goes on: its seed stays. Raises UsageError.
        old = header_of(place)
        for name in ("tree", "profile", "require", "precision", "strict", "own_problem"):
            before, wanted = getattr(old, name), getattr(header, name)
            if before != wanted:
                raise UsageError(
                    f"--run {asked.run} holds an audit with {name} {before}, this call has "
                    f"{wanted}; "
                    "verdicts of the two cannot stand in one table: give another folder"
                )
        if asked.judging.seed is not None and asked.judging.seed != old.seed:
            raise UsageError(
                f"--run {asked.run} holds an audit with another seed; leave --seed out"
            )
        header = dataclasses.replace(
            header,
            id=old.id,
            seed=old.seed,
            started_at=old.started_at,
            environment=old.environment,
        )
    elif asked.run and place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise UsageError(
            f"--run {place} holds something that is no audit; give a new or empty folder, or one "
            "that `cuassay audit` made"
        )
    return header, AuditFolder(place)


def _judge(asked: Asked, plan: Plan, header: AuditHeader, folder: AuditFolder) -> int:
    from cuassay.audit.driver import run_audit
    from cuassay.report.terminal import audit as audit_terminal

    output = asked.output
    if not output.quiet:
        for line in audit_terminal.plan_lines(plan.items, left_out=plan.left_out):
            say(line)

    def report(result: AuditResult, done: int, total: int) -> None:
        if not output.quiet:
            say(audit_terminal.result_line(result, done, total))

    try:
        finished = run_audit(plan, header, folder, executor=_executor(asked), report=report)
    except KeyboardInterrupt:
        again = f"cuassay audit --run {folder.path}"
        say(f"cuassay: interrupted; what ended is kept. Go on with: {again}")
        return INTERRUPTED
    if asked.traces is not None:
        write_traces(finished, folder.path, asked.traces)
    return show_audit(finished, folder.path, asked.output)


def _executor(asked: Asked) -> TaskExecutor:
    from cuassay.engine.executors import LocalExecutor, audit_lanes

    if asked.address is not None and asked.executor != "ray":
        raise UsageError(f"--address {asked.address} is for --executor ray; add that")
    if asked.executor == "ray":
        from cuassay.engine.ray_executor import RayExecutor

        return RayExecutor(
            address=asked.address,
            device=asked.judging.device,
            lanes=asked.lanes,
            timeout_s=asked.timeout_s,
        )
    return LocalExecutor(audit_lanes(asked.judging.device, asked.lanes), timeout_s=asked.timeout_s)


def _problems_only(asked: Asked, found: Tree) -> int:
    """Measure the problems that the filters want; candidates are not needed."""
    from cuassay.audit.plan import wanted_problems
    from cuassay.audit.powers import run_powers
    from cuassay.engine.executors import local_lanes
    from cuassay.report.terminal import audit as audit_terminal

    if asked.executor != "local":
        raise UsageError("--problems-only runs on this machine's lanes; leave --executor out")
    problems = wanted_problems(found, asked.choice)
    if not problems:
        raise UsageError(f"{asked.tree} holds no problem to measure (of {len(found.problems)})")
    if asked.dry_run:
        return show_problems(problems, asked.output)
    header, folder = _header(asked)

    def report(power: ProblemPower, done: int, total: int) -> None:
        if not asked.output.quiet:
            say(audit_terminal.measured_line(power, done, total))

    # That nothing is judged against a problem is no fault of its own here.
    alone = {problem.where for problem in found.problems} - {p.problem.where for p in found.pairs}
    odd = tuple(oddity for oddity in found.oddities if oddity.path not in alone)
    try:
        finished = run_powers(
            problems,
            odd,
            header,
            folder,
            lanes=local_lanes(asked.judging.device, asked.lanes),
            timeout_s=asked.timeout_s,
            report=report,
        )
    except KeyboardInterrupt:
        say(f"cuassay: interrupted; what was measured is kept in {folder.path}")
        return INTERRUPTED
    return show_powers(finished, folder.path, asked.output)
