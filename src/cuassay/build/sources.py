"""A candidate's sources on disk, and tracebacks cut down to its own frames."""

from __future__ import annotations

import contextlib
import fcntl
import os
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from cuassay.errors import BuildError
from cuassay.model.candidate import Candidate
from cuassay.model.ranks import other_way

_LOG_LIMIT = 64_000  # characters of a log that are kept: its end, where the errors stand


def write_sources(candidate: Candidate, folder: Path) -> Path:
    """Write the sources below `folder/src` and return that folder; same files stay untouched.

    Raises BuildError for a path that is absolute or leaves the folder.
    """
    root = folder / "src"
    for source in candidate.sources:
        relative = PurePosixPath(source.path)
        if relative.is_absolute() or ".." in relative.parts:
            raise BuildError(
                f"source path '{source.path}' leaves the candidate's folder; use a relative path"
            )
        write_text(root / relative, source.text)
    root.mkdir(parents=True, exist_ok=True)
    return root


def write_text(path: Path, text: str) -> None:
    """Write a file in one step, unless it holds this text already."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == text:
            return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def with_own_lines(code: str, sources: Mapping[str, str]) -> str:
    """Return a text of C++, numbered as the lines of the file that holds it as a string, if any.

    `sources` are the texts of a candidate's files by path.
    """
    for path, text in sources.items():
        before, found, _ = text.partition(code) if code else ("", "", "")
        if found:
            return f'#line {before.count(chr(10)) + 1} "{path}"\n{code}'
    return code


@contextlib.contextmanager
def build_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's build lock. The kernel drops it when its holder dies, however it dies."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / ".build-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def candidate_traceback(error: BaseException, root: Path) -> str:
    """Return the traceback of `error` with only the frames below `root`, paths made relative."""
    report = traceback.TracebackException.from_exception(error, compact=True)
    link: traceback.TracebackException | None = report
    while link is not None:
        own = [frame for frame in link.stack if Path(frame.filename).is_relative_to(root)]
        link.stack = traceback.StackSummary.from_list(own)
        link = link.__cause__ or link.__context__
    text = "".join(report.format()).replace(f"{root}{os.sep}", "")
    return clip_log(text)


def clip_log(text: str) -> str:
    """Return the last 64,000 characters of a log, saying so where something was cut."""
    if len(text) <= _LOG_LIMIT:
        return text
    return f"[the first {len(text) - _LOG_LIMIT} characters are cut]\n{text[-_LOG_LIMIT:]}"


def absent_header(log: str) -> str:
    """Return the header that a compiler did not find, by its log; an empty string where none."""
    for line in log.splitlines():
        before, found, _ = line.partition(": No such file or directory")
        if found and "fatal error:" in before:
            return before.rpartition(" ")[2]
        before, found, rest = line.partition('not open source file "')
        if found:
            return rest.partition('"')[0]
    return ""


def absent_library_of_ranks(log: str) -> str:
    """Return why ranks are not judged where a compiler lacks NCCL's or NVSHMEM's header, or ""."""
    header = absent_header(log)
    return other_way(f"<{header}>") if header.startswith(("nccl", "nvshmem")) else ""
