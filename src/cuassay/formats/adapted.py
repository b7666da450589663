"""A candidate of a foreign format: the user's file beside an entry file that adapts its calls."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cuassay.errors import CandidateError
from cuassay.formats import signature
from cuassay.model.candidate import Candidate, Language, SourceFile

ENTRY = "cuassay_entry.py"


def require(name: str, text: str, file: Path, *, expected: str) -> None:
    """Raise CandidateError where a file's text binds no `name` at its top level.

    Text that does not parse passes: the build reports it, as the candidate's fault.
    """
    try:
        defined = name in signature.bound_names(signature.syntax_tree(text, str(file)))
    except SyntaxError:
        return
    if not defined:
        raise CandidateError(f"{file} defines no '{name}': expected {expected}")


def module_name(file: Path, *, otherwise: str) -> str:
    """Return the name under which the entry file imports the user's file."""
    return file.stem if file.stem.isidentifier() and file.name != ENTRY else otherwise


def adapted_candidate(
    file: Path, text: str, *, name: str, module: str, entry: str, helpers: Sequence[SourceFile] = ()
) -> Candidate:
    """Return the candidate whose `run` stands in the entry file's text `entry`."""
    return Candidate(
        name=name,
        sources=(
            SourceFile(path=ENTRY, text=entry),
            SourceFile(path=f"{module}.py", text=text),
            *helpers,
        ),
        entry_file=ENTRY,
        entry_function="run",
        language=Language.PYTHON,
        origin=file.absolute(),
        adapter=ENTRY,
    )
