"""`cuassay guard`: what the guards of this machine's processes have seen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from cuassay.cli.drive import emit_json
from cuassay.errors import UsageError
from cuassay_guard.cli.recertify import recertify

_COUNTS = ("violations", "fallbacks", "repaired", "dropped", "skipped", "undecided", "errors")
_ASSETS = Path(__file__).resolve().parents[1] / "assets"


@click.group("guard")
def guard() -> None:
    """Look after kernels that run under `cuassay.guard`."""


guard.add_command(recertify)


@guard.command("status")
@click.option("--folder", metavar="DIR", help="Where the status files are, if not at home.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def status(context: click.Context, *, folder: str | None, as_json: bool) -> None:
    """Show every guarded kernel of every process here."""
    documents = list(read_statuses(status_folder(folder)))
    if as_json:
        emit_json({"processes": documents})
    else:
        for line in _lines(documents):
            click.echo(line)
    guards = [one for document in documents for one in document["guards"]]
    context.exit(int(any(g["violations"] or g["state"] != "closed" for g in guards)))


@guard.command("export")
@click.argument("folder", metavar="DIR")
def export(*, folder: str) -> None:
    """Write the Grafana dashboard and the Prometheus alert rules into DIR."""
    target = Path(folder).expanduser()
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file, expected a folder")
    target.mkdir(parents=True, exist_ok=True)
    for name in ("grafana-dashboard.json", "alerts.yml"):
        (target / name).write_bytes((_ASSETS / name).read_bytes())
        click.echo(str(target / name))


def status_folder(folder: str | None) -> Path:
    """Return the folder of status files. Raises UsageError where a given one is none."""
    from cuassay.home import home

    if folder is not None:
        found = Path(folder).expanduser()
        if not found.is_dir():
            raise UsageError(f"--folder {found} is not a folder; expected one that exists")
        return found
    given = os.environ.get("CUASSAY_GUARD_STATUS", "")
    off = given.lower() in ("", "off", "0")
    return home() / "guard" / "status" if off else Path(given)


def read_statuses(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a folder, sorted by process; unreadable ones are left out."""
    files = sorted(folder.glob("*.json"), key=lambda file: file.name) if folder.is_dir() else []
    for file in files:
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            document["alive"] = _alive(int(document["pid"]))
            document["age_s"] = max(0.0, time.time() - float(document["unix_s"]))
            list(document["guards"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        yield document


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _lines(documents: list[dict[str, Any]]) -> Iterator[str]:
    from cuassay.report.clean import one_line

    if not documents:
        yield "No process with a guarded kernel has left a status here."
        return
    for document in documents:
        ended = "" if document["alive"] else ", ended without a word"
        yield one_line(
            f"{document['program']} (process {document['pid']}{ended}), "
            f"{document['age_s']:.0f} s ago"
        )
        for found in document["guards"]:
            counts = [
                f"{found[name]} {name}" for name in _COUNTS if found[name] or name == "violations"
            ]
            yield "  " + one_line(
                f"{found['name']} ({found['mode']}): {found['state']}, {found['calls']} calls, "
                f"{found['checked']} checked, {', '.join(counts)}"
            )
            last = found.get("last_violation")
            if last:
                yield "    " + one_line(f"last violation: {last['message']}")
                if last["capsule"]:
                    yield "    " + one_line(f"cuassay replay {last['capsule']}")
