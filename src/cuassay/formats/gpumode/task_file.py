"""task.yml of GPU MODE: which files a task has and which arguments its tests give."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuassay.errors import ProblemError
from cuassay.formats.textfile import read_text
from cuassay.formats.yaml_file import read_yaml
from cuassay.model.problem import Tolerance

_SUBMISSION = "@SUBMISSION@"
_NOT_SHIPPED = frozenset({"reference.py", "eval.py", "submission.py", "template.py"})
_MATCH = re.compile(r"make_match_reference\(.*?\)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A task: its reference's text, its other modules by name, and its tests' arguments.

    `places` are the files of those modules, which may lie in other tasks' folders.
    """

    name: str
    folder: Path
    reference: str
    files: Mapping[str, str]
    places: Mapping[str, Path]
    tests: tuple[Mapping[str, Any], ...]
    benchmarks: tuple[Mapping[str, Any], ...]
    description: str


def read_task(folder: Path) -> TaskFile:
    """Return the task of a folder. Raises ProblemError, MissingToolError without PyYAML."""
    file = next((folder / n for n in ("task.yml", "task.yaml") if (folder / n).is_file()), None)
    if file is None:
        raise ProblemError(f"{folder} has no task.yml; give the folder of a GPU MODE task")
    data = read_yaml(file, expected="files and tests")
    entries = data.get("files")
    if not isinstance(entries, list):
        raise ProblemError(f"{file}: 'files' is missing; expected a list of name and source")
    places = {}
    for entry in entries:
        name, source = str(entry.get("name", "")), str(entry.get("source", ""))
        if source == _SUBMISSION or not name.endswith(".py") or name == "eval.py":
            continue
        places[name] = file.parent / source
    files = {name: read_text(place, ProblemError) for name, place in places.items()}
    reference = files.pop("reference.py", None)
    if reference is None:
        raise ProblemError(f"{file}: files: there is no reference.py; add it: it is the operator")
    return TaskFile(
        name=folder.name,
        folder=folder,
        reference=on_any_device(reference),
        files={n.removesuffix(".py"): on_any_device(t) for n, t in _helpers(files).items()},
        places={name.removesuffix(".py"): place for name, place in places.items()},
        tests=tuple(_cases(data, "tests", file)),
        benchmarks=tuple(_cases(data, "benchmarks", file)),
        description=str(data.get("description", "")).strip(),
    )


def tolerance(reference: str) -> Tolerance:
    """Return the tolerance that make_match_reference(...) is given, else its own default."""
    found = _MATCH.search(reference)
    given = {"rtol": 1e-5, "atol": 1e-8}
    if found is not None:
        try:
            call = ast.parse(found.group(0), mode="eval").body
        except SyntaxError:
            call = None
        if isinstance(call, ast.Call):
            for word in call.keywords:
                if word.arg in given and isinstance(word.value, ast.Constant):
                    given[word.arg] = float(word.value.value)  # type: ignore[arg-type]
    return Tolerance(
        atol=given["atol"], rtol=given["rtol"], required_matched_ratio=1.0, origin="GPU MODE"
    )


def on_any_device(text: str) -> str:
    """Return source in which "cuda" and `.cuda()` ask the adapter for the judge's device.

    Lines keep their numbers. Source that is no Python comes back as it is.
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    lines = text.splitlines(keepends=True)

    def put(written: str, first: tokenize.TokenInfo, last: tokenize.TokenInfo) -> None:
        line = lines[first.start[0] - 1]
        lines[first.start[0] - 1] = line[: first.start[1]] + written + line[last.end[1] :]

    for place in reversed(range(len(tokens))):
        token, after = tokens[place], tokens[place + 1 : place + 3]
        if token.type == tokenize.STRING and token.string.strip("'\"") in ("cuda", "cuda:0"):
            put("_cuassay_device()", token, token)
        called = place > 0 and tokens[place - 1].string == "." and after[0].string == "("
        if token.string == "cuda" and called and after[1].start[0] == token.start[0]:
            empty = after[1].string == ")"
            put(f"to(_cuassay_device(){'' if empty else ', '}", token, after[0])
    return "".join(lines)


def _helpers(files: Mapping[str, str]) -> dict[str, str]:
    """Return the shipped modules, those that others import first."""
    kept = {name: text for name, text in files.items() if name not in _NOT_SHIPPED}
    imported = " ".join(kept.values())

    def needed(name: str) -> bool:
        module = re.escape(name.removesuffix(".py"))
        return re.search(rf"\b(from|import)\s+{module}\b", imported) is not None

    return dict(sorted(kept.items(), key=lambda pair: not needed(pair[0])))


def _cases(data: Mapping[str, Any], key: str, file: Path) -> list[Mapping[str, Any]]:
    cases = data.get(key) or []
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise ProblemError(f"{file}: '{key}' is no list of arguments; expected such as size: 128")
    return cases
