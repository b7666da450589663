"""Which code of a candidate ran in judged calls: what its process says, unproven."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]  # line from 1, column from 0 in bytes of UTF-8
Branch = tuple[int, int, int, int, bool]
HostPlace = tuple[int, int, bool]  # line, number of a branch or -1 for all of it, whether it ran
Span = tuple[int, int, int, int]  # line and column, last line and the column after the end
_VALUES = 2  # of an expression: more say no more


class Instead(enum.StrEnum):
    """What may take the place of what an expression comes to."""

    ZERO = "zero"
    TRUE = "true"
    FALSE = "false"
    FIRST = "0"  # its first operand
    SECOND = "1"
    THIRD = "2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A part of a candidate's code in a call, and what takes the place of what it comes to."""

    file: str
    span: Span
    instead: Instead

    @property
    def told(self) -> list[str | int]:
        """What a process is told of it."""
        return [self.file, *self.span, self.instead.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoiled:
    """A tensor that calls keep and that other inputs change, with other numbers in a call.

    `number` counts them; None: the tensors that are kept after the call are those to compare with.
    """

    number: int | None = None

    @property
    def told(self) -> list[str | int]:
        """What a process is told of it."""
        return ["", -1 if self.number is None else self.number]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorExchange:
    """An operation of torch that an extension's C++ calls, and what takes the place of its result.

    Without a `site` all operations of the call are noted.
    """

    site: str = ""
    instead: Instead = Instead.ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operation of torch that an extension's C++ calls, and what may take its result's place.

    `site` names it from call to call; `file` and `line` are of the C++, empty where nobody knows.
    """

    site: str
    file: str
    line: int
    instead: tuple[Instead, ...]

    @property
    def told(self) -> dict[str, str | int | list[str]]:
        """What a process says of it."""
        instead = [one.value for one in self.instead]
        return {"site": self.site, "file": self.file, "line": self.line, "instead": instead}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Instructions of the candidate's Python files that ran, by file.

    `places` are where they begin in the text. `branches` are the place of a test, that of what came
    after it, and whether the function ended there. `values` are what expressions came to, at most
    two each: a number as text; of a mask `true` and `false`, of another tensor `zeros`, or
    its number and `everywhere` where all of it is one. `parts` are expressions with what may take
    the place of what they come to, `kept` those that came to a tensor which an earlier call had
    left and which was spoiled. `traced` is the file and line of what a compiler traces, where for
    that no values are noted. `calls` counts the calls that were followed;
    `lost` says that something in the process ended that. `picked` says of a minimum, a maximum, a
    remainder or a bit operation of integers which of its operands it came to, by place; `other`
    where it came to neither. `host` are lines and branches of an extension's C++, in functions that
    ran, by the name that its compiler has of the file, `operators` operations that it calls.
    """

    places: Mapping[str, frozenset[Place]] = field(default_factory=dict)
    branches: Mapping[str, frozenset[Branch]] = field(default_factory=dict)
    values: Mapping[str, Mapping[Span, frozenset[str]]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[Span, frozenset[Instead]]] = field(default_factory=dict)
    kept: Mapping[str, frozenset[Span]] = field(default_factory=dict)
    picked: Mapping[str, Mapping[Span, frozenset[str]]] = field(default_factory=dict)
    host: Mapping[str, frozenset[HostPlace]] = field(default_factory=dict)
    operators: frozenset[Operator] = frozenset()
    traced: tuple[str, int] | None = None
    calls: int = 0
    lost: bool = False

    def __or__(self, other: Reached) -> Reached:
        """Return what ran in the calls of both."""
        none: frozenset[Place] = frozenset()
        no_branch: frozenset[Branch] = frozenset()
        nothing: frozenset[Instead] = frozenset()
        spans: frozenset[Span] = frozenset()
        no_host: frozenset[HostPlace] = frozenset()
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
            parts={
                file: {
                    span: self.parts.get(file, {}).get(span, nothing)
                    | other.parts.get(file, {}).get(span, nothing)
                    for span in {**self.parts.get(file, {}), **other.parts.get(file, {})}
                }
                for file in {**self.parts, **other.parts}
            },
            kept={
                file: self.kept.get(file, spans) | other.kept.get(file, spans)
                for file in {**self.kept, **other.kept}
            },
            picked={
                file: _united(self.picked.get(file, {}), other.picked.get(file, {}))
                for file in {**self.picked, **other.picked}
            },
            host={
                file: self.host.get(file, no_host) | other.host.get(file, no_host)
                for file in {**self.host, **other.host}
            },
            operators=self.operators | other.operators,
            traced=self.traced or other.traced,
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
        values, picked = (
            {
                str(file): {
                    (int(line), int(at), int(last), int(end)): frozenset(map(str, said[:_VALUES]))
                    for line, at, last, end, *said in spans
                }
                for file, spans in dict(found.get(name, {})).items()  # type: ignore[attr-defined]
            }
            for name in ("values", "picked")
        )
        parts = {
            str(file): {
                (int(line), int(at), int(last), int(end)): frozenset(map(Instead, said))
                for line, at, last, end, *said in spans
            }
            for file, spans in dict(found.get("parts", {})).items()  # type: ignore[attr-defined]
        }
        kept = {
            str(file): frozenset(
                (int(line), int(at), int(last), int(end)) for line, at, last, end in spans
            )
            for file, spans in dict(found.get("kept", {})).items()  # type: ignore[attr-defined]
        }
        host = {
            str(file): frozenset((int(line), int(at), bool(ran)) for line, at, ran in places_of)
            for file, places_of in dict(found.get("host", {})).items()  # type: ignore[attr-defined]
        }
        operators = frozenset(
            Operator(
                site=str(one["site"]),
                file=str(one["file"]),
                line=int(one["line"]),
                instead=tuple(map(Instead, one["instead"])),
            )
            for one in found.get("operators", ())  # type: ignore[attr-defined]
        )
        traced = tuple(found.get("traced", ()))  # type: ignore[attr-defined]
        lost = bool(found["lost"])  # type: ignore[index]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        return Reached()
    return Reached(
        places=places,
        branches=branches,
        values=values,
        parts=parts,
        kept=kept,
        picked=picked,
        host=host,
        operators=operators,
        traced=(str(traced[0]), int(traced[1])) if len(traced) == 2 else None,
        calls=1,
        lost=lost,
    )
