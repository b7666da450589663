"""The lines that a candidate's process names, as far as they are lines of the candidate.

What is compiled under a name of its own, `compile(text, "/etc/x", "exec")`, has that name in every
frame. A finding points to the candidate's files and to no other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from cuassay.model.candidate import SourceFile
from cuassay.model.trace import StepRaised, StepRecord


def own_lines(
    frames: Iterable[tuple[str, int]], sources: Sequence[SourceFile]
) -> tuple[tuple[str, int], ...]:
    """Return the frames in files of the candidate, by their paths there, in the same order."""
    lengths = {one.path: one.text.count("\n") + 1 for one in sources}
    names: dict[str, str] = {}
    for path in reversed(lengths):
        names[PurePosixPath(path).name] = path
    found = []
    for file, line in frames:
        path = file if file in lengths else names.get(file, "")
        if path and 1 <= line <= lengths[path]:
            found.append((path, line))
    return tuple(found)


def with_own_lines(
    records: Iterable[StepRecord], sources: Sequence[SourceFile]
) -> tuple[StepRecord, ...]:
    """Return the records, whose exceptions name lines of the candidate alone."""
    return tuple(
        dataclasses.replace(one, frames=own_lines(one.frames, sources))
        if isinstance(one, StepRaised) and one.frames
        else one
        for one in records
    )
