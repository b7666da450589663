"""`cuassay serve`: judges that wait, so that trials start at once."""

from __future__ import annotations

import contextlib

import click

from cuassay.cli import options
from cuassay.cli.sinks import say


@click.command("serve")
@options.device_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Judges to keep waiting. Default: one for each GPU, or for eight cores.",
)
def serve(*, device: str | None, workers: int | None) -> None:
    """Keep judges waiting until interrupted, so that trials start at once.

    `cuassay check`, pytest and the Python API use them by themselves as long as this command
    runs with the same CUASSAY_HOME, settings and version. A trial whose settings differ, or that
    finds every judge busy, starts a judge of its own.
    """
    from cuassay.engine.executors import local_lanes
    from cuassay.engine.pool import WarmPool
    from cuassay.engine.serve import Server

    lanes = local_lanes(options.device(device), workers)
    with WarmPool(lanes) as pool, Server(pool) as server:
        say(f"judges wait on {', '.join(lane.name for lane in lanes)}; end with Ctrl+C")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve()
