"""Run folders: one a trial, under `home()/runs/<id>`, readable whatever killed the trial.

    job.json           what was asked for, with absolute paths
    candidate.json     the kernel as judged, sources included    problem.json   the problem
    events.ndjson      every event, one a line; synced to disk at findings and at the verdict
    findings/F1.json   one finding with the scenario that reproduces it
    verdict.json       written in one step at the end

A write that fails (full disk, read-only folder) is reported once through `logging` and ends
the keeping of this run; it never ends the trial.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cuassay.errors import UnknownNameError, UsageError
from cuassay.home import runs_dir
from cuassay.model import serial
from cuassay.model.events import EngineFinished, EngineStarted, EngineStopped, Event
from cuassay.model.events import FindingReported as Reported
from cuassay.model.jobs import RunJob, TrialJob
from cuassay.model.outcome import Finding
from cuassay.model.verdict import Verdict
from cuassay.store.files import fresh_id, write_atomically
from cuassay.store.place import absolute

_LOG = logging.getLogger("cuassay")
_FINDING = re.compile(r"[A-Z]{1,4}\d{1,6}")
_ID = re.compile(r"\d{8}-\d{6}-\d{3}[0-9a-f]{4}")
_RECENT = 5
_LOOKED_AT = 30  # runs, the newest of them


class RunFolder:
    """One trial's folder, being written or read. `finding` is set by `open_run("RUN/F1")`."""

    def __init__(self, path: Path, *, finding: str | None = None) -> None:
        self.path, self.finding = path, finding
        self._events: int | None = None
        self._broken = False
        self._count = 0

    @classmethod
    def create(cls, job: RunJob, *, path: Path | None = None) -> RunFolder:
        """Make a new folder for `job`; the judge keeps the candidate and the problem in it.

        `path` is a place of its own, as in an audit. Where the home cannot be written the
        folder is made in the system's temporary folder; where that fails too nothing is kept.
        Either is said once.
        """
        run = cls(_fresh_path(runs_dir()) if path is None else path)
        try:
            run._begin(job)
        except OSError as error:
            elsewhere = Path(tempfile.gettempdir()) / "cuassay-runs"
            _LOG.warning(
                "cannot write the run folder %s (%s); keeping this run in %s instead. "
                "Set CUASSAY_HOME to a folder that can be written.",
                *(run.path, error.strerror or error, elsewhere),
            )
            run = cls(_fresh_path(elsewhere))
            try:
                run._begin(job)
            except OSError as again:
                run._give_up(again)
        return run

    def _begin(self, job: RunJob) -> None:
        self.path.mkdir(parents=True, mode=0o700)
        kept = replace(
            job,
            problem=absolute(job.problem),
            candidate=absolute(job.candidate),
            run_dir=str(self.path),
        )
        write_atomically(self.path / "job.json", serial.dumps(kept, indent=1))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._events = os.open(self.path / "events.ndjson", flags, 0o600)

    def append(self, event: Event) -> None:
        """Keep one event; findings and the verdict also get a file of their own."""
        if self._events is None or self._broken:
            return
        try:
            data = serial.dumps(event).encode() + b"\n"
            while data:
                assert self._events is not None
                data = data[os.write(self._events, data) :]
            match event:
                case Reported(finding=finding):
                    self._count += 1
                    self._keep_finding(finding, finding.id or f"F{self._count}")
                case EngineFinished(verdict=verdict):
                    for number, finding in enumerate(verdict.findings, start=1):
                        self._keep_finding(finding, finding.id or f"F{number}")
                    write_atomically(self.path / "verdict.json", serial.dumps(verdict, indent=1))
            if isinstance(event, Reported | EngineFinished | EngineStopped):
                os.fsync(self._events)
        except OSError as error:
            self._give_up(error)

    def _keep_finding(self, finding: Finding, name: str) -> None:
        if not _FINDING.fullmatch(name):
            return
        folder = self.path / "findings"
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"{name}.json", serial.dumps(finding, indent=1))

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        _LOG.warning(
            "the run folder %s is incomplete (%s); the trial goes on, its replay may not work. "
            "Free some space or set CUASSAY_HOME to another disk.",
            *(self.path, error.strerror or error),
        )

    def close(self) -> None:
        """Stop writing. Reading works before and after."""
        if self._events is not None:
            os.close(self._events)
            self._events = None

    @property
    def id(self) -> str:
        """The folder's name, which is what `replay` takes."""
        return self.path.name

    def asked(self) -> RunJob:
        """Return what was asked for: without a seed, unless one was given. Raises UsageError."""
        try:
            text = (self.path / "job.json").read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"run {self.path} has no readable job.json ({error}); expected a folder that "
                f"`cuassay check` made; run the check again"
            ) from None
        job: RunJob = serial.loads(RunJob, text)
        return job

    def job(self) -> RunJob:
        """Return what was asked for, with the seed that was drawn. Raises UsageError."""
        job = self.asked()
        started = next((e for e in self.events() if isinstance(e, EngineStarted)), None)
        return job if job.seed is not None or started is None else replace(job, seed=started.seed)

    def events(self) -> Iterator[Event]:
        """Yield the events that were kept; lines cut short by a crash are passed over."""
        try:
            lines = (self.path / "events.ndjson").read_bytes().splitlines()
        except OSError:
            return
        for line in lines:
            try:
                event: Event = serial.loads(Event, line.decode())
            except (UsageError, UnicodeDecodeError):
                continue
            yield event

    def verdict(self) -> Verdict | None:
        """Return the verdict, or None where the trial did not reach one."""
        try:
            verdict: Verdict = serial.loads(Verdict, (self.path / "verdict.json").read_text())
        except (OSError, UsageError, UnicodeDecodeError):
            finished = (e.verdict for e in self.events() if isinstance(e, EngineFinished))
            return next(finished, None)
        return verdict

    def findings(self) -> tuple[str, ...]:
        """Return the names of the findings that can be replayed, in order."""
        files = (self.path / "findings").glob("*.json") if self.path.is_dir() else ()
        names = [file.stem for file in files if _FINDING.fullmatch(file.stem)]
        return tuple(sorted(names, key=lambda name: (len(name), name)))

    def finding_path(self) -> Path:
        """Return the file of the chosen finding. Raises UnknownNameError."""
        name = self.finding or ""
        if name not in self.findings():
            raise UnknownNameError(f"finding of run {self.id}", name, self.findings())
        return self.path / "findings" / f"{name}.json"


