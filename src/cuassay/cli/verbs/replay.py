"""`cuassay replay`: see a recorded finding again."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import click

from cuassay.cli import options
from cuassay.cli.drive import drive
from cuassay.cli.sinks import say
from cuassay.errors import UsageError
from cuassay.model.device import Device
from cuassay.parts import Part, find_part

_CAPSULE = ".capsule.safetensors"  # the end of the name of what a guard keeps of a call


@click.command("replay")
@click.argument("where", metavar="RUN_FINDING_OR_CAPSULE")
@click.option(
    "--kernel",
    metavar="FILE.py:FUNCTION",
    help="Of a capsule: where the kernel is, if not where it was.",
)
@click.option(
    "--export",
    metavar="FILE.py",
    help="Write the finding as a program that needs torch alone.",
)
@options.device_option
@options.output_options
@click.pass_context
def replay(
    context: click.Context,
    *,
    where: str,
    kernel: str | None,
    export: str | None,
    device: Device | None,
    output: options.Output,
) -> None:
    """Run recorded findings again: RUN/F1, or every finding of RUN.

    RUN is a run's id, the start of one, its folder, or `last`. A capsule that a guard wrote
    (NAME.capsule.safetensors) is judged, its kernel called again, and the failing call made
    smaller.

    With --export the finding is also written as a Python program: its inputs, the calls, the
    expected values and the assertion that fails.
    """
    from cuassay.engine import run

    if export is not None and not export.endswith(".py"):
        raise UsageError(f"--export {export} is not a .py file; give the file to write")
    if where.endswith(_CAPSULE):
        replay_capsule = find_part(Part.CAPSULES)
        context.exit(
            replay_capsule(
                where,
                kernel=kernel,
                device=device,
                as_json=output.json,
                quiet=output.quiet,
                formatted=bool(output.other_form),
            )
        )
    if kernel is not None:
        raise UsageError(f"--kernel belongs to a capsule of a guard, and {where} is none")
    output = dataclasses.replace(output, replayed=True)
    before_ns = time.time_ns()
    code = drive(run.replay(where, device=device, export=export or ""), output)
    program = Path(export) if export else None
    if program is not None and program.exists() and program.stat().st_mtime_ns >= before_ns:
        kernel_folder = program.with_name(f"{program.stem}_kernel")
        say(f"program: {program} (calls the kernel in {kernel_folder}; run it with python)")
    context.exit(code)
