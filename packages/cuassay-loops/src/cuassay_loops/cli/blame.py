"""`cuassay loop blame`: which kernel makes a training run go wrong, or that none does."""

from __future__ import annotations

import click

from cuassay.cli import options
from cuassay.errors import UsageError
from cuassay.model.device import Device
from cuassay_loops.cli import options as loop_options


@click.command("blame")
@click.argument("path", metavar="CONFIG")
@click.option("--steps", type=int, default=0, help="Steps of each run.")
@options.device_option
@click.option("--seed", type=int, metavar="N", help="Repeat a search.")
@loop_options.form_options
@click.pass_context
def blame(
    context: click.Context,
    /,
    *,
    path: str,
    steps: int,
    device: Device | None,
    seed: int | None,
    output: loop_options.LoopForms,
) -> None:
    """Find the kernel that makes a run leave the noise band, or clear all of them.

    CONFIG is a Python file with `def setup(seed)` that returns a cuassay_loops.Training (it runs
    with your rights: no isolation), or a TOML file that puts several kernels into cuassay's own
    model, each in a process of its own.
    """
    from cuassay.model.jobs import BlameJob
    from cuassay.model.loop import LoopSettings
    from cuassay_loops.cli.drive import drive

    if not 0 <= steps <= 1_000_000:
        raise UsageError(f"--steps {steps} is out of range; expected 0 to 1000000")
    job = BlameJob(
        problem="",
        candidate=path,
        device=device,
        seed=options.read_seed(seed),
        settings=LoopSettings(site="", steps=steps),
    )
    context.exit(drive(job, output))
