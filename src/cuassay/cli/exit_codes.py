"""What the exit codes of every verb mean: the words of the helps and of the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

ACCEPTED, REJECTED, USAGE, UNDECIDED, INTERRUPTED = 0, 1, 2, 3, 130
_WRONG_CALL = "invalid arguments or files"
_JUDGED = {
    0: "accepted",
    1: "rejected",
    2: _WRONG_CALL,
    3: "could not be decided",
}
# By the words of the verb. 130 is an interruption everywhere; 3 is a fault of cuassay too.
EXIT_CODES: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "check": _JUDGED,
        "changed": {
            0: "all kernels accepted, or none is concerned",
            1: "at least one is rejected",
            2: "invalid arguments or a file that cannot be read",
            3: "none is rejected, and one could not be decided",
        },
        "audit": {
            0: "every candidate is accepted",
            1: "at least one is rejected",
            2: _WRONG_CALL,
            3: "none is rejected, and one could not be decided",
        },
        "report": {
            0: "written, whatever the verdicts are; with --diff: no kernel got worse",
            1: "with --diff: a kernel that was accepted is not any more",
            2: _WRONG_CALL,
        },
        "replay": {
            0: "the finding was not reproduced, or the file was exported",
            1: "the finding was reproduced",
            2: _WRONG_CALL,
            3: "the call could not be repeated",
        },
        "explain": {0: "explained", 2: "no such code"},
        "problem list": {0: "listed"},
        "problem show": {
            0: "shown",
            2: "no such problem, or one with a mistake in it",
            3: "the reference could not be run",
        },
        "problem power": {0: "measured", 2: _WRONG_CALL, 3: "could not be measured"},
        "run": {
            0: "nothing wrong; with --against: the same expressions",
            1: "a fault",
            2: _WRONG_CALL,
            3: "could not be executed; with --against: other expressions",
        },
        "prove": {
            0: "proved for all sizes",
            1: "refuted, by a size at which the fault shows",
            2: _WRONG_CALL,
            3: "neither",
        },
        "loop train": _JUDGED,
        "loop infer": _JUDGED,
        "loop blame": {
            0: "every kernel is cleared",
            1: "a kernel is at fault",
            2: _WRONG_CALL,
            3: "could not be decided",
        },
        "loop capture": {2: _WRONG_CALL, 3: "the program never called TARGET"},
        "guard status": {
            0: "all breakers are closed and nothing was found wrong",
            1: "a breaker is open or something was found wrong",
            2: _WRONG_CALL,
        },
        "guard recertify": {
            0: "all kernels accepted",
            1: "at least one is rejected",
            2: _WRONG_CALL,
            3: "none is rejected, and one could not be decided",
        },
        "guard export": {0: "written", 2: _WRONG_CALL},
        "certificate sign": {0: "written", 2: "invalid arguments, or the verdict is not ACCEPTED"},
        "certificate covers": {
            0: "the certificate covers the kernel",
            1: "it does not: a changed byte or flag, an unknown key, expired or revoked",
            2: _WRONG_CALL,
        },
        "certificate revoke": {0: "revoked", 2: _WRONG_CALL},
        "serve": {
            0: "ended with Ctrl+C, or the agent closed the connection",
            2: "invalid arguments, or it cannot listen",
        },
        "doctor": {0: "also where something is missing: no kernel needs everything"},
    }
)
_PROGRAMS_OWN = {"loop capture": "otherwise the program's own exit code; "}


def add_exit_codes(group: click.Group, *words: str) -> None:
    """Give every verb of a group its exit codes as the last lines of its help."""
    for name, command in group.commands.items():
        path = (*words, name)
        if isinstance(command, click.Group):
            add_exit_codes(command, *path)
        elif " ".join(path) in EXIT_CODES:
            command.epilog = sentence(" ".join(path))


def sentence(verb: str) -> str:
    """Return the exit codes of a verb in one sentence."""
    codes = "; ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES[verb].items())
    return f"Exit codes: {_PROGRAMS_OWN.get(verb, '')}{codes}."


def page() -> str:
    """Return the documentation's page of exit codes, as Markdown."""
    rows = "\n".join(
        f"| `{verb}` | {' | '.join(codes.get(code, '') for code in (0, 1, 2, 3))} |"
        for verb, codes in EXIT_CODES.items()
    )
    return (
        "# Exit codes\n\n"
        "Every verb ends with 0, 1, 2 or 3, and with 130 where somebody interrupts it (Ctrl+C). "
        "A fault of cuassay itself ends with 3 and a traceback. The exit code of `loop capture` is "
        "its program's, but for the codes below. `cuassay VERB --help` prints the same words.\n\n"
        f"| Verb | 0 | 1 | 2 | 3 |\n|---|---|---|---|---|\n{rows}\n"
    )