def open_run(where: str) -> RunFolder:
    """Return the run that `where` names: a folder, an id or unique prefix, RUN/F1 or `last`.

    Raises UsageError or UnknownNameError where it names none or several.
    """
    path = Path(where).expanduser()
    if path.is_file() and path.parent.name == "findings":
        return RunFolder(path.parent.parent.absolute(), finding=path.stem)
    if where and path.is_dir():
        path = path.absolute()
        if not (path / "job.json").is_file() and not (path / "events.ndjson").is_file():
            raise UsageError(
                f"{path} is not a run folder: it holds neither job.json nor events.ndjson; give "
                "the folder that `cuassay check` printed, a run id, RUN/F1 or 'last'"
            )
        return RunFolder(path)
    head, slash, tail = where.rstrip("/").rpartition("/")
    if slash and _FINDING.fullmatch(tail):
        run = open_run(head)
        run.finding = tail
        run.finding_path()
        return run
    return RunFolder(_by_name(where))


def _by_name(where: str) -> Path:
    known = _known()
    if where == "last" and (last := _last(known)):
        return last
    matches = [path for path in known if where and path.name.startswith(where)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(
            f"run '{where}' is ambiguous: it fits {', '.join(p.name for p in matches[:_RECENT])}; "
            f"give more characters"
        )
    recent = [path.name for path in reversed(known[-_RECENT:])]
    raise UnknownNameError("run", where, recent, hint="Runs are kept in " + str(runs_dir()) + ".")


def _last(known: list[Path]) -> Path | None:
    """Return the newest run that judged a candidate, passing over mere replays."""
    for path in reversed(known):
        try:
            if isinstance(RunFolder(path).job(), TrialJob):
                return path
        except UsageError:
            continue
    return None


def last_duration_s(job: TrialJob) -> float | None:
    """Return how long the newest trial of the job's problem, profile and device took.

    None where none of the last runs of this home was one.
    """
    wanted = absolute(job.problem), job.profile, job.device
    for path in reversed(_known()[-_LOOKED_AT:]):
        try:
            kept = RunFolder(path).asked()
            if isinstance(kept, TrialJob) and (kept.problem, kept.profile, kept.device) == wanted:
                ended, began = (path / name for name in ("verdict.json", "job.json"))
                return ended.stat().st_mtime - began.stat().st_mtime
        except (UsageError, OSError):  # half written, or removed meanwhile
            continue
    return None


def _known() -> list[Path]:
    try:
        folders = [path for path in runs_dir().iterdir() if _ID.fullmatch(path.name)]
    except OSError:
        return []
    return sorted(folders)


def _fresh_path(parent: Path) -> Path:
    return parent / fresh_id()
