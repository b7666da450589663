"""`cuassay loop capture`: run a program and record the calls of one of its functions or modules."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from cuassay.cli.sinks import say
from cuassay.errors import UsageError


@click.command("capture", context_settings={"ignore_unknown_options": True})
@click.argument("target")
@click.argument("program", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option("--out", required=True, metavar="FOLDER", help="Where the calls are kept.")
@click.option(
    "--calls", type=click.IntRange(1), default=8, show_default=True, help="Most calls to keep."
)
@click.pass_context
def capture(
    context: click.Context, *, target: str, program: tuple[str, ...], out: str, calls: int
) -> None:
    """Record calls of TARGET (MODULE:NAME) while PROGRAM (SCRIPT.py ARGUMENTS...) runs.

    Give the folder to `cuassay check --recorded`, or put it beside a problem's file as
    `recorded`: its tensors are then tried as inputs.
    """
    words = [word for i, word in enumerate(program) if not (i == 0 and word == "--")]
    script = Path(words[0]) if words else Path()
    if script.suffix != ".py" or not script.is_file():
        raise UsageError(
            f"'{words[0] if words else ''}' is no Python script; expected "
            "cuassay loop capture MODULE:NAME --out FOLDER -- SCRIPT.py ARGUMENTS..."
        )
    context.exit(_run(target, words, Path(out).expanduser().absolute(), calls))


def _run(target: str, words: list[str], out: Path, calls: int) -> int:
    """Run the script as `python SCRIPT` would, in this process."""
    import runpy

    from cuassay.capture import LIST, recording

    before = len(_lines(out / LIST))
    sys.path.insert(0, str(Path(words[0]).absolute().parent))
    sys.argv = list(words)
    code = 0
    with recording(target, out, calls=calls):
        try:
            runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    kept = len(_lines(out / LIST)) - before
    if not kept:
        say(
            f"cuassay: {words[0]} made no call of {target} that could be recorded; name the "
            "function in the module where the program looks it up"
        )
        return code or 3
    calls_are = "call of {} is" if kept == 1 else "calls of {} are"
    say(f"{kept} {calls_are.format(target)} kept in {os.path.relpath(out)}")
    return code


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()
    except OSError:
        return []
