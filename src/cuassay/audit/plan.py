"""The plan of an audit: which pairs are judged, what identifies them, in which order."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuassay import __version__
from cuassay.audit.family import operator_family
from cuassay.audit.found import CandidatePair, FoundProblem, Tree
from cuassay.errors import UnknownNameError
from cuassay.model.audit import AuditItem, Oddity
from cuassay.model.digest import sha256_fields

_READ_WHOLE_BYTES = 64 * 2**20  # larger files (stored tensors) are known by size and time
_ID_CHARACTERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedCandidates:
    """Which candidates of a tree are wanted; empty means all.

    `only` are patterns (fnmatch) for the names of problems and candidates and their paths.
    """

    only: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    limit: int | None = None

    def words(self) -> tuple[str, ...]:
        """Return the choice as words of the command line."""
        chosen = [f"--only {pattern}" for pattern in self.only]
        chosen += [f"--family {name}" for name in self.families]
        chosen += [f"--author {name}" for name in self.authors]
        return (*chosen, *([f"--limit {self.limit}"] if self.limit is not None else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One item with the files that another machine needs to judge it.

    `problem_key` is the SHA-256 of everything read for its problem.
    """

    item: AuditItem
    files: tuple[Path, ...]
    problem_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an audit will do: the chosen items in the tree's order, and what it passes over."""

    planned: tuple[Planned, ...]
    oddities: tuple[Oddity, ...]
    left_out: int = 0  # pairs that the choice did not want

    @property
    def items(self) -> tuple[AuditItem, ...]:
        """The items alone."""
        return tuple(planned.item for planned in self.planned)


def make_plan(
    tree: Tree, choice: WantedCandidates, *, root: str, judged_as: Mapping[str, str]
) -> Plan:
    """Return the plan for a tree.

    `judged_as` is what else a verdict depends on (profile, version...); it is part of every key.
    Raises UnknownNameError where a wanted family or author is not in the tree.
    """
    reader = _Reader(judged_as)
    base = Path(root).expanduser().absolute()
    oddities = list(tree.oddities)
    planned = []
    for pair in tree.pairs:
        problem, candidate = pair.problem, pair.candidate
        places = _relative(problem.where, base), _relative(candidate.where, base)
        item = AuditItem(
            id=sha256_fields("cuassay/audit-id/1", *places)[:_ID_CHARACTERS],
            problem=problem.where,
            candidate=candidate.where,
            problem_name=problem.name,
            candidate_name=candidate.name,
            key=reader.key(pair, base),
            author=candidate.author,
            family=pair.family
            or operator_family(
                problem.name, op_type=problem.op_type, description=problem.description
            ),
            format=problem.format,
        )
        files = (*problem.files, *candidate.files)
        planned.append(Planned(item=item, files=files, problem_key=reader.problem_key(pair, base)))
    # Leave out pairs that stand twice; tell candidates of one name apart by their files
    once = {one.item.id: one for one in planned}
    if len(once) < len(planned):
        count = len(planned) - len(once)
        oddities.append(Oddity(path="", message=f"{count} pairs stand twice: judged once"))
    names = Counter((one.item.problem_name, one.item.candidate_name) for one in once.values())
    found = []
    for one in once.values():
        item = one.item
        if names[item.problem_name, item.candidate_name] > 1:
            place = Path(item.candidate)
            told = f"{item.candidate_name} ({place.parent.name}/{place.name})"
            oddities.append(
                Oddity(
                    path=item.candidate,
                    message=f"several candidates of '{item.problem_name}' are called "
                    f"'{item.candidate_name}'; this one is shown as '{told}'",
                )
            )
            one = replace(one, item=replace(item, candidate_name=told))
        found.append(one)
    planned = found
    items = [one.item for one in planned]
    _check_known("family", choice.families, (item.family for item in items))
    _check_known("author", choice.authors, (item.author for item in items))
    wanted = [one for one in planned if _wanted(one.item, choice)]
    kept = wanted if choice.limit is None else wanted[: choice.limit]
    return Plan(planned=tuple(kept), oddities=tuple(oddities), left_out=len(planned) - len(kept))


def wanted_problems(tree: Tree, choice: WantedCandidates) -> tuple[FoundProblem, ...]:
    """Return the problems that the choice wants, each once; authors do not matter to them."""
    found: dict[str, FoundProblem] = {}
    for problem in tree.problems:
        family = operator_family(
            problem.name, op_type=problem.op_type, description=problem.description
        )
        texts = (problem.name, problem.where)
        patterns = choice.only or ("*",)
        named = any(fnmatch.fnmatch(text, pattern) for text in texts for pattern in patterns)
        if named and (not choice.families or family in choice.families):
            found.setdefault(problem.where, problem)
    return tuple(found.values())[: choice.limit]


def problem_key(problem: FoundProblem, *, root: str, salt: str) -> str:
    """Return the SHA-256 of everything read for a problem alone, and of `salt`."""
    base = Path(root).expanduser().absolute()
    parts = [salt, __version__, _relative(problem.where, base)]
    for path in problem.files:
        parts += [_relative(str(path), base), _content(path)]
    return sha256_fields("cuassay/audit-problem/1", *parts)


class _Reader:
    """Hashes files, each once: a problem's are shared by its candidates."""

    def __init__(self, judged_as: Mapping[str, str]) -> None:
        self._common = [part for pair in sorted(judged_as.items()) for part in pair]
        self._seen: dict[Path, str] = {}

    def key(self, pair: CandidatePair, base: Path) -> str:
        where = (_relative(pair.problem.where, base), _relative(pair.candidate.where, base))
        parts = self._read((*pair.problem.files, *pair.candidate.files), base)
        return sha256_fields("cuassay/audit-item/1", *self._common, *where, *parts)

    def problem_key(self, pair: CandidatePair, base: Path) -> str:
        where = _relative(pair.problem.where, base)
        parts = self._read(pair.problem.files, base)
        return sha256_fields("cuassay/audit-problem-of/1", *self._common, where, *parts)

    def _read(self, files: Sequence[Path], base: Path) -> Iterator[str]:
        for path in files:
            if path not in self._seen:
                self._seen[path] = _content(path)
            yield _relative(str(path), base)
            yield self._seen[path]


def _content(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_size > _READ_WHOLE_BYTES:
            return f"{status.st_size} bytes of {status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"  # its trial says so


def _relative(where: str, base: Path) -> str:
    """Return a path below `base` relative to it: a tree that was moved keeps its keys."""
    return os.path.relpath(where, base) if where.startswith(str(base)) else where


def _wanted(item: AuditItem, choice: WantedCandidates) -> bool:
    texts = (item.problem_name, item.candidate_name, item.problem, item.candidate)
    return (
        (not choice.families or item.family in choice.families)
        and (not choice.authors or item.author in choice.authors)
        and (
            not choice.only
            or any(fnmatch.fnmatch(text, pattern) for text in texts for pattern in choice.only)
        )
    )


def _check_known(kind: str, wanted: Sequence[str], legal: Iterable[str]) -> None:
    known = sorted(set(legal))
    for name in wanted:
        if name not in known:
            raise UnknownNameError(f"{kind} in this tree", name, known)
