"""One candidate's trial as files for other tools see it, and where its findings stand in source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cuassay.model.candidate import Candidate
from cuassay.model.outcome import Finding
from cuassay.model.verdict import Decision, Verdict
from cuassay.report.clean import clean, one_line

_LINE = re.compile(
    r"(?P<file>[\w+./-]+\.(?:py|cuh?|cpp|cxx|cc|hpp|h))"
    r'(?:\((?P<paren>\d{1,7})\)|:(?P<colon>\d{1,7})|", line (?P<python>\d{1,7}))'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A trial that ended: its verdict, or in `stopped` why there is none.

    `exit_code` is then 2 where the call or a file was off, 3 where it could not be judged.
    `path` is what the user named, `root` the folder that paths in reports are relative to (a
    repository's, say), `candidate` its sources where they were kept.
    """

    path: str
    root: Path
    verdict: Verdict | None = None
    stopped: str = ""
    exit_code: int = 3
    candidate: Candidate | None = None

    @property
    def name(self) -> str:
        """The candidate's file as a reader of the repository knows it, cleaned."""
        return one_line(relative_path(_file(self), self.root)) or "candidate"

    @property
    def word(self) -> str:
        """The verdict's word; NO VERDICT where there is none."""
        return self.verdict.decision.value if self.verdict is not None else "NO VERDICT"

    @property
    def accepted(self) -> bool:
        """Whether the verdict is ACCEPTED."""
        return self.verdict is not None and self.verdict.decision is Decision.ACCEPTED

    @property
    def reason(self) -> str:
        """Why, in one cleaned line."""
        return one_line(self.verdict.reason if self.verdict is not None else self.stopped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of source: `path` relative to the root with forward slashes, 1-based `line`.

    `exact` is False where the line is only the kernel's definition. `text` is the line itself,
    stripped, where it is exact: it stays the same when lines are added above it.
    """

    path: str
    line: int
    exact: bool
    text: str = ""


def relative_path(path: Path, root: Path) -> str:
    """Return `path` relative to `root` with forward slashes, or absolute where it lies outside."""
    absolute = path if path.is_absolute() else root / path
    try:
        return absolute.relative_to(root).as_posix()
    except ValueError:
        return absolute.as_posix()


def line_shown(finding: Finding, judged: Judged) -> Line:
    """Return the source line of a finding or its diagnosis, else the kernel's definition.

    Sanitizers name it in the message and the details, compilers and tracebacks in the
    evidence. All of it is untrusted: only lines of the candidate's own files are taken.
    """
    file = _file(judged)
    fallback = Line(path=relative_path(file, judged.root), line=_definition(judged), exact=False)
    if judged.candidate is None:
        return fallback
    lengths = {s.path: s.text.count("\n") + 1 for s in judged.candidate.sources}
    told = "\n".join((finding.message, *(text for pair in finding.details for text in pair)))
    named = _named(told, lengths) or _named(finding.evidence, lengths)
    own = _line_of(finding, judged, lengths)
    if own is not None:
        path, line = own
        return _exact(judged, file, path, line)
    if not named:
        return fallback
    traceback = [match for match in named if match[2]]
    path, line, _ = traceback[-1] if traceback else named[0]  # a traceback ends at its cause
    return _exact(judged, file, path, line)


def _exact(judged: Judged, file: Path, path: str, line: int) -> Line:
    sources = judged.candidate.sources if judged.candidate is not None else ()
    source = next((s.text for s in sources if s.path == path), "")
    text = dict(enumerate(source.splitlines(), start=1)).get(line, "").strip()
    # A source's path: its own file, or the solution.json that holds its text.
    beside = relative_path(file if file.suffix == ".json" else file.parent / path, judged.root)
    return Line(path=beside, line=line, exact=True, text=text)


def _line_of(finding: Finding, judged: Judged, lengths: dict[str, int]) -> tuple[str, int] | None:
    """Return the line of the finding's diagnosis, else its own, among the candidate's files."""
    causes = judged.verdict.diagnoses if judged.verdict is not None else ()
    told = [made.line for made in causes if finding.id in made.findings and made.line is not None]
    for line in (*told, *finding.lines):
        for path, length in lengths.items():
            same = PurePosixPath(path).name == PurePosixPath(line.file).name
            if same and 0 < line.line <= length:
                return path, line.line
    return None


def _named(text: str, lengths: dict[str, int]) -> list[tuple[str, int, bool]]:
    """Return the lines of the candidate's own files that a text names, in its order."""
    found = (_own(match, lengths) for match in _LINE.finditer(clean(text)))
    return [own for own in found if own is not None]


def _file(judged: Judged) -> Path:
    """Return the file that the candidate was read from."""
    origin = judged.candidate.origin if judged.candidate else None
    return origin if origin is not None else Path(judged.path.partition("::")[0])


def _own(found: re.Match[str], lengths: dict[str, int]) -> tuple[str, int, bool] | None:
    """Return (source, line, from a traceback) where a match names a line of the candidate."""
    line = int(found["paren"] or found["colon"] or found["python"])
    for path, length in lengths.items():
        same = found["file"] == path or found["file"].endswith(f"/{path}")
        if same and 1 <= line <= length:
            return path, line, found["python"] is not None
    return None


def _definition(judged: Judged) -> int:
    """Return the line that defines the entry function, 1 where it cannot be told."""
    candidate = judged.candidate
    if candidate is None or _file(judged).suffix == ".json":
        return 1
    name = re.escape(candidate.entry_function)
    wanted = re.compile(rf"^\s*(?:async\s+)?def\s+{name}\b|\b{name}\s*\(")
    for source in candidate.sources:
        if source.path == candidate.entry_file:
            for number, text in enumerate(source.text.splitlines(), start=1):
                if wanted.search(text):
                    return number
    return 1
