"""`cuassay serve`: judges that wait, for the trials of this machine or for an agent (MCP)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from cuassay.cli import options
from cuassay.cli.sinks import rule, say
from cuassay.errors import UsageError, missing_extra
from cuassay.model.device import Device


@click.command("serve")
@options.device_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Judges to keep waiting. Default: one for each GPU, or for eight cores.",
)
@click.option(
    "--mcp",
    "as_mcp",
    is_flag=True,
    help="Serve an agent over the Model Context Protocol on stdin and stdout, until stdin closes. "
    "Needs `pip install 'cuassay[mcp]'`.",
)
@click.option(
    "--problems",
    "folders",
    multiple=True,
    metavar="DIR",
    help="With --mcp: folder of problems that the agent may name, beside the catalogue. Their "
    "references run outside the sandbox: no agent should be able to write there.",
)
@click.option(
    "--profile",
    type=click.Choice(options.PROFILES),
    help="With --mcp: of its trials. Default: quick.",
)
@options.own_problem_option
def serve(
    *,
    device: Device | None,
    workers: int | None,
    as_mcp: bool,
    folders: tuple[str, ...],
    profile: str | None,
    own_problem: bool,
) -> None:
    """Keep judges waiting until interrupted, so that trials start at once.

    `cuassay check`, pytest and the Python API use them by themselves as long as this command
    runs with the same CUASSAY_HOME, settings and version. A trial whose settings differ, or that
    finds every judge busy, starts a judge of its own.

    With --mcp an agent gets check, explain, explain_finding, power and replay instead.
    """
    if as_mcp:
        _serve_agent(
            [Path(folder).expanduser() for folder in folders],
            profile=profile or "quick",
            workers=workers,
            device=device,
            own_problem=own_problem,
        )
        return
    given = {"--problems": folders, "--profile": profile, "--own-problem": own_problem}
    if names := [name for name, value in given.items() if value]:
        raise UsageError(f"{', '.join(names)} belongs to --mcp; add --mcp, or leave it out")
    from cuassay.engine.executors import local_lanes
    from cuassay.engine.pool import WarmPool
    from cuassay.engine.serve import Server

    lanes = local_lanes(device, workers)
    with WarmPool(lanes) as pool, Server(pool) as server:
        say(f"judges wait on {', '.join(lane.name for lane in lanes)}; end with Ctrl+C")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve()


def _serve_agent(
    problems: list[Path],
    *,
    profile: str,
    workers: int | None,
    device: Device | None,
    own_problem: bool,
) -> None:
    for folder in problems:
        if not folder.is_dir():
            raise UsageError(f"--problems {folder} is not a folder; make it, or leave it out")
    try:
        from cuassay.agents.server import server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "anyio"):
            raise
        raise missing_extra("mcp", "mcp") from None
    from cuassay.agents.tools import Tools
    from cuassay.verifier import Verifier

    with Verifier(
        workers=workers, device=device, profile=profile, own_problem=own_problem
    ) as verifier:
        tools = Tools(verifier, problems=problems, rule=_page, default_profile=profile)
        say("cuassay serves MCP on stdio")
        server(tools).run()


def _page(code: str) -> str:
    from cuassay.checks import registry

    registry.page(code)  # an unknown code raises with the list
    return rule(code).text()
