"""A Model Context Protocol server on stdio: check, explain, power and replay for agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from cuassay import __version__
from cuassay.agents.tools import Tools
from cuassay.errors import CuassayError
from cuassay.model.events import CheckFinished, EngineStarted, Event

INSTRUCTIONS = (
    "cuassay decides whether a GPU kernel computes what its operator defines. Call `check` with "
    "the kernel's path or source and a problem; only verdict ACCEPTED may ship, and only under "
    "the listed conditions. INCONCLUSIVE is no pass. After a rejection repair the general case: "
    "every trial draws new secret inputs."
)
Problem = Annotated[str, Field(description="A catalogue name, or an allowed problem file")]

FindingName = Annotated[str, Field(description="RUN/F1 as a finding names it, or last/F1")]


def server(tools: Tools) -> MCPServer[Any]:
    """Return the server; its `run()` serves on stdin and stdout until they close."""
    made: MCPServer[Any] = MCPServer("cuassay", version=__version__, instructions=INSTRUCTIONS)

    @made.tool()
    async def check(
        kernel: Annotated[str, Field(description="Path of the kernel, or its source text")],
        problem: Problem,
        ctx: Context[Any, Any],
        budget_s: Annotated[float, Field(gt=0, le=3600, description="Seconds at most")] = 300.0,
    ) -> dict[str, Any]:
        """Judge a GPU kernel: verdict, what is wrong with its failing input, and what to try."""
        # A watcher that tells the client each check that ended, from the trial's thread.
        done, total = 0, 0

        def watch(event: Event) -> None:
            nonlocal done, total
            if isinstance(event, EngineStarted):
                total = len(event.checks)
            elif isinstance(event, CheckFinished):
                done += 1
                anyio.from_thread.run(ctx.report_progress, done, total, event.report.code)

        found: dict[str, Any] = await _threaded(
            lambda: tools.check(kernel, problem, budget_s=budget_s, watch=watch)
        )
        return found

    @made.tool()
    async def explain(code: Annotated[str, Field(description="Such as NUM002")]) -> str:
        """Say what a check looks for, how it decides and when it can be wrong."""
        return str(await _threaded(lambda: tools.explain(code)))

    @made.tool()
    async def explain_finding(finding: FindingName) -> dict[str, Any]:
        """Say what is behind one finding: cause, line, smallest input, remedy, and its check."""
        found: dict[str, Any] = await _threaded(lambda: tools.explain_finding(finding))
        return found

    @made.tool()
    async def power(problem: Problem) -> dict[str, Any]:
        """Count the broken versions of a problem's reference that its inputs tell apart."""
        found: dict[str, Any] = await _threaded(lambda: tools.power(problem))
        return found

    @made.tool()
    async def replay(finding: FindingName) -> dict[str, Any]:
        """Run a recorded finding again: does it still show?"""
        found: dict[str, Any] = await _threaded(lambda: tools.replay(finding))
        return found

    return made


async def _threaded(call: Callable[[], Any]) -> Any:
    """Run what blocks in a thread; a mistake comes back as one message, without a traceback."""
    try:
        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
    except CuassayError as error:
        raise ToolError(str(error)) from None
