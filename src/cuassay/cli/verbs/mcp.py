"""`cuassay mcp`: serve an agent over the Model Context Protocol on stdio."""

from __future__ import annotations

from pathlib import Path

import click

from cuassay.cli import options
from cuassay.cli.sinks import rule, say
from cuassay.cli.verbs.check import PROFILES
from cuassay.errors import UsageError, missing_extra


@click.command("mcp")
@click.option(
    "--problems",
    "folders",
    multiple=True,
    metavar="DIR",
    help="Folder of problems that the agent may name, beside the catalogue. Their references run "
    "outside the sandbox: no agent should be able to write there.",
)
@click.option("--profile", type=click.Choice(PROFILES), default="quick", show_default=True)
@click.option("--workers", type=int, metavar="N", help="Trials at a time. Default: one a GPU.")
@options.device_option
@options.own_problem_option
def mcp(
    *,
    folders: tuple[str, ...],
    profile: str,
    workers: int | None,
    device: str | None,
    own_problem: bool,
) -> None:
    """Serve check, explain, power and replay to an agent, on stdin and stdout.

    Needs `pip install 'cuassay[mcp]'`. Ends when stdin closes.
    """
    problems = [Path(folder).expanduser() for folder in folders]
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
        workers=workers,
        device=options.device(device),
        profile=profile,
        own_problem=own_problem,
    ) as verifier:
        tools = Tools(verifier, problems=problems, rule=_page, default_profile=profile)
        say("cuassay serves MCP on stdio")
        server(tools).run()


def _page(code: str) -> str:
    from cuassay.checks import registry

    registry.page(code)  # an unknown code raises with the list
    return rule(code).text()
