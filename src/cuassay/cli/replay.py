"""`cuassay replay`: see a recorded finding again."""

from __future__ import annotations

import dataclasses

import click

from cuassay.cli import options
from cuassay.cli.drive import drive


@click.command("replay")
@click.argument("where", metavar="RUN_OR_FINDING")
@options.device_option
@options.output_options
@click.pass_context
def replay(
    context: click.Context,
    *,
    where: str,
    device: str | None,
    formats: tuple[str, ...],
    as_json: bool,
    html: str | None,
    quiet: bool,
    no_color: bool,
) -> None:
    """Run recorded findings again: RUN/F1, or every finding of RUN.

    RUN is a run's id, the start of one, its folder, or `last`. Exit code 1 where a finding
    shows again, 0 where none does.
    """
    from cuassay.engine import run

    output = options.output(
        as_json=as_json, html=html, quiet=quiet, no_color=no_color, formats=formats
    )
    output = dataclasses.replace(output, replayed=True)
    context.exit(drive(run.replay(where, device=options.device(device)), output))
