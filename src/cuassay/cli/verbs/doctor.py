"""`cuassay doctor`: what this machine can judge, what is missing, and how to get it."""

from __future__ import annotations

import dataclasses

import click

from cuassay import __version__
from cuassay.cli.drive import emit_json, waiting
from cuassay.cli.probes import JUDGE, install_command, probes
from cuassay.home import home


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(*, as_json: bool) -> None:
    """Say what this machine can judge, what is missing, and how to get it.

    The last line is one command that installs all that pip can install.
    """
    with waiting("asks Python, the compilers and the system what is there", quiet=as_json):
        found = tuple(probes())
    command = install_command(
        tuple(dict.fromkeys(name for probe in found if not probe.ok for name in probe.packages))
    )
    if as_json:
        emit_json(
            {
                "schema": "cuassay/doctor/1",
                "cuassay": __version__,
                "home": str(home()),
                "probes": [dataclasses.asdict(probe) for probe in found],
                "install": command,
            }
        )
        return
    click.echo(f"cuassay {__version__}, keeps its runs in {home()}\n")
    from cuassay.report.clean import one_line

    for probe in found:
        version = one_line(probe.found, limit=300)
        sign = (
            click.style("ok     ", fg="green") if probe.ok else click.style("missing", fg="yellow")
        )
        click.echo(f"{sign}  {probe.name:<20}  {version}".rstrip())
        if not probe.ok:
            click.echo(f"{'':9}costs: {probe.costs}")
            if probe.packages != (JUDGE,):
                click.echo(f"{'':9}fix:   {probe.fix}")
    if command:
        click.echo(f"\nTo install what is missing:\n\n  {command}")
    else:
        click.echo("\nAll that `quick` and `standard` use on this machine is installed.")
