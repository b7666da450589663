"""The index: every kept run and audit in one SQLite file, for questions over all of them.

Run folders are the truth. The index is brought up to date from them before each question (new
and changed folders are read, rows of folders that are gone are dropped) and can be deleted at
any time. Writers take SQLite's own lock; readers never wait for them (write-ahead log).
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cuassay.errors import CannotJudgeError, UsageError
from cuassay.home import home, runs_dir
from cuassay.model import serial
from cuassay.model.verdict import Verdict
from cuassay.store.audits import known_audits

_LOG = logging.getLogger("cuassay")
_BUSY_S = 30.0
Row = tuple[Any, ...]

# Step n makes schema n + 1 of schema n; a step that was released never changes.
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE sources (path TEXT PRIMARY KEY, stamp TEXT NOT NULL);
    CREATE TABLE runs (
        run TEXT PRIMARY KEY, source TEXT NOT NULL, audit TEXT NOT NULL, problem TEXT NOT NULL,
        candidate TEXT NOT NULL, digest TEXT NOT NULL, verdict TEXT, reason TEXT NOT NULL,
        device TEXT NOT NULL, profile TEXT NOT NULL, seed INTEGER, duration_s REAL,
        started TEXT NOT NULL
    );
    CREATE TABLE findings (
        run TEXT NOT NULL, source TEXT NOT NULL, finding TEXT NOT NULL, code TEXT NOT NULL,
        title TEXT NOT NULL, class TEXT NOT NULL, finding_class TEXT NOT NULL,
        severity TEXT NOT NULL, share REAL, message TEXT NOT NULL
    );
    CREATE INDEX runs_by_digest ON runs (digest, problem);
    CREATE INDEX runs_by_source ON runs (source);
    CREATE INDEX findings_by_run ON findings (run);
    CREATE INDEX findings_by_source ON findings (source);
    """,
    """
    ALTER TABLE runs ADD COLUMN author TEXT NOT NULL DEFAULT '';
    ALTER TABLE runs ADD COLUMN family TEXT NOT NULL DEFAULT '';
    ALTER TABLE runs ADD COLUMN theirs INTEGER;
    ALTER TABLE runs ADD COLUMN ending TEXT NOT NULL DEFAULT 'judged';
    ALTER TABLE runs ADD COLUMN candidate_us REAL;
    DELETE FROM sources;
    """,
)
_RUN = (
    "run source audit problem candidate digest verdict reason device profile seed duration_s "
    "started author family theirs ending candidate_us"
)
_FINDING = "run source finding code title class finding_class severity share message"


def index_path() -> Path:
    """Return the index's file."""
    return home() / "index.sqlite"


@contextlib.contextmanager
def opened(path: Path | None = None, *, refresh: bool = True) -> Iterator[sqlite3.Connection]:
    """Yield the index, brought up to date unless told otherwise.

    A damaged file is set aside and made again. Raises UsageError for one that a newer cuassay
    wrote, CannotJudgeError where it cannot be made.
    """
    file = index_path() if path is None else path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        connection = _migrated(file)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise CannotJudgeError(f"the index {file} is locked: {error}; try again") from None
        aside = file.with_suffix(".damaged")
        _LOG.warning("the index %s is damaged (%s); it is made again from the runs", file, error)
        try:
            file.replace(aside)
            connection = _migrated(file)
        except (OSError, sqlite3.Error) as again:
            raise CannotJudgeError(f"the index {file} cannot be made: {again}") from None
    except OSError as error:
        raise CannotJudgeError(
            f"the index {file} cannot be made: {error.strerror or error}; set CUASSAY_HOME to a "
            "folder that can be written"
        ) from None
    try:
        if refresh:
            update(connection)
        yield connection
    finally:
        connection.close()


def update(connection: sqlite3.Connection, *, extra: Iterable[Path] = ()) -> None:
    """Read folders that are new or changed, drop those that are gone.

    `extra` are audits outside cuassay's home; they stay known from then on.
    """
    known = dict(connection.execute("SELECT path, stamp FROM sources").fetchall())
    present = {str(path): _stamp(path) for path in _folders(known, extra)}
    gone = [path for path in known if not present.get(path)]
    changed = [path for path, stamp in present.items() if stamp and known.get(path) != stamp]
    if not gone and not changed:
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for path in (*gone, *changed):
            for table in ("runs", "findings"):
                connection.execute(f"DELETE FROM {table} WHERE source = ?", (path,))
            connection.execute("DELETE FROM sources WHERE path = ?", (path,))
        for path in changed:
            _read_in(connection, Path(path))
            connection.execute("INSERT INTO sources VALUES (?, ?)", (path, present[path]))


