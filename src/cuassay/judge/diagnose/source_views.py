"""The candidate's files with what the PTX machine saw on their lines, over all launches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from cuassay.checks.machine.accesses import Mem101
from cuassay.checks.machine.barriers import Sync101
from cuassay.checks.machine.precision import Prec101
from cuassay.checks.machine.races import Race101
from cuassay.checks.machine.uninitialized import Init101
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.machine import LaunchEvidence, MachineEvidence, SourceView
from cuassay.model.outcome import FindingClass

# Whose kinds tell a fault's code.
_CHECKS = (Mem101, Init101, Race101, Sync101, Prec101)
_CODES = {kind: check.code for check in _CHECKS for kind in check.kinds}
_MARKS = 40


def source_views(
    candidate: Candidate, evidence: Iterable[MachineEvidence]
) -> tuple[SourceView, ...]:
    """Return a view of every file of the candidate; those without a trace hold their text alone."""
    launches = [launch for one in evidence for launch in one.launches]
    return tuple(_view(source, launches) for source in candidate.sources) if launches else ()


def _view(source: SourceFile, launches: Sequence[LaunchEvidence]) -> SourceView:
    name = PurePosixPath(source.path).name
    heat: dict[str, float] = {}
    ran: set[int] = set()
    marks: dict[tuple[int, str, str], tuple[int, str, str, str]] = {}
    for launch in launches:
        for one in (line for line in launch.lines if line.file == name):
            if one.executed:
                ran.add(one.line)
            if one.error > 0:
                heat[str(one.line)] = max(heat.get(str(one.line), 0.0), one.error)
        for mark in _marks(launch, name):
            marks.setdefault(mark[:3], mark)
    shown = sorted(marks.values())[:_MARKS]
    return SourceView(
        file=source.path,
        text=source.text,
        marks=tuple(shown),
        heat=heat,
        executed=tuple(sorted(ran)),
    )


def _marks(launch: LaunchEvidence, name: str) -> Iterable[tuple[int, str, str, str]]:
    for fault in launch.faults:
        code = _CODES.get(fault.kind)
        if fault.severity == "advice" or code is None:
            continue
        wrong = fault.severity == "wrong" and code != Prec101.code
        kind = FindingClass.WRONG if wrong else FindingClass.ADVICE
        lines = {
            touch.line: touch
            for touch in fault.touches
            if touch.line and PurePosixPath(touch.file).name == name
        }
        for line in lines:
            yield line, kind.value, code, fault.text
