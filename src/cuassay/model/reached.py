"""Which code of a candidate ran in judged calls: what its process says, unproven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]  # line from 1, column from 0 in bytes of UTF-8
Branch = tuple[int, int, int, int, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Instructions of the candidate's Python files that ran, by file.

    `places` are where they begin in the text. `branches` are the place of a test, that of what came
    after it, and whether the function ended there. `calls` counts the calls that were followed;
    `lost` says that something in the process ended that.
    """

    places: Mapping[str, frozenset[Place]] = field(default_factory=dict)
    branches: Mapping[str, frozenset[Branch]] = field(default_factory=dict)
    calls: int = 0
    lost: bool = False

    def __or__(self, other: Reached) -> Reached:
        """Return what ran in the calls of both."""
        none: frozenset[Place] = frozenset()
        no_branch: frozenset[Branch] = frozenset()
        return Reached(
            places={
                file: self.places.get(file, none) | other.places.get(file, none)
                for file in {**self.places, **other.places}
            },
            branches={
                file: self.branches.get(file, no_branch) | other.branches.get(file, no_branch)
                for file in {**self.branches, **other.branches}
            },
            calls=self.calls + other.calls,
            lost=self.lost or other.lost,
        )


def read_reached(found: object) -> Reached:
    """Return what a process says of one call that was followed; nothing of what is malformed."""
    places: dict[str, frozenset[Place]] = {}
    branches: dict[str, frozenset[Branch]] = {}
    try:
        for file, of_file in dict(found["files"]).items():  # type: ignore[index]
            places[str(file)] = frozenset((int(line), int(at)) for line, at in of_file["at"])
            branches[str(file)] = frozenset(
                (int(line), int(at), int(to_line), int(to), bool(ends))
                for line, at, to_line, to, ends in of_file["branches"]
            )
        lost = bool(found["lost"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return Reached()
    return Reached(places=places, branches=branches, calls=1, lost=lost)
