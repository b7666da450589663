"""`cuassay loop`: training and inference loops with a kernel at one of their operators."""

from __future__ import annotations

import click

from cuassay.cli.drive import require_home
from cuassay_loops.cli.blame import blame
from cuassay_loops.cli.capture import capture
from cuassay_loops.cli.infer import infer
from cuassay_loops.cli.train import train


@click.group("loop")
@click.pass_context
def loop(context: click.Context) -> None:
    """Run training and inference loops with a kernel in them, or record their calls."""
    if context.invoked_subcommand != "capture":
        require_home()


for _verb in (train, infer, blame, capture):
    loop.add_command(_verb)
