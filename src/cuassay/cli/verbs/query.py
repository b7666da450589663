"""`cuassay query` and `cuassay diff`: questions over everything that was judged here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cuassay.cli.drive import emit_json

if TYPE_CHECKING:
    from cuassay.model.audit import Audit

_CELL = 60


@click.command("query")
@click.argument("question", required=False)
@click.argument("argument", required=False)
@click.option("--sql", metavar="TEXT", help="A question of your own: a SELECT over runs, findings.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Rows shown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def query(
    *, question: str | None, argument: str | None, sql: str | None, limit: int, as_json: bool
) -> None:
    """Ask a saved QUESTION of all kept runs and audits; without one, list the questions."""
    from cuassay.errors import UsageError
    from cuassay.store import index, questions

    if question is None and sql is None:
        for name, one in questions.QUESTIONS.items():
            click.echo(f"{f'{name} {one.takes}'.strip():<24}  {one.words}")
        return
    if question is not None and sql is not None:
        raise UsageError(f"give the question '{question}' or --sql, not both")
    with index.opened() as connection:
        if sql is not None:
            names, found = index.rows(connection, sql)
            found = found[:limit]
        else:
            names, found = questions.answer(connection, question or "", argument, limit=limit)
    if as_json:
        from cuassay.report.clean import clean

        plain = [
            [clean(value) if isinstance(value, str) else value for value in row] for row in found
        ]
        emit_json({"schema": "cuassay/query/1", "columns": list(names), "rows": plain})
        return
    from cuassay.report.clean import one_line

    if not found:
        click.echo("nothing")
        return
    # Paths are shown whole: they are what the next command takes.
    limits = [400 if name == "run" else _CELL for name in names]
    texts = [
        ["" if v is None else one_line(str(v), limit=limit) for limit, v in _pairs(limits, row)]
        for row in found
    ]
    widths = [max(len(row[i]) for row in (list(names), *texts)) for i in range(len(names))]
    for row in (list(names), *texts):
        click.echo("  ".join(f"{cell:<{w}}" for cell, w in _pairs(row, widths)).rstrip())


@click.command("diff")
@click.argument("old")
@click.argument("new")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def diff(context: click.Context, *, old: str, new: str, as_json: bool) -> None:
    """Show what changed from OLD to NEW: two audits, or two runs.

    Each is a folder, an id or the start of one.
    """
    from cuassay.report import audit_diff

    found = audit_diff.difference(_loaded(old), _loaded(new))
    if as_json:
        emit_json(audit_diff.document(found))
    else:
        for line in audit_diff.lines(found):
            click.echo(line)
    context.exit(1 if found.regressions else 0)


def _loaded(where: str) -> Audit:
    """Return an audit, or a run as an audit of one candidate."""
    from cuassay.errors import UnknownNameError, UsageError
    from cuassay.store import audits
    from cuassay.store.runs import open_run

    path = Path(where).expanduser()
    if audits.is_audit(path):
        return audits.read_audit(path)
    try:
        return audits.read_audit(audits.open_audit(where))
    except UsageError as error:
        if not isinstance(error, UnknownNameError) and not path.is_dir():
            raise
    from cuassay.audit.condense import audit_of_run

    return audit_of_run(open_run(where))


def _pairs(left: Sequence[Any], right: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(left, right, strict=True))
