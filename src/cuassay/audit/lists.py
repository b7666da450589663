"""Lists of candidates: CSV with a header, or JSONL; columns problem, candidate, author, family."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuassay.audit.found import CandidatePair, FoundCandidate, FoundProblem, Tree
from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.audit import Oddity

SUFFIXES = (".csv", ".jsonl", ".ndjson")
_NEEDED = ("problem", "candidate")
_KNOWN = (*_NEEDED, "name", "author", "model", "family")
_FOLDER_FILES = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".json", ".jsonl", ".toml", ".yml")


def read_list(path: Path) -> Tree:
    """Return the pairs that a list names, each a line; relative paths start at its folder.

    A line that cannot be used becomes an oddity and the others go on. Raises UsageError where
    the file cannot be read or its columns are not those of a list.
    """
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"the list {path} cannot be read: {error.strerror or error}") from None
    oddities: list[Oddity] = []
    rows = _csv_rows(path, text) if path.suffix == ".csv" else _json_rows(path, text, oddities)
    problems: dict[str, FoundProblem] = {}
    pairs = []
    for number, row in rows:
        missing = [name for name in _NEEDED if not row.get(name, "").strip()]
        if missing:
            place = f"{path}: line {number}"
            oddities.append(Oddity(path=place, message=f"names no {missing[0]}: passed over"))
            continue
        where = _located(row["problem"].strip(), path.parent)
        at = Path(where.rpartition(":")[0] if ".py:" in where else where)
        problem = problems.setdefault(
            where,
            FoundProblem(
                where=where,
                name=at.stem if at.suffix else Path(where).name,
                folder=at.parent if at.suffix else at,
                format="list",
                files=_files(at),
            ),
        )
        kernel = _located(row["candidate"].strip(), path.parent)
        file = Path(kernel.partition("::")[0])
        candidate = FoundCandidate(
            where=kernel,
            name=row.get("name", "").strip() or file.stem,
            folder=file.parent,
            files=_files(file),
            author=(row.get("author") or row.get("model") or "").strip(),
        )
        family = row.get("family", "").strip()
        pairs.append(CandidatePair(problem=problem, candidate=candidate, family=family))
    return Tree(problems=tuple(problems.values()), pairs=tuple(pairs), oddities=tuple(oddities))


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(io.StringIO(text))
    header = [name.strip() for name in reader.fieldnames or ()]
    for name in _NEEDED:
        if name not in header:
            raise UnknownNameError(
                f"header of the list {path}: it has no column", name, header,
                hint=f"A list has the columns {', '.join(_KNOWN)}; the first two are needed.",
            )  # fmt: skip
    for row in reader:
        yield (
            reader.line_num,
            {key.strip(): value for key, value in row.items() if key and isinstance(value, str)},
        )


def _json_rows(
    path: Path, text: str, oddities: list[Oddity]
) -> Iterator[tuple[int, Mapping[str, str]]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            message = f"not valid JSON ({error}): passed over"
            oddities.append(Oddity(path=f"{path}: line {number}", message=message))
            continue
        if not isinstance(row, dict):
            message = "no JSON object: passed over"
            oddities.append(Oddity(path=f"{path}: line {number}", message=message))
            continue
        yield number, {str(k): v for k, v in row.items() if isinstance(v, str)}


def _located(where: str, folder: Path) -> str:
    """Return an existing path made absolute; a catalogue name or module:function as it is."""
    place, colon, function = where.rpartition(":")
    if colon and place.endswith(".py"):
        return f"{(folder / Path(place).expanduser()).absolute()}:{function}"
    path = folder / Path(where).expanduser()
    looks_like_path = "/" in where or path.suffix in (".py", ".cu", ".json", ".jsonl")
    return str(path.absolute()) if looks_like_path or path.exists() else where


def _files(place: Path) -> tuple[Path, ...]:
    if place.is_file():
        return (place,)
    if not place.is_dir():
        return ()
    found = (p for p in sorted(place.rglob("*")) if p.suffix in _FOLDER_FILES and p.is_file())
    return tuple(found)
