"""`cuassay guard recertify`: judge again what runs in production, as production uses it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from cuassay.cli import options
from cuassay.cli.drive import drive
from cuassay.errors import UsageError
from cuassay.model.options import Options

_STUB = '''"""Made by `cuassay guard recertify`; the calls are in {record}."""

from pathlib import Path

from cuassay_guard.fleet.recertify import problem_of

seen = problem_of(Path(__file__).with_name("{record}"))
'''


@dataclass(frozen=True, slots=True, kw_only=True)
class Recertified:
    """One kernel to judge again; `why` says why it cannot be, if so."""

    name: str
    source: str
    problem: str
    why: str = ""


@click.command("recertify")
@click.option("--folder", metavar="DIR", help="Where guards keep what they saw, if not at home.")
@options.judging_options("standard")
@click.option("--kernel", "only", metavar="NAME", help="This kernel alone.")
@click.pass_context
def recertify(
    context: click.Context, *, folder: str | None, judging: Options, only: str | None
) -> None:
    """Check every guarded kernel on the shapes and value ranges it met in production.

    Meant for a weekly job.
    """
    from cuassay.engine import run
    from cuassay.home import home
    from cuassay.model.jobs import TrialJob

    if folder is not None:
        place = Path(folder).expanduser()
    else:
        given = os.environ.get("CUASSAY_GUARD_STATUS", "")
        off = given.lower() in ("", "off", "0")
        place = home() / "guard" / "seen" if off else Path(given).parent / "seen"
    plans = [plan for plan in planned(place) if only in (None, plan.name)]
    if not plans:
        named = f" of a kernel '{only}'" if only else ""
        raise UsageError(f"no guard has recorded calls{named} in {place}")
    codes = []
    for plan in plans:
        click.echo(f"{plan.name}: {plan.why or plan.source}")
        if plan.why:
            codes.append(3)
            continue
        job = TrialJob(problem=plan.problem, candidate=plan.source, **judging.chosen())
        codes.append(drive(run.check(job), options.Output()))
    context.exit(next((code for code in (1, 3) if code in codes), max(codes)))


def planned(folder: Path) -> Iterator[Recertified]:
    """Write the stub of every recorded kernel and yield what to judge."""
    for record in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            document = json.loads(record.read_text(encoding="utf-8"))
            source, problem = document["source"], document["problem"]
            stub = record.with_name(f"seen_{record.stem.replace('-', '_').replace('.', '_')}.py")
            why = ""
            if not problem:
                why = "its guard was given no problem; pass problem= to cuassay.guard"
            elif not source:
                why = "the kernel is no function at the top of a file"
            elif not Path(source.partition("::")[0]).is_file():
                why = f"{source.partition('::')[0]} is not there any more"
            elif not document["calls"]:
                why = "no call of it was seen"
            else:
                stub.write_text(_STUB.format(record=record.name), encoding="utf-8")
            yield Recertified(name=document["name"], source=source, problem=f"{stub}:seen", why=why)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            yield Recertified(
                name=record.stem, source="", problem="", why=f"unreadable record: {error}"
            )
