"""Run folders and audit folders written as the engine writes them, over made-up trials."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cuassay.formats import load_candidate, load_problem
from cuassay.model import serial
from cuassay.model.audit import Audit
from cuassay.model.events import Event
from cuassay.model.jobs import TrialJob
from cuassay.model.verdict import Verdict
from cuassay.store.audits import AuditFolder
from cuassay.store.runs import RunFolder
from tests.support import samples


def kept_run(events: Iterable[Event], job: TrialJob, *, path: Path | None = None) -> RunFolder:
    """Return a run folder that holds these events."""
    run = RunFolder.create(job, path=path)
    for event in events:
        run.append(event)
    run.close()
    return run


def kept_verdict(verdict: Verdict, kernel: Path, *, path: Path | None = None) -> RunFolder:
    """Return the folder of a finished trial of a rmsnorm kernel, its sources included."""
    run = kept_run(
        samples.events(verdict), TrialJob(problem="rmsnorm", candidate=str(kernel)), path=path
    )
    problem = load_problem("rmsnorm")
    (run.path / "problem.json").write_text(serial.dumps(problem))
    (run.path / "candidate.json").write_text(serial.dumps(load_candidate(str(kernel), problem)))
    return run


def kept_audit(folder: Path, audit: Audit, *, finished: bool = True) -> Path:
    """Return the folder of an audit with its results, without its candidates' folders."""
    kept = AuditFolder(folder)
    kept.begin(audit.header, [result.item for result in audit.results], audit.oddities)
    for result in audit.results:
        kept.keep(result)
    if finished:
        kept.finish(audit, ())
    return folder
