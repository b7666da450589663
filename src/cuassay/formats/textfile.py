"""Read the text and JSON files that users hand over; every failure is one clear message."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from cuassay.beneath import LeavesError, open_beneath
from cuassay.errors import UsageError

SOURCE_LIMIT_BYTES = 8 * 2**20  # a hand-written or generated source file is far smaller
_SHOWN = 3  # messages of one file
JSON_LIMIT_BYTES = 128 * 2**20  # workload files with thousands of lines stay below


def read_text(path: Path, error: type[UsageError], *, limit_bytes: int = SOURCE_LIMIT_BYTES) -> str:
    """Return the UTF-8 text of `path`; raises `error` where it is missing, huge or binary."""
    try:
        if not path.is_file():
            what = "is a device or a pipe" if path.exists() else "does not exist"
            if path.is_dir():
                what = "is a folder"
            raise error(f"{path} {what}: expected a readable file; check the path")
        size = path.stat().st_size
        if size > limit_bytes:
            raise error(
                f"{path} has {size} bytes, expected at most {limit_bytes}: "
                "this does not look like the file that was meant; check the path"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as failure:  # ValueError: a null byte in the path
        raise error(f"{path} cannot be read: {failure}; check its permissions") from None
    return _decode(data, path, error)


def read_beneath(
    folder: Path, relative: str, error: type[UsageError], *, limit_bytes: int = SOURCE_LIMIT_BYTES
) -> str:
    """Return the UTF-8 text of a file below a candidate's folder, out of which no link leads.

    Raises `error` where one does, and where the file is missing, huge or binary.
    """
    path = folder / relative
    try:
        descriptor = open_beneath(folder, relative)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            what = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
            raise error(f"{path} is {what}: expected a readable file; check the path")
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(limit_bytes + 1)
    except LeavesError:
        raise error(
            f"{path} is a link that leads out of the candidate's folder, expected files inside of "
            "it alone; put a copy of the file there"
        ) from None
    except (OSError, ValueError) as failure:  # ValueError: a null byte in the path
        raise error(f"{path} cannot be read: {failure}; check its permissions") from None
    if len(data) > limit_bytes:
        raise error(
            f"{path} has more than {limit_bytes} bytes: this does not look like the file that was "
            "meant; check the path"
        )
    return _decode(data, path, error)


def listing(folder: Path) -> str:
    """Return what a folder holds, in words, the first few names of it."""
    names = sorted(entry.name for entry in folder.iterdir())
    return f"it holds: {', '.join(names[:8]) or 'nothing'}{', ...' if len(names) > 8 else ''}"


def _decode(data: bytes, path: Path, error: type[UsageError]) -> str:
    if b"\0" in data:
        raise error(
            f"{path} is a binary file (a null byte at offset {data.index(0)}), expected UTF-8 text"
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise error(
            f"{path} is not UTF-8 text (byte {data[failure.start]:#04x} at offset "
            f"{failure.start}); save it as UTF-8"
        ) from None


class _Repeated(ValueError):
    """A key that stands twice in one JSON object: Python would keep the last silently."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _Repeated(f"the key '{twice}' stands twice in one object; keep one of them")
    return result


def parse_json(
    text: str, *, where: str, error: type[UsageError], first_line: int = 1
) -> dict[str, Any]:
    """Return the JSON object in `text`; `where` and `first_line` place it for messages."""
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as failure:
        line = failure.lineno + first_line - 1
        snippet = failure.doc[failure.pos : failure.pos + 20].splitlines()
        near = f" (near {snippet[0]!r})" if snippet and snippet[0] else " (at its end)"
        raise error(
            f"{where}: line {line}, column {failure.colno}: not valid JSON: {failure.msg}"
            f"{near}; correct it there"
        ) from None
    except RecursionError:
        raise error(f"{where}: line {first_line}: JSON is nested too deeply") from None
    except ValueError as failure:  # a repeated key, or an integer of thousands of digits
        raise error(f"{where}: line {first_line}: {failure}") from None
    if not isinstance(value, dict):
        raise error(
            f"{where}: line {first_line}: expected a JSON object {{...}}, got {json_kind(value)}"
        )
    return value


def json_kind(value: object) -> str:
    """Return what a JSON value is, in JSON's words, with the value where it is short."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            return f"the string {_short(json.dumps(value))}"
        case int() | float():
            return f"the number {_short(repr(value))}"
        case _:  # dates and times, which TOML has
            return f"the {type(value).__name__} {_short(str(value))}"


def _short(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def fail_all(error: type[UsageError], messages: Iterable[str]) -> NoReturn:
    """Raise `error` with the first few of `messages`, one a line, and how many more there are."""
    listed = list(messages)
    more = len(listed) - _SHOWN
    tail = [f"... and {more} more like these"] if more > 0 else []
    raise error("\n".join([*listed[:_SHOWN], *tail]))
