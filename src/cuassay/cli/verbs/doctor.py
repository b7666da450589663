"""`cuassay doctor`: what this machine can judge, what is missing, and how to get it."""

from __future__ import annotations

import dataclasses

import click

from cuassay import __version__
from cuassay.cli.drive import emit_json
from cuassay.cli.probes import Probe, probes
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
    for probe in probes():
        for line in _lines(probe):
            click.echo(line)


def _lines(probe: Probe) -> list[str]:
    from cuassay.report.clean import one_line

    found = one_line(probe.found, limit=300)
    if probe.ok:
        return [f"{click.style('ok     ', fg='green')}  {probe.name:<20}  {found}".rstrip()]
    head = f"{click.style('missing', fg='yellow')}  {probe.name:<20}  {found}".rstrip()
    indent = " " * 31
    return [head, f"{indent}costs: {probe.costs}", f"{indent}fix:   {probe.fix}"]
