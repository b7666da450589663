"""What a tree was found to hold: problems and candidates, before they are paired."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cuassay.model.audit import Oddity


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProblem:
    """A problem as `cuassay check --problem` takes it. `folder` is where its candidates belong.

    `files` is everything that its reading depends on. `aliases` are other names by which
    candidates refer to it.
    """

    where: str
    name: str
    folder: Path
    format: str
    files: tuple[Path, ...]
    op_type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCandidate:
    """A candidate as `cuassay check` takes it. `claims` is the problem that it names, if any."""

    where: str
    name: str
    folder: Path
    files: tuple[Path, ...]
    author: str = ""
    claims: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatePair:
    """A candidate with the problem that it is judged against."""

    problem: FoundProblem
    candidate: FoundCandidate
    family: str = ""  # where a list names it


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Everything found in a tree or a list."""

    problems: tuple[FoundProblem, ...]
    pairs: tuple[CandidatePair, ...]
    oddities: tuple[Oddity, ...]
