"""The `cuassay` command: its verbs, and what happens when something is off.

A mistake of the user gives one message and exit code 2, a trial that cannot be carried out one
message and 3, an interruption one line and 130. A fault of cuassay gives a traceback, where to
report it, and 3. click's own `main` is not used: it ends with 1, which here means REJECTED,
when stdout is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise

import click

from cuassay import __version__
from cuassay.cli import exit_codes
from cuassay.cli.drive import require_home
from cuassay.cli.verbs.audit import audit
from cuassay.cli.verbs.changed import changed
from cuassay.cli.verbs.check import check
from cuassay.cli.verbs.doctor import doctor
from cuassay.cli.verbs.explain import explain
from cuassay.cli.verbs.problem import problem
from cuassay.cli.verbs.prove import prove
from cuassay.cli.verbs.replay import replay
from cuassay.cli.verbs.report import report
from cuassay.cli.verbs.run import run
from cuassay.cli.verbs.serve import serve
from cuassay.errors import BuildError, CuassayError, UsageError
from cuassay.parts import Part, find_part, is_installed

_PR_SET_DUMPABLE = 4
_UNWRITTEN = (errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT)
# Verbs of distributions that may be absent.
_PARTS = {
    "loop": Part.LOOP_VERB,
    "guard": Part.GUARD_VERB,
    "certificate": Part.CERTIFICATE_VERB,
}
_FOUND = {name: find_part(part) for name, part in _PARTS.items() if is_installed(part)}


_GROUPS: dict[str, tuple[click.Command, ...]] = {
    "Judge kernels": (check, changed, audit),
    "Look at results": (report, replay, explain),
    "Look at problems": (problem,),
    "Execute PTX on the CPU": (run, prove),
    "Training and inference loops": tuple(filter(None, (_FOUND.get("loop"),))),
    "Production": tuple(filter(None, (_FOUND.get("guard"), _FOUND.get("certificate")))),
    "Agents and this machine": (serve, doctor),
}


_WRITING = ("check", "changed", "audit", "replay", "run", "prove")
# Verbs of earlier versions, and what does the same.
_RENAMED = {
    "train": "loop train",
    "infer": "loop infer",
    "blame": "loop blame",
    "capture": "loop capture",
    "attest": "certificate sign",
    "covers": "certificate covers",
    "revoke": "certificate revoke",
    "view": "report RUN --open",
    "diff": "report NEW --diff OLD",
    "power": "problem power",
    "mcp": "serve --mcp",
}


class Grouped(click.Group):
    """A command whose help lists its verbs in groups, the common ones first."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb; where it is absent, say what does the same or what brings it."""
        if args and (now := _RENAMED.get(args[0])):
            raise UsageError(f"`cuassay {args[0]}` is now `cuassay {now}`")
        if args and args[0] in _PARTS and args[0] not in _FOUND:
            find_part(_PARTS[args[0]])  # raises the error that names what to install
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the help."""
        listed = [str(verb.name) for verbs in _GROUPS.values() for verb in verbs]
        return [*listed, *sorted(set(self.commands) - set(listed))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section a group."""
        grouped = {str(verb.name) for verbs in _GROUPS.values() for verb in verbs}
        rest = tuple(verb for name, verb in sorted(self.commands.items()) if name not in grouped)
        for title, verbs in (*_GROUPS.items(), ("More", rest)):
            rows = [(str(verb.name), verb.get_short_help_str(200)) for verb in verbs]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.group(
    cls=Grouped,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="cuassay", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Check a GPU kernel before you ship it.

    cuassay runs a kernel in a process of its own, compares it with a float64 truth on inputs
    drawn after the kernel is fixed, and names the cause of what is wrong.

    Exit codes: 0 accepted, 1 rejected, 2 invalid arguments or files, 3 could not be decided, 130
    interrupted. `cuassay VERB --help` has those of each verb.
    """
    if context.invoked_subcommand in _WRITING:
        require_home()


for _verb in (verb for verbs in _GROUPS.values() for verb in verbs):
    cli.add_command(_verb)
exit_codes.add_exit_codes(cli)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, 1, 2, 3 or 130."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        # Let no other process of this user read this one's memory: it knows seeds and keys.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    try:
        code = _run(given)
        sys.stdout.flush()
    except OSError as error:
        if error.errno not in _UNWRITTEN:
            raise
        # 3: a result that nobody could read is no result. stdout is pointed at nothing so that the
        # interpreter's own flush at exit cannot fail too.
        from cuassay.cli.sinks import say

        with contextlib.suppress(OSError, ValueError):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, sys.stdout.fileno())
            os.close(nothing)
        why = error.strerror or str(error)
        told = f"the result could not be written to stdout ({why})"
        if error.errno == errno.EPIPE:
            told = (
                "the reader of stdout closed it before the end; the run is kept: `cuassay report`"
            )
        with contextlib.suppress(OSError):
            say(f"cuassay: {told}")
        return 3
    return code


def _run(given: list[str]) -> int:
    try:
        with cli.make_context("cuassay", list(given)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        message = error.format_message()
        if (where := getattr(error, "ctx", None)) is not None:
            message += f" Try '{where.command_path} --help'."
        return _failed(message, kind="usage", code=2, given=given)
    except (KeyboardInterrupt, click.Abort):
        return _failed("interrupted: no verdict", kind="interrupted", code=130, given=given)
    except UsageError as error:
        return _failed(str(error), kind="usage", code=2, given=given)
    except CuassayError as error:
        log = f"\n{error.log}" if isinstance(error, BuildError) and error.log else ""
        return _failed(f"{error}{log}", kind="cannot_judge", code=3, given=given)
    except OSError as error:
        if error.errno in _UNWRITTEN:
            raise
        return _bug(error, given)
    except Exception as error:
        return _bug(error, given)
    return 0


def _failed(message: str, *, kind: str, code: int, given: list[str], trace: str = "") -> int:
    """Say once what is off; with --json also as a document on stdout."""
    from cuassay.cli.drive import emit_json
    from cuassay.cli.sinks import say

    if _asks(given, "agent"):
        from cuassay.report.agent import agent_error

        emit_json(agent_error(message, exit_code=code))
    if "--json" in given or _asks(given, "json"):
        from cuassay.report.json_report import error_document

        document = error_document(message, kind=kind, exit_code=code, traceback=trace)
        verdicts = given[:1] in (["check"], ["replay"])
        emit_json(document if verdicts else {k: document[k] for k in ("error", "exit_code")})
    say(f"cuassay: {message}")
    return code


def _asks(given: list[str], form: str) -> bool:
    """Whether the words of a call, as far as they can be read, want `form` on stdout."""
    return f"--format={form}" in given or ("--format", form) in pairwise(given)


def _bug(error: Exception, given: list[str]) -> int:
    from cuassay.cli.drive import BUG_REPORT
    from cuassay.cli.sinks import say

    trace = "".join(traceback.format_exception(error))
    say(trace.rstrip())
    what = f"{type(error).__name__}: {error}"
    code = _failed(what, kind="internal", code=3, given=given, trace=trace)
    say(BUG_REPORT)
    return code
