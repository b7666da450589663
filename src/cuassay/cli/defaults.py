"""What a repository states once for every `cuassay check`: `[tool.cuassay]` in pyproject.toml.

    [tool.cuassay]
    profile = "quick"
    problem = "problems/ours.py"           # as --problem takes it; a path is relative to the file
    require = ["layouts", "streams"]

An option of the command goes before these. `[tool.cuassay.kernels]` says which kernel belongs to
which problem (`manifest`), and goes before `problem`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuassay.cli import manifest
from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.verdict import Profile

_FILE = "pyproject.toml"
_KEYS = ("kernels", "problem", "profile", "require")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What the nearest file says, each empty where it says nothing; `path` is that file."""

    path: Path | None = None
    profile: str = ""
    problem: str = ""
    require: str = ""


def read_defaults(candidate: str) -> Defaults:
    """Return what holds for a candidate here: of the file in this folder or the nearest one above.

    The search begins where the command is given, since whoever wrote the kernel may have written
    the files beside it too, and ends at the repository's root. Raises UsageError for a file that
    cannot be read, an unknown key or a value of another type.
    """
    kernel, here = Path(candidate.partition("::")[0]).expanduser().absolute(), Path.cwd()
    for folder in (here, *here.parents):
        path = folder / _FILE
        if path.is_file() and (table := _table(path)) is not None:
            for key in table:
                if key not in _KEYS:
                    raise UnknownNameError(f"key of [tool.cuassay] in {path}", key, _KEYS)
            profile, legal = _text(path, table, "profile"), [one.value for one in Profile]
            if profile and profile not in legal:
                raise UnknownNameError(f"profile of [tool.cuassay] in {path}", profile, legal)
            require = table.get("require", [])
            names = [require] if isinstance(require, str) else require
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise UsageError(
                    f'{path}: require = {require!r}; expected a list of texts: ["layouts"]'
                )
            problem = _text(path, table, "problem")
            if problem and (path.parent / problem.partition(":")[0]).exists():
                problem = str(path.parent / problem)
            listed = None
            if "kernels" in table:
                listed = manifest.read_manifest(path, path.parent).problem_of(kernel)
            return Defaults(
                path=path, profile=profile, problem=listed or problem, require=",".join(names)
            )
        if (folder / ".git").exists():
            break
    return Defaults()


def _table(path: Path) -> dict[str, Any] | None:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("cuassay")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.cuassay is a {type(table).__name__}, expected a table")
    return table


def _text(path: Path, table: dict[str, Any], key: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{path}: {key} = {value!r}; expected a text")
    return value
