"""Which problem a candidate is for: the one that it names, else the one where it stands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from cuassay.audit.found import CandidatePair, FoundCandidate, FoundProblem
from cuassay.errors import suggestion
from cuassay.model.audit import Oddity


class Pairing:
    """The problems of a tree by name and by place."""

    def __init__(self, problems: Sequence[FoundProblem]) -> None:
        self._by_name: dict[str, list[FoundProblem]] = {}
        self._by_folder: dict[Path, list[FoundProblem]] = {}
        for problem in problems:
            for name in dict.fromkeys((problem.name, *problem.aliases)):
                self._by_name.setdefault(name, []).append(problem)
            file = problem.files[0].parent if problem.files else problem.folder
            for folder in dict.fromkeys((problem.folder, file)):
                self._by_folder.setdefault(folder, []).append(problem)

    def pair(
        self, candidates: Iterable[FoundCandidate], oddities: list[Oddity]
    ) -> tuple[CandidatePair, ...]:
        """Return each candidate with its problem; one without goes to `oddities`."""
        pairs = []
        for candidate in candidates:
            # The one problem of the nearest folder above that has any.
            owner = None
            for folder in (candidate.folder, *candidate.folder.parents):
                found = self._by_folder.get(folder)
                if found:
                    owner = found[0] if len(found) == 1 else None
                    break
            if candidate.claims:
                named = self._by_name.get(candidate.claims, [])
                placed = owner in named or (owner is not None and not named)
                problem = owner if placed else _nearest(named, candidate)
            else:
                called = self._by_name.get(Path(candidate.where).stem, [])
                problem = owner or _nearest(called, candidate)
            if problem is None:
                oddities.append(Oddity(path=candidate.where, message=self._why(candidate)))
            else:
                pairs.append(CandidatePair(problem=problem, candidate=candidate))
        return tuple(pairs)

    def _why(self, candidate: FoundCandidate) -> str:
        if candidate.claims in self._by_name:
            count = len(self._by_name[candidate.claims])
            return f"is for '{candidate.claims}', which {count} problems of the tree are called"
        if candidate.claims:
            near = suggestion(candidate.claims, self._by_name)
            return f"is for '{candidate.claims}', which the tree does not hold" + (
                f"; {near}" if near else ""
            )
        return (
            "names no problem and stands beside none; put it into its problem's folder or into "
            "candidates/ there, or give the pair in a list"
        )


def _nearest(problems: Sequence[FoundProblem], candidate: FoundCandidate) -> FoundProblem | None:
    """Return the problem whose folder shares most of its path with the candidate's."""
    if len(problems) <= 1:
        return problems[0] if problems else None

    def shared(problem: FoundProblem) -> int:
        return len(Path(os.path.commonpath((problem.folder, candidate.folder))).parts)

    ordered = sorted(problems, key=shared, reverse=True)
    return ordered[0] if shared(ordered[0]) > shared(ordered[1]) else None
