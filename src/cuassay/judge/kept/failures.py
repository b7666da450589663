"""Failing cases kept between trials, tried first next time the same problem is judged.

One JSON file per problem digest and candidate entry file, under `failures` in cuassay's home,
at most eight cases each, newest first. A file that cannot be read counts as empty, and one
that cannot be written is no fault of the trial. Two judges that write at once leave one of
the two lists, never a mixture. What is kept are cases: sizes, recipes and seeds that are
spent; no source and no output of a candidate.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from cuassay.errors import CuassayError
from cuassay.home import home
from cuassay.inputs.fills import kinds_for
from cuassay.inputs.geometry import elements, legal, tensor_inputs, with_sizes
from cuassay.model import serial
from cuassay.model.case import Case
from cuassay.model.digest import problem_digest
from cuassay.model.outcome import CheckReport, Failed, FindingClass
from cuassay.model.problem import Problem, ScalarSpec
from cuassay.model.scenario import Allocate, Call, ReadResult

OWN, OTHERS = 8, 4  # cases tried of the same entry file, and of all other candidates
_FILES = 32  # of one problem; the least recently written go first
_BYTES = 1 << 18  # a file that is larger is not ours
_ELEMENTS = 1 << 22  # a kept case is tried on every later trial: it must be cheap
_CASES = tuple[Case, ...]


def known(problem: Problem, entry_file: str) -> tuple[Case, ...]:
    """Return the kept cases to try first: the entry file's own, then a few of others."""
    folder = _folder(problem)
    own = folder / _name(entry_file)
    found = list(_read(own, problem))[:OWN]
    others: list[Case] = []
    for file in _newest_first(folder):
        if file.name != own.name:
            others += [case for case in _read(file, problem) if case not in (*found, *others)]
    return (*found, *others[:OTHERS])


def keep(problem: Problem, entry_file: str, cases: Iterable[Case]) -> None:
    """Add failing cases to those of an entry file, the newest first, at most eight."""
    usable = [case for case in cases if _usable(case, problem)]
    if not usable:
        return
    folder = _folder(problem)
    file = folder / _name(entry_file)
    merged = dict.fromkeys(map(serial.dumps, (*usable, *_read(file, problem))))
    text = "[" + ",\n".join(list(merged)[:OWN]) + "]\n"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        # Write a file so that readers see the old text or the new, and nothing between
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".new-", suffix=".tmp")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        for old in _newest_first(folder)[_FILES:]:
            old.unlink(missing_ok=True)


def failing_cases(reports: Iterable[CheckReport]) -> Iterator[Case]:
    """Yield the cases of wrong findings that one plain call shows, smallest ones as shrunk."""
    for report in reports:
        findings = report.outcome.findings if isinstance(report.outcome, Failed) else ()
        for finding in findings:
            scenario = finding.scenario
            if finding.finding_class is FindingClass.WRONG and scenario:
                kinds = tuple(type(step) for step in scenario.steps)
                if kinds == (Allocate, Call, ReadResult) and len(scenario.cases) == 1:
                    yield scenario.cases[0]


def _folder(problem: Problem) -> Path:
    return home() / "failures" / problem_digest(problem)[:32]


def _name(entry_file: str) -> str:
    """Return a file name that shows the entry file's and differs for every other one."""
    shown = "".join(c if c.isalnum() or c in "-_" else "_" for c in Path(entry_file).stem)
    digest = hashlib.sha256(entry_file.encode(errors="replace")).hexdigest()[:12]
    return f"{shown[:40]}-{digest}.json"


def _newest_first(folder: Path) -> list[Path]:
    dated: list[tuple[float, Path]] = []
    for file in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            dated.append((file.stat().st_mtime, file))
    return [file for _, file in sorted(dated, key=lambda pair: (-pair[0], pair[1].name))]


def _read(file: Path, problem: Problem) -> Iterator[Case]:
    """Yield the usable cases of a file; whatever is wrong with it, it then counts as empty."""
    try:
        if not file.is_file() or file.stat().st_size > _BYTES:
            return
        cases = serial.loads(_CASES, file.read_text(encoding="utf-8"))
    except (OSError, CuassayError, ValueError, TypeError, AttributeError):
        return
    yield from (case for case in cases if _usable(case, problem))


def _usable(case: Case, problem: Problem) -> bool:
    """Whether the case is one of this problem, within its domain and cheap."""
    if not case.in_domain or case.benchmark or case.state is not None:
        return False
    try:
        bound = {axis.name: case.axes[axis.name] for axis in problem.var_axes()}
        sizes = with_sizes(problem, case.axes, bound)
        if sizes != dict(case.axes) or not legal(problem, sizes):
            return False
        kinds = {spec.name: kinds_for(spec) for spec in tensor_inputs(problem)}
        scalars = {spec.name for spec in problem.inputs if isinstance(spec, ScalarSpec)}
        known_fills = all(fill.kind in kinds[name] for name, fill in case.fills.items())
        cheap = elements(problem, sizes) <= _ELEMENTS
        return known_fills and set(case.scalars) <= scalars and cheap
    except (KeyError, CuassayError, ValueError, TypeError):
        return False
