"""The candidates of a tree, told by where they stand and what they hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from cuassay.audit import sniff
from cuassay.audit.found import FoundCandidate
from cuassay.audit.problems import CANDIDATE_FOLDERS
from cuassay.audit.walk import Folder
from cuassay.beneath import is_beneath
from cuassay.model.audit import Oddity

_WHOLE = ("solution.json", "kernel.py", "kernel.cu")
_SOURCES = (".py", ".cu")
_SHIPPED = (".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".cxx", ".c", ".toml", ".json")
_BESIDE = re.compile(r"(kernel|submission|solution)")
_PLAIN = ("kernel", "submission", "solution", "main")
_SNIFFED_BYTES = 4 * 2**20  # of JSON files that stand nowhere in particular
_GENERATED = re.compile(r"level_?(\d+)_problem_?(\d+)")
_NOT_CANDIDATES = frozenset(
    {"definition.json", "config.json", "package.json", "metadata.json", "reference.py",
     "problem.py", "task.py", "utils.py", "eval.py", "template.py", "__init__.py", "setup.py"}
)  # fmt: skip


def candidates_in(
    folders: Sequence[Folder],
    *,
    problem_folders: Collection[Path],
    problem_files: Collection[Path],
    oddities: list[Oddity],
) -> Iterator[FoundCandidate]:
    """Yield every candidate of the folders.

    A folder below a problem with solution.json, kernel.py or kernel.cu is one candidate; so
    is each source in a folder called candidates, solutions or submissions, and each kernel*,
    submission* or solution* file beside a problem. Solutions, ModelNew files and submissions
    with a leaderboard line are candidates wherever they stand.
    """
    whole: set[Path] = set()
    for folder in folders:
        if any(parent in whole for parent in folder.path.parents):
            continue
        files = () if folder.names[-1:] and folder.names[-1] in CANDIDATE_FOLDERS else _WHOLE
        entry = next((folder.files[name] for name in files if name in folder.files), None)
        if folder.path not in problem_folders and entry is not None:
            whole.add(folder.path)
            claim, name, author = _told_by(entry)
            inside = [path for path in sorted(folder.path.rglob("*")) if path.suffix in _SHIPPED]
            yield FoundCandidate(
                where=str(folder.path),
                name=name or folder.path.name,
                folder=folder.path.parent,
                files=tuple(path for path in inside if is_beneath(folder.path, path)),
                author=author or _author_by_place(folder.names),
                claims=claim,
            )
            continue
        # Whether each file here is a candidate: candidates/ itself, or candidates/AUTHOR/.
        placed = not CANDIDATE_FOLDERS.isdisjoint(folder.names[-2:])
        for name, path in folder.files.items():
            if path in problem_files or name in _NOT_CANDIDATES or name.startswith("_"):
                continue
            beside = folder.path in problem_folders and _BESIDE.match(name) is not None
            yield from _file(folder, path, expected=placed or beside, oddities=oddities)


def _file(
    folder: Folder, path: Path, *, expected: bool, oddities: list[Oddity]
) -> Iterator[FoundCandidate]:
    if path.suffix == ".json":
        if path.name.endswith(".launch.json"):
            return
        if not expected and not _may_be_solution(path):
            return
    elif path.suffix not in _SOURCES or (not expected and not _told_candidate(path, oddities)):
        return
    claim, name, author = _told_by(path)
    if path.suffix != ".cu":
        launch_files = []
    else:
        launch_files = [p for p in path.parent.glob(f"{path.stem}.launch.*") if p.is_file()]
    # A file's name; for kernel.py and the like with that of its folder
    inside = path.parent.name not in CANDIDATE_FOLDERS
    yield FoundCandidate(
        where=str(path),
        name=name
        or (f"{path.parent.name}/{path.stem}" if path.stem in _PLAIN and inside else path.stem),
        folder=path.parent,
        files=(path, *launch_files),
        author=author or _author_by_place((*folder.names, path.name)),
        claims=claim,
    )


def _may_be_solution(path: Path) -> bool:
    try:
        if path.stat().st_size > _SNIFFED_BYTES:
            return False
        data = sniff.json_object(path)
    except (OSError, ValueError):
        return path.name.startswith("solution")
    return data is not None and sniff.is_solution(data)


def _told_candidate(path: Path, oddities: list[Oddity]) -> bool:
    try:
        text = sniff.head(path)
    except OSError as error:
        oddities.append(Oddity(path=str(path), message=f"cannot be read: {error.strerror}"))
        return False
    return sniff.is_kernelbench_candidate(text) or bool(sniff.leaderboard_in(text))


def _told_by(path: Path) -> tuple[str, str, str]:
    """Return the problem, the name and the author that a candidate's file names, if any."""
    try:
        if path.suffix == ".json":
            data = sniff.json_object(path) or {}
            keys = ("definition", "name", "author")
            claim, name, author = (sniff.text_of(data, key) for key in keys)
            return claim, name, author
        text = sniff.head(path)
    except (OSError, ValueError):
        return "", "", ""  # its trial says what is wrong with it
    claim = sniff.leaderboard_in(text)
    if not claim and sniff.is_kernelbench_candidate(text):
        generated = _GENERATED.search(path.stem)
        if generated:
            claim = f"level_{generated.group(1)}_problem_{generated.group(2)}"
        else:
            level = path.parent.name.lower()
            claim = f"{level}/{path.stem}" if re.fullmatch(r"level\d+", level) else ""
    return claim, "", sniff.author_in(text)


def _author_by_place(names: Sequence[str]) -> str:
    """Return AUTHOR of candidates/AUTHOR/..., where that is a folder, from names below the root."""
    for i in range(len(names) - 3, -1, -1):
        if names[i] in CANDIDATE_FOLDERS:
            return names[i + 1]
    return ""
