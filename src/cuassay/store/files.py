"""Writes that a crash cannot tear: whole files in one step, lines that are synced, folder locks."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from cuassay.errors import UsageError

_ORPHANS_S = 10.0  # what a killed process forked has ended by then


def fresh_id() -> str:
    """Return a name for a new folder: sorts by time (UTC), and no two are equal."""
    now = datetime.datetime.now(datetime.UTC)
    milliseconds = now.microsecond // 1000
    return f"{now:%Y%m%d-%H%M%S}-{milliseconds:03d}{secrets.token_hex(2)}"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file, synced, so that readers see all of it or what was there before.

    Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def append_line(path: Path, text: str) -> None:
    """Append one synced line; after a line that a crash cut short, on a line of its own.

    Raises OSError; what a failed write left is cut away again.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = (b"\n" if torn else b"") + text.encode() + b"\n"
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines of a file, without the last one if it is cut short.

    A file that is not there has none. Raises OSError where it cannot be read.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n") and line.strip():
                yield number, line.decode(errors="replace")


def _has_ended(process: str) -> bool:
    """Whether the process of a number is known to be gone."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):
        return False
    return False


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of an audit's folder; it ends with the process, however that ends.

    What a killed process had forked may hold its lock for a moment longer, and is waited for.
    Raises UsageError where another process holds it.
    """
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        given_up = time.monotonic() + _ORPHANS_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                if not _has_ended(holder) or time.monotonic() > given_up:
                    raise UsageError(
                        f"audit {folder} is in use by process {holder or 'unknown'}; wait for "
                        "it, stop it, or give another folder"
                    ) from None
            time.sleep(0.05)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)
