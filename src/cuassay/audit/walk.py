"""The folders of a tree and the files in them; what cannot be read is said and passed over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cuassay.model.audit import Oddity

_SKIPPED = frozenset({"__pycache__", "node_modules", "blob", "traces"})
# The marks of cuassay's own folders: an audit inside its tree must not audit itself.
_OWN = ("plan.ndjson", "events.ndjson")


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder: its path, its files by name, and its sub-folders by name.

    `names` are those of the folders that lead to it, below the tree's root: what the root itself
    is called, or stands in, tells nothing.
    """

    path: Path
    names: tuple[str, ...] = ()
    files: dict[str, Path] = field(default_factory=dict)
    folders: tuple[str, ...] = ()


def walk(root: Path, oddities: list[Oddity]) -> Iterator[Folder]:
    """Yield `root` and the folders below it, sorted, parents first.

    Hidden folders, caches and cuassay's own run folders are left out; linked folders are not
    entered, so that no circle can be. What cannot be listed is added to `oddities`.
    """
    pending = [root]
    while pending:
        path = pending.pop()
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError as error:
            oddities.append(_oddity(path, error))
            continue
        files: dict[str, Path] = {}
        folders: list[str] = []
        for entry in entries:
            if entry.name.startswith("."):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file():
                    files[entry.name] = Path(entry.path)
                elif entry.is_symlink() and not entry.is_dir():
                    oddities.append(Oddity(path=entry.path, message="a link to nothing"))
            except OSError as error:
                oddities.append(_oddity(Path(entry.path), error))
        if any(name in files for name in _OWN):
            continue
        names = path.relative_to(root).parts
        yield Folder(path=path, names=names, files=files, folders=tuple(folders))
        entered = [name for name in folders if name not in _SKIPPED]
        pending.extend(path / name for name in reversed(entered))


def _oddity(path: Path, error: OSError) -> Oddity:
    return Oddity(path=str(path), message=f"cannot be read: {error.strerror or error}")
