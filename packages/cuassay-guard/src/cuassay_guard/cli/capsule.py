"""Replay a guard's capsule in a process of its own and say what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import cuassay
from cuassay.cli.drive import emit_json
from cuassay.errors import CannotJudgeError, UsageError


def replay_capsule(
    where: str,
    *,
    kernel: str | None,
    device: str | None,
    as_json: bool,
    quiet: bool,
    formatted: bool,
) -> int:
    """Replay a capsule, print the outcome, return 0 or 1.

    Raises UsageError where the call or the file is off, CannotJudgeError where it cannot be
    replayed.
    """
    if formatted:
        raise UsageError("a capsule is reported on the terminal or with --json alone")
    if not Path(where).is_file():
        raise UsageError(f"there is no capsule at {where}")
    options = {"capsule": where, "kernel": kernel or "", "device": device, "shrink": True}
    own, gate = Path(__file__).resolve().parents[2], Path(cuassay.__file__).resolve().parents[1]
    paths = [
        str(own),
        str(gate),
        os.getcwd(),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "CUASSAY_GUARD": "off",
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cuassay_guard.capsules.replay", json.dumps(options)],
        env=environment,
        capture_output=True,
        check=False,
    )
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise CannotJudgeError(
            f"the replay's process ended with code {done.returncode}: {''.join(tail)}"
        ) from None
    if "error" in document:
        raise (UsageError if document["exit_code"] == 2 else CannotJudgeError)(document["error"])
    if as_json:
        emit_json(document)
    else:
        from cuassay.report.clean import one_line

        lines = list(_lines(document))
        for line in lines[-1:] if quiet else lines:
            click.echo(one_line(line, limit=2000))
    return int(document["exit_code"])


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield f"capsule: {document['capsule']}"
    yield f"recorded: {document['recorded']}"
    if "recorded_outputs" in document:
        yield f"its outputs: {_judged(document['recorded_outputs'])}"
    if not document["kernel_found"]:
        yield "kernel: not found here; give --kernel FILE.py:FUNCTION to call it again"
    if "shrunk" in document:
        pairs = zip(document["shapes"], document["shrunk_shapes"], strict=True)
        sizes = ", ".join(f"{before} to {after}" for before, after in pairs)
        yield f"smaller: {sizes}, in {document['tries']} tries: {document['shrunk']}"
    runs = document["runs"]
    if document["shows"]:
        now = f": {_judged(document['now'])}" if "now" in document else ""
        yield f"It shows again (call {runs}){now}" if runs else "The recorded call is wrong."
    else:
        yield document.get("why") or f"It does not show again in {runs} calls."


def _judged(found: Mapping[str, Any]) -> str:
    if found["passes"]:
        return found.get("undecided") or f"within their budget ({found['share']:.0%} used)"
    return (
        f"{found['output']}, {found['group']}: {found['statistic']} is {found['measured']:.3g}, "
        f"allowed {found['allowed']:.3g}"
    )
