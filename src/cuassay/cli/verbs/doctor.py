"""`cuassay doctor`: what this machine can judge, what is missing, and how to get it."""

from __future__ import annotations

import dataclasses

import click

from cuassay import __version__
from cuassay.cli.drive import emit_json
from cuassay.cli.probes import probes
from cuassay.home import home


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(*, as_json: bool) -> None:
    """Say what this machine can judge, what is missing, and how to get it."""
    if as_json:
        found = [dataclasses.asdict(probe) for probe in probes()]
        emit_json(
            {
                "schema": "cuassay/doctor/1",
                "cuassay": __version__,
                "home": str(home()),
                "probes": found,
            }
        )
        return
    click.echo(f"cuassay {__version__}, keeps its runs in {home()}\n")
    from cuassay.report.clean import one_line

    for probe in probes():
        version = one_line(probe.found, limit=300)
        sign = (
            click.style("ok     ", fg="green") if probe.ok else click.style("missing", fg="yellow")
        )
        click.echo(f"{sign}  {probe.name:<20}  {version}".rstrip())
        if not probe.ok:
            click.echo(f"{'':31}costs: {probe.costs}")
            click.echo(f"{'':31}fix:   {probe.fix}")
