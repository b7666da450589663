"""What `cuassay audit` prints: the plan, the tables, one line, or one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cuassay.cli.drive import EXIT_CODES, emit_json
from cuassay.cli.options import Output
from cuassay.cli.sinks import say

if TYPE_CHECKING:
    from cuassay.audit.found import FoundProblem
    from cuassay.audit.plan import Plan
    from cuassay.model.audit import Audit


def show_plan(plan: Plan, output: Output) -> int:
    """Print what would be judged and return 0."""
    from cuassay.report.clean import plain_data
    from cuassay.report.terminal import audit as audit_terminal

    if output.json:
        emit_json(
            {
                "schema": "cuassay/audit-plan/1",
                "candidates": plain_data(plan.items),
                "oddities": plain_data(plan.oddities),
                "left_out": plan.left_out,
            }
        )
        return 0
    for line in audit_terminal.plan_lines(plan.items, left_out=plan.left_out):
        click.echo(line)
    for line in audit_terminal.oddity_lines(plan.oddities):
        click.echo(line)
    return 0


def show_audit(finished: Audit, folder: Path, output: Output) -> int:
    """Print an audit that ended, write its page, and return its exit code."""
    from cuassay.report import audit_json
    from cuassay.report.terminal import audit as audit_terminal

    for target in output.targets:
        if target.form == "html" and target.path is not None:
            _write_page(finished, target.path, quiet=output.quiet or output.json)
    if output.json:
        emit_json(audit_json.document(finished) | {"run": str(folder)})
    elif output.quiet:
        click.echo(audit_terminal.short_line(finished))
    else:
        click.echo("")
        for line in audit_terminal.lines(finished):
            click.echo(line)
        click.echo("")
        click.echo(f"Kept in {folder}; every finding is a line of findings.jsonl there.")
    return exit_code(finished)


def show_problems(problems: Sequence[FoundProblem], output: Output) -> int:
    """Print which problems would be measured and return 0."""
    from cuassay.report.clean import clean, one_line

    if output.json:
        names = [{"problem": clean(p.name), "problem_path": clean(p.where)} for p in problems]
        emit_json({"schema": "cuassay/audit-plan/1", "problems": names})
        return 0
    for problem in problems:
        click.echo(f"{one_line(problem.name)}  ({problem.format}, {one_line(problem.where)})")
    return 0


def show_powers(finished: Audit, folder: Path, output: Output) -> int:
    """Print what the problems' own inputs can tell; 0, or 3 where none could be measured."""
    from cuassay.report import audit_json
    from cuassay.report.terminal import audit as audit_terminal

    if output.json:
        emit_json(audit_json.document(finished) | {"run": str(folder)})
    else:
        found = list(audit_terminal.power_lines(finished))
        for line in found[1:2] or found if output.quiet else found:
            click.echo(line)
    for target in output.targets:
        if target.form == "html" and target.path is not None:
            _write_page(finished, target.path, quiet=output.quiet or output.json)
    return 0 if any(power.killed_theirs is not None for power in finished.powers) else 3


def _write_page(finished: Audit, path: Path, *, quiet: bool) -> None:
    """Write the one-file page; failing costs one message, never the audit."""
    from cuassay.report.html.audit import render
    from cuassay.store.files import write_atomically

    try:
        write_atomically(path, render(finished))
    except OSError as error:
        why = error.strerror or str(error)
        say(f"cuassay: --html {path} was not written: {why}; the audit stands")
        return
    if not quiet:
        say(f"html report: {path}")


def write_traces(finished: Audit, folder: Path, path: Path) -> None:
    """Write the verdicts as Traces, one a line, and say how many have none."""
    import json

    from cuassay.audit.traces import traces

    found = tuple(traces(finished, folder))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in found)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        say(f"cuassay: --traces {path} was not written: {error.strerror or error}")
        return
    left = len(finished.results) - len(found)
    rest = f"; {left} undecided or unmeasured have none" if left else ""
    say(f"{len(found)} traces: {path}{rest}")


def exit_code(finished: Audit) -> int:
    """Return 1 where a candidate is rejected, 0 where all are accepted, else 3."""
    codes = {EXIT_CODES[r.verdict] if r.verdict else 3 for r in finished.results}
    return 1 if 1 in codes else 3 if 3 in codes else 0
