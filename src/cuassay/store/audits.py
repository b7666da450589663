"""Audit folders: one an audit, under `home()/audits/<id>` or where the user says.

    audit.json         what was asked for: profile, device, root seed (schema 1)
    plan.ndjson        the candidates with their problems, one a line
    oddities.ndjson    what was passed over
    results.ndjson     one line, synced, for each candidate that ended; the last of an id counts
    powers.ndjson      one line for each problem whose inputs were measured
    candidates/        a run folder for each candidate: <id>-<start of key>-<attempt>
    findings.jsonl     every finding, written at the end
    finished.json      when the audit ended; absent while it runs or where it was killed

These files are the truth: the index and every report can be made again from them.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from cuassay.errors import UnknownNameError, UsageError
from cuassay.home import audits_dir
from cuassay.model import serial
from cuassay.model.audit import (
    Audit,
    AuditHeader,
    AuditItem,
    AuditResult,
    Ending,
    Oddity,
    ProblemPower,
)
from cuassay.store.files import append_line, read_lines, write_atomically

SCHEMA = 1
_LOG = logging.getLogger("cuassay")
_KEY_CHARACTERS = 12
_RECENT = 5
T = TypeVar("T")


class AuditFolder:
    """One audit's folder, being written or read.

    A line that cannot be written (full disk) is kept in memory and tried again with the next
    one; it is said once, and the audit goes on.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: list[tuple[Path, str]] = []
        self._told = False
        self._attempts: dict[str, list[tuple[int, Path]]] | None = None

    @property
    def candidates(self) -> Path:
        """The folder of the candidates' run folders."""
        return self.path / "candidates"

    def begin(
        self, header: AuditHeader, items: Iterable[AuditItem], oddities: Iterable[Oddity]
    ) -> None:
        """Write what was asked for and the plan. Raises OSError: nothing has been judged yet."""
        self.candidates.mkdir(parents=True, exist_ok=True)
        self._write_header(header)
        write_atomically(self.path / "plan.ndjson", _lines(items))
        write_atomically(self.path / "oddities.ndjson", _lines(oddities))
        (self.path / "finished.json").unlink(missing_ok=True)

    def _write_header(self, header: AuditHeader) -> None:
        kept = {"schema": SCHEMA, "header": serial.to_json(header)}
        write_atomically(self.path / "audit.json", json.dumps(kept, indent=1) + "\n")

    def keep(self, result: AuditResult) -> None:
        """Keep how one candidate ended, for good."""
        self._append(self.path / "results.ndjson", serial.dumps(result))

    def keep_power(self, power: ProblemPower) -> None:
        """Keep what the inputs of one problem can tell apart."""
        self._append(self.path / "powers.ndjson", serial.dumps(power))

    def finish(self, audit: Audit, findings: Iterable[Mapping[str, Any]]) -> None:
        """Write every finding and that the audit ended; what fails is said once."""
        self._flush()
        ended = {"finished_at": audit.finished_at, "wall_s": audit.wall_s}
        try:
            self._write_header(audit.header)
            text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in findings)
            write_atomically(self.path / "findings.jsonl", text)
            write_atomically(self.path / "finished.json", json.dumps(ended) + "\n")
        except OSError as error:
            self._tell(error)

    def run_folder(self, item: AuditItem, attempt: int) -> Path:
        """Return where the run folder of an attempt at `item` belongs."""
        return self.candidates / f"{item.id}-{item.key[:_KEY_CHARACTERS]}-{attempt}"

    def attempts(self, item: AuditItem) -> tuple[tuple[int, Path], ...]:
        """Return the attempts at `item` as it is now, with their run folders, oldest first.

        The folder is listed once: what another process adds later is not seen.
        """
        if self._attempts is None:
            self._attempts = {}
            for path in self.candidates.glob("*-*-*"):
                name, _, number = path.name.rpartition("-")
                if number.isdigit():
                    self._attempts.setdefault(name, []).append((int(number), path))
        return tuple(sorted(self._attempts.get(f"{item.id}-{item.key[:_KEY_CHARACTERS]}", ())))

    def _append(self, path: Path, line: str) -> None:
        self._unwritten.append((path, line))
        self._flush()

    def _flush(self) -> None:
        while self._unwritten:
            try:
                append_line(*self._unwritten[0])
            except OSError as error:
                self._tell(error)
                return
            del self._unwritten[0]

    def _tell(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            _LOG.warning(
                "the audit folder %s cannot be written (%s); the audit goes on and tries again "
                "with every verdict. Free some space: what is not written by its end is lost.",
                *(self.path, error.strerror or error),
            )


def header_of(path: Path) -> AuditHeader:
    """Return the header of an audit folder. Raises UsageError."""
    file = path / "audit.json"
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} is not an audit folder: audit.json cannot be read ({error}); give the folder "
            "that `cuassay audit` printed, an audit's id, or 'last'"
        ) from None
    schema = kept.get("schema") if isinstance(kept, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"{file} has schema {schema!r}, expected {SCHEMA}: it was written by another version "
            "of cuassay; read it with that version"
        )
    header: AuditHeader = serial.from_json(AuditHeader, kept.get("header"))
    return header


