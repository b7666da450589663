"""From a tree or a list to problems, candidates and what was passed over."""

from __future__ import annotations

from pathlib import Path

from cuassay.audit.candidates import candidates_in
from cuassay.audit.found import Tree
from cuassay.audit.lists import SUFFIXES, read_list
from cuassay.audit.pair import Pairing
from cuassay.audit.problems import problems_in
from cuassay.audit.walk import walk
from cuassay.errors import UsageError
from cuassay.model.audit import Oddity

_FORMS = (
    "Give a folder with problems and candidates in any supported format, or a list (.csv, "
    ".jsonl) with the columns problem and candidate."
)


def discover(where: str) -> Tree:
    """Return everything that the tree or list `where` holds; nothing of it is executed.

    Raises UsageError where there is nothing at `where`, or it holds neither a problem nor a
    candidate.
    """
    path = Path(where).expanduser().absolute()
    if path.is_file():
        if path.suffix not in SUFFIXES:
            raise UsageError(f"{where} is a file of no list's kind. {_FORMS}")
        found = read_list(path)
    elif path.is_dir():
        oddities: list[Oddity] = []
        folders = tuple(walk(path, oddities))
        problems = tuple(problems_in(folders, oddities))
        files = {file for problem in problems for file in problem.files}
        places = {problem.folder for problem in problems}
        places |= {problem.files[0].parent for problem in problems if problem.files}
        candidates = candidates_in(
            folders, problem_folders=places, problem_files=files, oddities=oddities
        )
        pairs = Pairing(problems).pair(candidates, oddities)
        used = {pair.problem.where for pair in pairs}
        oddities += [
            Oddity(path=problem.where, message=f"problem '{problem.name}' has no candidate")
            for problem in problems
            if problem.where not in used
        ]
        found = Tree(problems=problems, pairs=pairs, oddities=tuple(oddities))
    else:
        raise UsageError(f"{where} does not exist: expected a tree or a list. {_FORMS}")
    if not found.problems and not found.pairs and not found.oddities:
        raise UsageError(f"{where} holds neither a problem nor a candidate. {_FORMS}")
    return found
