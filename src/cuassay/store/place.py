"""What a user's argument names: an existing path, perhaps with a function, or a plain name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A user's argument taken apart: an existing path, and `:function` or `::function`."""

    path: Path
    suffix: str = ""

    def __str__(self) -> str:
        return f"{self.path}{self.suffix}"


def working_folder() -> str | None:
    """Return the folder that relative paths start from; None where it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return None


def locate(where: str) -> Place | None:
    """Return the existing path that `where` names, or None for a name that is no path.

    No relative path names anything while the working folder is a deleted one.
    """
    if not where or (working_folder() is None and not os.path.isabs(os.path.expanduser(where))):
        return None
    whole = Path(where).expanduser()
    if whole.exists():
        return Place(path=whole.absolute())
    # What follows two colons may hold one of its own: a tactic is named by anything.
    for head, colons, tail in (where.partition("::"), where.rpartition(":")):
        file = Path(head).expanduser()
        if colons and head and file.exists():
            return Place(path=file.absolute(), suffix=f"{colons}{tail}")
    return None


def absolute(where: str) -> str:
    """Return `where` with its path made absolute; names that are no path come back as given."""
    place = locate(where)
    return str(place) if place else where
