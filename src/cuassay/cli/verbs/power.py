"""`cuassay problem power`: what a problem's inputs can tell from a right kernel."""

from __future__ import annotations

import click

from cuassay.cli import options
from cuassay.cli.drive import emit_json, waiting
from cuassay.model.device import Device


@click.command("power")
@click.argument("where", metavar="PROBLEM")
@click.option(
    "--inputs",
    type=click.Choice(("ours", "theirs")),
    default="ours",
    show_default=True,
    help="Whose survivors to list: cuassay's inputs, or the benchmark's own inputs and rule.",
)
@click.option(
    "--profile",
    type=click.Choice(options.PROFILES),
    default="standard",
    show_default=True,
    help="Whose planned inputs to measure.",
)
@options.device_option
@click.option("--seed", type=int, metavar="N", help="Repeat a measurement.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--strict/--lenient", default=False, help="Refuse unknown keys.")
def power(
    *,
    where: str,
    inputs: str,
    profile: str,
    device: Device | None,
    seed: int | None,
    as_json: bool,
    strict: bool,
) -> None:
    """Count the broken versions of PROBLEM's reference that its inputs tell apart.

    Every survivor is named with the input that would show it. Later trials of PROBLEM first run
    the input regimes that it needs most.
    """
    from cuassay.cli.drive import require_home
    from cuassay.engine import run
    from cuassay.model.jobs import PowerJob
    from cuassay.model.verdict import Profile
    from cuassay.report.power_report import document, lines

    require_home()
    job = PowerJob(
        problem=where,
        profile=Profile(profile),
        device=device,
        seed=options.read_seed(seed),
        strict=strict,
    )
    with waiting("runs broken versions of the reference on the planned inputs") as progress:
        found = document(run.document(job, progress), inputs=inputs)
    if as_json:
        emit_json(found)
        return
    for line in lines(found):
        click.echo(line)
