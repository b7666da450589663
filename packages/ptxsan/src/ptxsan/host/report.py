"""What is said of a program's launches and its host, written row by row as it is found.

The program may end at any time. What nobody may have asked for yet, an error of a call, is written
as such, and `standing` says what of it holds at the program's end.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ptxsan.findings import Access, Kind, MachineFinding, Severity
from ptxsan.host.journal import Deed, Place


@dataclass(slots=True)
class Report:
    """The rows of one program's report, in a file."""

    path: Path
    _said: set[tuple[Any, ...]] = field(default_factory=set)
    _unseen: int = 0  # how many errors nobody has asked for yet
    _refused: str = ""  # why CUDA refused the launch that the next error is of

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        with self.path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")

    def say(self, one: MachineFinding, *, pending: bool = False) -> None:
        """Write a finding of the host, once for each kind and places of it."""
        key = (one.kind, tuple((each.source_file, each.source_line) for each in one.accesses))
        if key in self._said and not pending:
            return
        self._said.add(key)
        row: dict[str, Any] = {"host": dataclasses.asdict(one)}
        if pending:
            row["unseen"] = True
        self.write(row)

    def uncovered(self, what: str) -> None:
        """Write what the program uses and nobody models."""
        self.write({"uncovered": what})

    def refused(self, why: str, place: Place) -> None:
        """Note a launch that CUDA refuses: a note where somebody looks at the error."""
        self._refused = why
        found = MachineFinding(
            kind=Kind.REFUSED_LAUNCH, severity=Severity.NOTE,
            text=f"{why}; the program checks the error", accesses=at("launched", place),
        )  # fmt: skip
        self.write({"host": dataclasses.asdict(found), "refusal": True})

    def not_seen(self, words: str, place: Place) -> None:
        """Note an error, in CUDA's `words`, that a statement threw away."""
        if self._refused:
            kind, text = Kind.REFUSED_LAUNCH, f"{self._refused}: CUDA refuses it with '{words}'"
        else:
            kind, text = Kind.UNSEEN_ERROR, f"this call fails with '{words}'"
        self._refused = ""
        found = MachineFinding(
            kind=kind, severity=Severity.WRONG,
            text=f"{text}, and the program does not check the error",
            accesses=at("launched" if kind is Kind.REFUSED_LAUNCH else "called", place),
        )  # fmt: skip
        self._unseen += 1
        self.say(found, pending=True)

    def asked(self) -> None:
        """Note that the program asks for the last error."""
        if self._unseen:
            self.write({"asked": self._unseen})
        self._unseen = 0

    def use_results(self, api: str, place: Place) -> None:
        """Note that results are copied while there are errors that nobody has asked for.

        Whoever asks for them from now on asks too late.
        """
        if self._unseen:
            self.write({"used": self._unseen, "by": f"{api} at {shown(place)}"})
        self._unseen = 0


def standing(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of a report as they are at its end.

    Errors that somebody asked for after all go, and so do notes of launches that were refused
    where nobody asked. What is said of the host is said once a place.
    """
    kept: list[dict[str, Any]] = []
    for row in rows:
        if "asked" in row:
            for index in _last_unseen(kept, row["asked"]):
                del kept[index]
        elif "used" in row:
            for index in _last_unseen(kept, row["used"]):
                text = f"{kept[index]['host']['text']} before {row['by']} copies the results"
                kept[index] = {**kept[index], "host": {**kept[index]["host"], "text": text}}
        else:
            kept.append(dict(row))
    unseen = {_place_of(row) for row in kept if row.get("unseen")}
    found: dict[str, Mapping[str, Any]] = {}
    for number, row in enumerate(kept):
        if row.get("refusal") and _place_of(row) in unseen:
            continue
        key = f"{row['host']['kind']} {_place_of(row)}" if "host" in row else str(number)
        found.setdefault(key, row)
    return list(found.values())


def _last_unseen(rows: Sequence[Mapping[str, Any]], count: int) -> list[int]:
    """Return where the last so many errors that nobody has asked for stand, the last first."""
    return [index for index in range(len(rows) - 1, -1, -1) if rows[index].get("unseen")][:count]


def _place_of(row: Mapping[str, Any]) -> str:
    return json.dumps([(one["source_file"], one["source_line"]) for one in row["host"]["accesses"]])


def issued(deed: Deed) -> str:
    """Return ` of FILE:LINE`, where the program issued an operation; empty where not known."""
    return f" of {shown(deed.place)}" if deed.place.line else ""


def shown(place: Place) -> str:
    """Return FILE:LINE, or the program where that is not known."""
    return f"{place.file}:{place.line}" if place.line else "the program"


def at(what: str, place: Place) -> tuple[Access, ...]:
    """Return where the host's code does something."""
    nobody = (0, 0, 0)
    return (
        Access(
            what=what, ptx_line=0, source_file=place.file or None,
            source_line=place.line or None, block=nobody, thread=nobody,
        ),
    )  # fmt: skip
