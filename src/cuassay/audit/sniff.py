"""What a file is, from a look at its text: nothing is executed, and nothing is validated.

A file that is broken where a candidate is expected is still a candidate: its trial says what
is wrong with it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_HEAD_BYTES = 256 * 1024
_JSON_BYTES = 64 * 2**20
_NATIVE = re.compile(r"^@(?:\w+\.)*problem\(", re.MULTILINE)
_KERNELBENCH = re.compile(r"^class Model\(", re.MULTILINE)
_KERNELBENCH_NEW = re.compile(r"^class ModelNew\(", re.MULTILINE)
_GET_INPUTS = re.compile(r"^def get_inputs\(", re.MULTILINE)
_AUTHOR = re.compile(r"^(?:#|//)\s*(?:author|model)\s*:\s*(\S[^\n]*?)\s*$", re.MULTILINE | re.I)
_POPCORN = re.compile(r"^(?:#|//)!POPCORN\s+leaderboard\s+(\S+)", re.MULTILINE)


def head(path: Path) -> str:
    """Return the beginning of a text file. Raises OSError."""
    with path.open("rb") as file:
        return file.read(_HEAD_BYTES).decode(errors="replace")


def is_native_problem(text: str) -> bool:
    """Whether Python source holds a function decorated with `@problem(...)`."""
    return _NATIVE.search(text) is not None


def is_kernelbench_problem(text: str) -> bool:
    """Whether Python source is a KernelBench reference: a Model and get_inputs."""
    return bool(_KERNELBENCH.search(text) and _GET_INPUTS.search(text))


def is_kernelbench_candidate(text: str) -> bool:
    """Whether Python source defines KernelBench's ModelNew."""
    return _KERNELBENCH_NEW.search(text) is not None


def author_in(text: str) -> str:
    """Return what a comment such as `# author: NAME` or `# model: NAME` says at the top."""
    found = _AUTHOR.search(text[:2000])
    return found.group(1)[:120] if found else ""


def leaderboard_in(text: str) -> str:
    """Return the leaderboard that a GPU MODE submission names in its header."""
    found = _POPCORN.search(text[:4000])
    return found.group(1) if found else ""


def json_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object of a file; None where it holds anything else.

    Raises OSError where the file cannot be read, ValueError where it is not valid JSON.
    """
    if path.stat().st_size > _JSON_BYTES:
        return None
    try:
        data = json.loads(path.read_bytes())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return data if isinstance(data, dict) else None


def is_definition(data: dict[str, Any]) -> bool:
    """Whether a JSON object looks like a problem's definition."""
    return {"name", "inputs", "outputs"} <= data.keys() and "sources" not in data


def is_solution(data: dict[str, Any]) -> bool:
    """Whether a JSON object looks like a solution."""
    return {"spec", "sources"} <= data.keys()


def text_of(data: dict[str, Any], key: str) -> str:
    """Return the text under `key`, or nothing."""
    value = data.get(key)
    return value if isinstance(value, str) else ""