def rows(
    connection: sqlite3.Connection, sql: str, values: Sequence[object] = ()
) -> tuple[tuple[str, ...], list[Row]]:
    """Return column names and rows of a question that only reads. Raises UsageError."""
    try:
        connection.execute("PRAGMA query_only = ON")
        cursor = connection.execute(sql, tuple(values))
        return tuple(column[0] for column in cursor.description or ()), cursor.fetchall()
    except sqlite3.Error as error:
        tables = "runs, findings"
        raise UsageError(f"the question cannot be answered: {error} (tables: {tables})") from None
    finally:
        connection.execute("PRAGMA query_only = OFF")


def _migrated(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None)
    try:
        with contextlib.suppress(sqlite3.OperationalError):  # another process sets it right now
            connection.execute("PRAGMA journal_mode = WAL")
        if _version(connection) != len(STEPS):
            # Take the steps that are missing, all or none, while no other process does.
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                version = _version(connection)  # another may have migrated while this one waited
                if version > len(STEPS):
                    raise UsageError(
                        f"the index {file} has schema {version}, this cuassay knows {len(STEPS)}: "
                        "it was written by a newer one; use that, or delete the file"
                    )
                for step in STEPS[version:]:
                    for statement in step.split(";"):
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {len(STEPS)}")
    except BaseException:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _folders(known: Mapping[str, str], extra: Iterable[Path]) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from runs_dir().iterdir()
    yield from known_audits()
    yield from (path.absolute() for path in extra)
    yield from map(Path, known)


def _stamp(folder: Path) -> str:
    """Return what changes when a folder's content does; empty where it holds nothing."""
    for name in ("results.ndjson", "verdict.json"):
        try:
            status = (folder / name).stat()
        except OSError:
            continue
        return f"{status.st_size} {status.st_mtime_ns}"
    return ""


def _read_in(connection: sqlite3.Connection, folder: Path) -> None:
    found = _audit(folder) if (folder / "results.ndjson").is_file() else _run(folder)
    for run, findings in found:
        _insert(connection, "runs", _RUN, run)
        for finding in findings:
            _insert(connection, "findings", _FINDING, finding)


def _insert(
    connection: sqlite3.Connection, table: str, columns: str, values: Mapping[str, object]
) -> None:
    names = columns.split()
    marks = ", ".join("?" * len(names))
    sql = f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({marks})"
    connection.execute(sql, [_storable(values[name]) for name in names])


def _storable(value: object) -> object:
    """Return a value that SQLite takes: text without lone surrogates."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


Found = Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]


def _audit(folder: Path) -> Found:
    """Yield the results of an audit, read as plain JSON: there may be very many."""
    try:
        header = json.loads((folder / "audit.json").read_text(encoding="utf-8"))["header"]
        lines = (folder / "results.ndjson").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, KeyError, TypeError):
        return
    last: dict[str, dict[str, Any]] = {}
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            result = json.loads(line)
            last[result["item"]["id"]] = result
    for result in last.values():
        with contextlib.suppress(KeyError, TypeError):
            item, run = result["item"], str(folder / result["run"])
            common = {"run": run, "source": str(folder)}
            about = {k: result[k] for k in _RUN.split() if k in result and k not in common}
            about |= {k: item[k] for k in ("author", "family")}
            about |= {"problem": item["problem_name"], "candidate": item["candidate_name"]}
            about |= {"audit": header["id"], "profile": header["profile"]}
            yield (
                {**about, **common, "started": header["started_at"]},
                [_finding(found, common) for found in result["findings"]],
            )


def _run(folder: Path) -> Found:
    try:
        verdict: Verdict = serial.loads(Verdict, (folder / "verdict.json").read_text())
    except (OSError, UsageError, UnicodeDecodeError):
        return
    common = {"run": str(folder), "source": str(folder)}
    rule, speed = verdict.benchmark_rule, verdict.speed
    about = {
        **{name: getattr(verdict, name) for name in ("problem", "candidate", "digest", "reason")},
        "audit": "",
        "author": "",
        "family": "",
        "ending": "judged",
        "verdict": verdict.decision.value,
        "device": verdict.environment.get("device", verdict.device),
        "profile": verdict.profile.value,
        "seed": verdict.seed,
        "duration_s": verdict.timing.total_s,
        "started": folder.name,
        "theirs": rule.accepted if rule else None,
        "candidate_us": speed.candidate_us if speed else None,
    }
    plain = [serial.to_json(found) for found in verdict.findings]
    for one, found in zip(plain, verdict.findings, strict=True):
        one["share"] = found.share
    yield {**about, **common}, [_finding(one, common) for one in plain]


def _finding(found: Mapping[str, Any], common: Mapping[str, str]) -> dict[str, Any]:
    share = found.get("share")
    return {
        **common,
        **{k: found[k] for k in ("code", "title", "finding_class", "severity", "message")},
        "finding": found["id"],
        "class": found["classes"][0] if found["classes"] else "",
        "share": share if isinstance(share, int | float) else None,
    }
