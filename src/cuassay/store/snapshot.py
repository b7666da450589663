"""Keep a copy of what was judged, so that a finding replays after the files have moved on.

A folder is copied whole (without caches, hidden entries and big files); a JSON or JSON-lines
file brings its neighbours, since such definitions are read together; any other file is copied
alone. Names that are no path (a catalogue entry, `module:function`) need no copy.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_FILE_LIMIT_BYTES = 8 * 2**20
_TOTAL_LIMIT_BYTES = 64 * 2**20
_COUNT_LIMIT = 500
_SOURCES = frozenset({".py", ".cu", ".cuh", ".cpp", ".cc", ".c", ".h", ".hpp", ".json", ".jsonl"})
_TABLE = "snapshot.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A user's argument taken apart: an existing path, and `:function` or `::function`."""

    path: Path
    suffix: str = ""

    def __str__(self) -> str:
        return f"{self.path}{self.suffix}"


def locate(where: str) -> Place | None:
    """Return the existing path that `where` names, or None for a name that is no path."""
    if not where:
        return None
    whole = Path(where).expanduser()
    if whole.exists():
        return Place(path=whole.absolute())
    head, colon, tail = where.rpartition(":")
    file = Path(head.removesuffix(":")).expanduser()
    if colon and head and file.is_file():
        suffix = f"::{tail}" if head.endswith(":") else f":{tail}"
        return Place(path=file.absolute(), suffix=suffix)
    return None


def absolute(where: str) -> str:
    """Return `where` with its path made absolute; names that are no path come back as given."""
    place = locate(where)
    return str(place) if place else where


def keep(where: str, folder: Path) -> None:
    """Copy what `where` names into `folder`, with a table of what it was. Raises OSError.

    Anything beyond the limits is left out and listed under "left_out".
    """
    place = locate(where)
    if place is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    base = place.path if place.path.is_dir() else place.path.parent
    digests: dict[str, str] = {}
    left_out: list[str] = []
    total_bytes = 0
    for file in _files(place.path):
        name = file.relative_to(base).as_posix()
        size = file.stat().st_size
        full = len(digests) >= _COUNT_LIMIT or total_bytes + size > _TOTAL_LIMIT_BYTES
        if full or size > _FILE_LIMIT_BYTES:
            left_out.append(name)
            continue
        total_bytes += size
        target = folder / "files" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        digests[name] = _sha256(target)
    table = {
        "original": str(place.path),
        "kept": "files" if place.path.is_dir() else f"files/{place.path.name}",
        "suffix": place.suffix,
        "sha256": digests,
        "left_out": left_out[:50],
    }
    (folder / _TABLE).write_text(json.dumps(table, indent=1))


def restore(folder: Path) -> Path | None:
    """Return the copy kept in `folder`, or None where the original is still the same.

    None also where nothing was kept. The original is preferred since files that it reads
    from elsewhere are found only from there.
    """
    try:
        table = json.loads((folder / _TABLE).read_text())
        original, digests = Path(table["original"]), dict(table["sha256"])
        kept, suffix = str(table["kept"]), str(table["suffix"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if unchanged(original, digests) or not (folder / kept).exists():
        return None
    return Path(f"{folder / kept}{suffix}")


def unchanged(original: Path, digests: Mapping[str, str]) -> bool:
    """Return whether every kept file still has the same bytes at its original place."""
    base = original if original.is_dir() else original.parent
    try:
        return original.exists() and all(
            _sha256(base / name) == digest for name, digest in digests.items()
        )
    except OSError:
        return False


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        if path.suffix in (".json", ".jsonl"):
            neighbours = (p for p in sorted(path.parent.iterdir()) if p != path)
            yield from (p for p in neighbours if p.suffix in _SOURCES and p.is_file())
        return
    for root, folders, names in os.walk(path):
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n != "__pycache__")
        for name in sorted(names):
            file = Path(root) / name
            if not name.startswith(".") and file.is_file():
                yield file


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
