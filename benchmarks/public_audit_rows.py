"""Rows of the public audit: one a trial, from audit folders and from files of earlier runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from kernel_sets import Kernel, read_index
from trials import read_journal

from cuassay.audit.family import operator_family
from cuassay.model import serial
from cuassay.model.audit import AuditResult, Ending
from cuassay.model.outcome import FindingClass
from cuassay.model.verdict import Decision
from cuassay.store.files import read_lines

DECIDED = ("ACCEPTED", "REJECTED")
_FOLDER = re.compile(
    r"(?<![\w.])/(?:[\w.+-]+/)+"
)  # of a file that a reason names by its whole path
# Conditions that say how far a trial looked; on a CPU `streams` says so too.
_LOOK = frozenset({"device", "launches", "memory", "power", "sizes", "time", "workloads"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How one trial of one kernel ended; holds names and numbers, no source.

    `verdict` is empty where there is none, and `ending` then says why. `causes` are the
    diagnoses, the one to repair first in front; `checks` the codes with wrong findings; `classes`
    the failure classes of them. `published` is what the publisher's own test said, `rule` the
    benchmark's rule as cuassay evaluated it on the benchmark's inputs. `mutants`, `killed` and
    `rule_killed` are broken references: how many, how many cuassay's inputs and the benchmark's
    tell from the right one. `version` is cuassay's, `judged_at` in UTC.
    """

    set: str
    name: str
    operator: str
    family: str
    kind: str
    language: str
    model: str
    label: str
    digest: str
    profile: str
    device: str
    verdict: str
    ending: str
    seconds: float
    reason: str = ""
    causes: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    published: bool | None = None
    rule: bool | None = None
    mutants: int | None = None
    killed: int | None = None
    rule_killed: int | None = None
    seed: str = ""
    again: bool = False
    machine: str = ""
    versions: str = ""
    version: str = ""
    judged_at: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """What identifies the kernel."""
        return f"{self.set}/{self.name}"

    @property
    def own_conditions(self) -> frozenset[str]:
        """Conditions that come from the kernel, not from how far the trial could look."""
        unseen = _LOOK if self.device == "cuda" else _LOOK | {"streams"}
        return frozenset(self.conditions) - unseen


def calls_file(folder: Path) -> Path:
    """Return the file beside an audit folder that says which call judged what."""
    return folder.with_suffix(".calls.ndjson")


def read_rows(runs: Path, *, published: Path | None = None) -> list[Row]:
    """Return the rows of all audit folders below `runs`, oldest result first in each.

    Of `published`, the data file of an earlier report, come the rows of folders that `runs` no
    longer holds.
    """
    found = _rows_below(runs) if (runs / "kernels.json").is_file() else []
    if published is None or not published.is_file():
        return found
    here = {row.source for row in found}
    empty = {field.name: "" for field in fields(Row) if field.default is MISSING}
    earlier = []
    for each in json.loads(published.read_text(encoding="utf-8"))["rows"]:
        data = {key: tuple(text) if isinstance(text, list) else text for key, text in each.items()}
        if each["source"] not in here:
            earlier.append(Row(**{**empty, **data}))
    return earlier + found


def _rows_below(runs: Path) -> list[Row]:
    kernels = {kernel.key: kernel for kernel in read_index(runs)}
    found = []
    for noted in sorted(runs.glob("*.calls.ndjson")):
        folder = runs / noted.name.removesuffix(".calls.ndjson")
        calls = [json.loads(line) for line in noted.read_text(encoding="utf-8").splitlines()]
        for number, result in _numbered(folder).values():
            kernel = kernels.get(result.item.candidate_name)
            if kernel is not None:
                found.append(row_of(kernel, result, _call_of(calls, number), folder.name))
    for file in sorted(runs.glob("imported*/*.ndjson")):
        found += read_journal(file, Row)
    return found


def results_written(folder: Path) -> int:
    """Return how many lines of results an audit folder holds."""
    return sum(1 for _ in read_lines(folder / "results.ndjson"))


def _numbered(folder: Path) -> dict[str, tuple[int, AuditResult]]:
    """Return the last result of each item with the number of its line, from 0."""
    found = {}
    for number, (_, line) in enumerate(read_lines(folder / "results.ndjson")):
        result = serial.loads(AuditResult, line)
        if result.ending is not Ending.NOT_RUN:
            found[result.item.id] = number, result
    return found


def _call_of(calls: Sequence[Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    """Return the call that judged the result of this number, from 0."""
    return [call for call in calls if call["begins_after"] <= number][-1]


def row_of(kernel: Kernel, result: AuditResult, call: Mapping[str, Any], source: str) -> Row:
    """Return the row of one result of an audit."""
    wrong = [found for found in result.findings if found.finding_class is FindingClass.WRONG]
    rejected = result.verdict is Decision.REJECTED
    about = call["machine"]
    return Row(
        **about_kernel(kernel),
        profile=call["profile"],
        device=call["device"],
        verdict=result.verdict.value if result.verdict else "",
        ending=result.ending.value,
        seconds=round(result.duration_s, 1),
        reason=_FOLDER.sub("", result.reason)[:300],
        causes=tuple(dict.fromkeys(made.cause.value for made in result.diagnoses)),
        checks=tuple(sorted({found.code for found in wrong})) if rejected else (),
        classes=tuple(sorted({c for f in wrong for c in f.classes[:1]})) if rejected else (),
        conditions=tuple(text.partition(":")[0] for text in result.conditions),
        rule=result.theirs,
        mutants=result.mutants,
        killed=result.killed,
        rule_killed=result.theirs_killed,
        seed=str(result.seed) if result.seed is not None else "",
        again=call["again"],
        machine=f"{about['device']}, {about['cores']} cores",
        versions=f"Python {about['python']}, torch {about['torch']}, Triton {about['triton']}",
        version=call["version"],
        judged_at=call["started_at"],
        source=source,
    )


def about_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return the fields of a row that say which kernel it is about."""
    return {
        "set": kernel.set,
        "name": kernel.name,
        "operator": kernel.operator,
        "family": operator_family(kernel.operator),
        "kind": kernel.kind,
        "language": kernel.language,
        "model": kernel.model or "not published",
        "label": kernel.label,
        "digest": kernel.digest,
        "published": kernel.theirs,
    }


def latest(
    rows: Iterable[Row], *, device: str | None = None, profile: str | None = None
) -> list[Row]:
    """Return one row a kernel, without second seeds: on a GPU before a CPU, the newest first.

    `device` and `profile` choose; None takes every one.
    """
    best: dict[str, Row] = {}
    for row in rows:
        if row.again or (device and row.device != device) or (profile and row.profile != profile):
            continue
        before = best.get(row.key)
        if before is None or _rank(row) >= _rank(before):
            best[row.key] = row
    return list(best.values())


def _rank(row: Row) -> tuple[bool, bool, str]:
    return bool(row.verdict), row.device == "cuda", row.judged_at


def dumps(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON data without what is empty."""
    return [
        {name: value for name, value in asdict(row).items() if value not in ("", (), None)}
        for row in rows
    ]
