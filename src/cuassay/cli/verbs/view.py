"""`cuassay view`: a run or an audit in the browser, also while it runs."""

from __future__ import annotations

import contextlib
import webbrowser
from pathlib import Path

import click

from cuassay.cli.sinks import say
from cuassay.errors import UnknownNameError


@click.command("view")
@click.argument("where", metavar="RUN")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: any free one.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser.")
def view(*, where: str, port: int, opens: bool) -> None:
    """Show a run or an audit on this machine's loopback until interrupted.

    RUN is a run's or an audit's id or folder, or `last`. Pages of what still runs are loaded
    again every few seconds. Nobody else can open them: the address holds a secret word.
    """
    from cuassay.view import View

    shown = View(folder_of(where), port=port)
    click.echo(shown.address)
    say("serving until interrupted (Ctrl+C)")
    if opens:
        webbrowser.open(shown.address)
    with contextlib.suppress(KeyboardInterrupt):
        shown.serve()


def folder_of(where: str) -> Path:
    """Return the folder of a run or an audit. Raises UsageError where it is neither."""
    from cuassay.store.audits import is_audit, open_audit
    from cuassay.store.runs import open_run

    path = Path(where).expanduser()
    if where and path.is_dir() and is_audit(path):
        return path
    try:
        return open_run(where).path
    except UnknownNameError as unknown:
        try:
            return open_audit(where)
        except UnknownNameError:
            raise unknown from None
