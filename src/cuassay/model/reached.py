"""Which code of a candidate ran in judged calls: what its process says, unproven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]  # line from 1, column from 0 in bytes of UTF-8
Branch = tuple[int, int, int, int, bool]
Span = tuple[int, int, int, int]  # line and column, last line and the column after the end
_VALUES = 2  # of an expression: more say no more


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Instructions of the candidate's Python files that ran, by file.

    `places` are where they begin in the text. `branches` are the place of a test, that of what came
    after it, and whether the function ended there. `values` are what expressions came to, at most
    two each: a number as text; of a mask `true` and `false`, of another tensor `zeros`, and `some`
    where not all of it is. `terms` are the parts of sums and the factors: whether one ever
    mattered, as more than a thousandth of what it was added to, as a factor that far from 1, or
    as the larger or smaller of two that was chosen.
    `calls` counts the calls that were followed;
    `lost` says that something in the process ended that.
    """

    places: Mapping[str, frozenset[Place]] = field(default_factory=dict)
    branches: Mapping[str, frozenset[Branch]] = field(default_factory=dict)
    values: Mapping[str, Mapping[Span, frozenset[str]]] = field(default_factory=dict)
    terms: Mapping[str, Mapping[Span, bool]] = field(default_factory=dict)
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
            values={
                file: _united(self.values.get(file, {}), other.values.get(file, {}))
                for file in {**self.values, **other.values}
            },
            terms={
                file: {
                    span: self.terms.get(file, {}).get(span, False)
                    or other.terms.get(file, {}).get(span, False)
                    for span in {**self.terms.get(file, {}), **other.terms.get(file, {})}
                }
                for file in {**self.terms, **other.terms}
            },
            calls=self.calls + other.calls,
            lost=self.lost or other.lost,
        )


def _united(
    some: Mapping[Span, frozenset[str]], others: Mapping[Span, frozenset[str]]
) -> Mapping[Span, frozenset[str]]:
    """Return the values of both."""
    none: frozenset[str] = frozenset()
    return {
        span: frozenset(sorted(some.get(span, none) | others.get(span, none))[:_VALUES])
        for span in {**some, **others}
    }


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
        values = {
            str(file): {
                (int(line), int(at), int(last), int(end)): frozenset(map(str, said[:_VALUES]))
                for line, at, last, end, *said in spans
            }
            for file, spans in dict(found.get("values", {})).items()  # type: ignore[attr-defined]
        }
        terms = {
            str(file): {
                (int(line), int(at), int(last), int(end)): bool(felt)
                for line, at, last, end, felt in spans
            }
            for file, spans in dict(found.get("terms", {})).items()  # type: ignore[attr-defined]
        }
        lost = bool(found["lost"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return Reached()
    return Reached(places=places, branches=branches, values=values, terms=terms, calls=1, lost=lost)
