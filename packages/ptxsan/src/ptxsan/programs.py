"""A whole CUDA program in the machine: its host code runs, every launch is checked."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptxsan.errors import UsageError


def run_whole(
    path: Path, arguments: Sequence[str], *, flags: Sequence[str], as_json: bool, limit_s: float,
    error_code: int,
) -> int:  # fmt: skip
    """Run a program, print what was found and return the command's exit code."""
    if path.suffix != ".cu" or importlib.util.find_spec("ptxsan.host") is None:
        raise UsageError(
            "--grid is missing; expected --grid BLOCKS --block THREADS, such as --grid 4 "
            "--block 256 (see ptxsan run --help)"
        )
    program: Any = importlib.import_module("ptxsan.host.program")
    defines = [one[2:] for one in flags if one.startswith("-D")]
    folders = [Path(one[2:]) for one in flags if one.startswith("-I")]
    report = program.run_program(
        [path], arguments, defines=defines, folders=folders, launch_limit_s=limit_s
    )
    if as_json:
        print(json.dumps(_document(report), indent=2))  # noqa: T201
    else:
        print(_text(report))  # noqa: T201
    if report.wrong:
        return error_code
    return 3 if report.not_covered or report.timed_out else int(report.status)


def _document(report: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "status": report.status,
        "output": report.output,
        "timed_out": report.timed_out,
        "launches": [
            {"kernel": one.kernel, "grid": one.grid, "block": one.block,
             "findings": one.findings, "inconclusive": one.inconclusive or None}
            for one in report.launches
        ],
    }  # fmt: skip


def _text(report: Any) -> str:
    bar = "========= "
    lines = [report.output.rstrip("\n"), f"{bar}PTXSAN"]
    for launch in report.launches:
        for one in launch.findings:
            head = "" if one["severity"] == "wrong" else "Note: "
            lines += [f"{bar}{head}{one['kind']} in {launch.kernel}", f"{bar}    {one['text']}"]
            lines += [f"{bar}    {place}" for place in _places(one)]
        if launch.inconclusive:
            lines.append(f"{bar}{launch.kernel} was not executed: {launch.inconclusive}")
    lines.append(f"{bar}{len(report.launches)} launches, exit status {report.status}")
    count = len(report.wrong)
    lines.append(f"{bar}ERROR SUMMARY: {count} error{'' if count == 1 else 's'}")
    return "\n".join(lines)


def _places(one: dict[str, Any]) -> list[str]:
    found = []
    for access in one.get("accesses", ())[:2]:
        line = access.get("line") or access.get("source_line")
        if line:
            file = access.get("file") or access.get("source_file")
            found.append(f"{access.get('what', '')} at {file}:{line}")
    return found
