"""How far a kernel came, in six words: what a program that is trained may hear of a trial.

A stage tells neither inputs nor seeds, nor limits, nor which sizes or values failed, nor by how
much: a policy that learns from it can fit itself to nothing but the operator.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from pathlib import Path

from cuassay.formats.callables import kept_folder
from cuassay.model.digest import sha256_fields
from cuassay.verifier import Result, Status

_BLOCK = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_BUILD = "BUILD001"
_NUMBERS = "NUM001"  # plain calls, at the problem's own and other sizes
_ENDS = "RUN"  # codes of a kernel that raised, crashed, hung or printed without end


class Stage(enum.StrEnum):
    """How far a kernel came, from nothing to accepted."""

    NOTHING = "nothing"  # no kernel, or none that can be read
    NOT_BUILT = "not-built"  # its source does not compile or cannot be imported
    WRONG = "wrong"  # it runs, and plain calls are wrong, or end without an answer
    FRAGILE = "fragile"  # plain calls are right, and something else is not
    UNDECIDED = "undecided"  # no decision: it took too long, or the machine lacks something
    ACCEPTED = "accepted"


def stage_of(result: Result) -> Stage:
    """Return how far the kernel of a verification came."""
    match result.status:
        case Status.ACCEPTED:
            return Stage.ACCEPTED
        case Status.INCONCLUSIVE:
            return Stage.UNDECIDED
        case Status.INVALID:
            return Stage.NOTHING
        case Status.REJECTED:
            codes = {finding.code for finding in result.wrong}
            if _BUILD in codes:
                return Stage.NOT_BUILT
            plain = _NUMBERS in codes or any(code.startswith(_ENDS) for code in codes)
            return Stage.WRONG if plain else Stage.FRAGILE


def kernel_in(reply: str) -> str:
    """Return the source in a reply: its last fenced block, nothing where there is none."""
    found = _BLOCK.findall(reply)
    return str(found[-1]).strip() + "\n" if found else ""


def kept_source(name: str, text: str) -> Path:
    """Return the place of a file with this text, in a folder of its own among the runs."""
    return kept_files("source", {name: text.encode(errors="replace")}) / name


def kept_files(kind: str, files: Mapping[str, bytes]) -> Path:
    """Return a folder among the runs with these files, named by `kind` and by what they hold."""
    digest = sha256_fields(*(part for file in files.items() for part in file))
    return kept_folder(f"{kind}-{digest[:32]}", files)