def read_audit(path: Path) -> Audit:
    """Return what is in an audit folder so far, results in the order of the plan.

    A candidate that has not ended is NOT_RUN. Lines that a crash cut short are passed over.
    Raises UsageError where the folder is no audit's.
    """
    header = header_of(path)
    items = tuple(_read(path / "plan.ndjson", AuditItem))
    done = results_of(path)
    ended = _finished(path)
    results = []
    for item in items:
        result = done.get(item.id)
        if result is None or result.item.key != item.key:
            results.append(
                AuditResult(item=item, ending=Ending.NOT_RUN, reason="not run", attempts=0)
            )
        else:
            results.append(result)
    return Audit(
        header=header,
        results=tuple(results),
        oddities=tuple(_read(path / "oddities.ndjson", Oddity)),
        powers=tuple({p.problem: p for p in _read(path / "powers.ndjson", ProblemPower)}.values()),
        finished_at=str(ended.get("finished_at", "")),
        wall_s=float(ended.get("wall_s", 0.0)),
    )


def results_of(path: Path) -> dict[str, AuditResult]:
    """Return the last result kept for each item id."""
    return {result.item.id: result for result in _read(path / "results.ndjson", AuditResult)}


def open_audit(where: str) -> Path:
    """Return the folder of the audit that `where` names: a folder, an id or unique prefix, `last`.

    Raises UsageError or UnknownNameError.
    """
    path = Path(where).expanduser()
    if where and path.is_dir():
        header_of(path)
        return path.absolute()
    known = known_audits()
    if where == "last" and known:
        return known[-1]
    matches = [found for found in known if where and found.name.startswith(where)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"audit '{where}' is ambiguous: {len(matches)} fit; give more characters")
    recent = [found.name for found in reversed(known[-_RECENT:])]
    raise UnknownNameError("audit", where, recent, hint=f"Audits are kept in {audits_dir()}.")


def known_audits() -> list[Path]:
    """Return the audits below cuassay's home, oldest first."""
    with contextlib.suppress(OSError):
        return sorted(path for path in audits_dir().iterdir() if (path / "audit.json").is_file())
    return []


def is_audit(path: Path) -> bool:
    """Whether `path` is an audit's folder."""
    return (path / "audit.json").is_file()


def _finished(path: Path) -> Mapping[str, Any]:
    try:
        ended = json.loads((path / "finished.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return ended if isinstance(ended, dict) else {}


def _read(path: Path, kind: type[T]) -> Iterator[T]:
    for _, line in read_lines(path):
        with contextlib.suppress(UsageError):
            value: T = serial.loads(kind, line)
            yield value


def _lines(values: Iterable[object]) -> str:
    return "".join(serial.dumps(value) + "\n" for value in values)
