"""The verdicts of an audit as Traces, made from the candidates' own run folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cuassay.errors import UsageError
from cuassay.model import serial
from cuassay.model.audit import Audit
from cuassay.model.problem import Problem
from cuassay.report.trace import trace
from cuassay.store.runs import RunFolder


def traces(audit: Audit, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the Trace of every candidate that has one, in the order of the plan."""
    for result in audit.results:
        run = folder / result.run
        if not result.run or result.verdict is None:
            continue
        verdict = RunFolder(run).verdict()
        try:
            problem = serial.loads(Problem, (run / "problem.json").read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, UsageError):
            continue
        if verdict is not None:
            named = dataclasses.replace(verdict, candidate=result.item.candidate_name)
            found = trace(named, problem, timestamp=audit.finished_at)
            if found is not None:
                yield found
