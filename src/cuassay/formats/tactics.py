"""A kernel held to one of its tactics, and a kernel that lists them.

A tactic is one of several ways in which a kernel may compute a call: a configuration of a Triton
autotuner, a tactic of a FlashInfer runner, a configuration of a Helion kernel, or what the
kernel's own `tactics` lists. The candidate's file stays as it is; an entry file beside it
imports it and takes one tactic in every call (see `tactics_beside`, which travels along as text).
`FILE::FUNCTION@TACTIC` names such a candidate.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import PurePosixPath

from cuassay.errors import CandidateError
from cuassay.model.candidate import TACTIC, Candidate, Convention, Language, SourceFile

_BESIDE = "cuassay_tactics.py"
_ENTRY = "cuassay_tactic_entry.py"
_PINNED = '''"""{name}, held to one tactic."""

import cuassay_tactics
import {module} as _kernel

run = cuassay_tactics.pinned(_kernel.{function}, {tactic!r})
'''
_LISTING = '''"""The tactics of {name}."""

import cuassay_tactics
import {module} as _kernel

run = cuassay_tactics.listing(_kernel.{function})
'''


def pinned(candidate: Candidate, tactic: str) -> Candidate:
    """Return the candidate that takes `tactic` in every call. Raises CandidateError."""
    made = _beside(candidate, _PINNED, tactic)
    return replace(made, name=f"{candidate.name}{TACTIC}{tactic}")


def listing(candidate: Candidate) -> Candidate:
    """Return a candidate that is called with the inputs and returns its tactics' names.

    It returns JSON as uint8 [bytes]: `kind`, `static` (whether they are the same for every call)
    and `names`. Raises CandidateError.
    """
    return replace(_beside(candidate, _LISTING, ""), convention=Convention.RETURNS)


def _beside(candidate: Candidate, text: str, tactic: str) -> Candidate:
    from cuassay.formats import tactics_beside

    entry = PurePosixPath(candidate.entry_file)
    if candidate.language is not Language.PYTHON:
        raise CandidateError(
            f"'{candidate.name}' is {candidate.language.value}, and only Python kernels have "
            "tactics; call it from a .py file whose function takes `tactic=`"
        )
    if len(entry.parts) > 1 or not entry.stem.isidentifier():
        raise CandidateError(
            f"the entry file '{entry}' cannot be imported by its name; name it such as kernel.py, "
            "at the top of its folder"
        )
    written = text.format(
        name=candidate.name,
        module=entry.stem,
        function=candidate.entry_function,
        tactic=tactic,
    )
    return replace(
        candidate,
        sources=(
            SourceFile(path=_ENTRY, text=written),
            *candidate.sources,
            SourceFile(path=_BESIDE, text=inspect.getsource(tactics_beside)),
        ),
        entry_file=_ENTRY,
        entry_function="run",
    )
