"""`cuassay check --watch`: judge again after each save, with a judge that waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from cuassay.cli.drive import INTERRUPTED
from cuassay.cli.sinks import say
from cuassay.errors import CuassayError, UsageError
from cuassay.model.device import Device
from cuassay.model.events import Event
from cuassay.model.jobs import TrialJob

Check: TypeAlias = Callable[[TrialJob], Iterator[Event]]
_POLL_S = 0.3
_MOST_FILES = 2000


def watch(paths: Sequence[Path], once: Callable[[Check], int], *, device: Device | None) -> int:
    """Judge by `once` now and after each change of the files at `paths`, until interrupted.

    A folder stands for the files in it. Returns the exit code of the last trial, that of an
    interruption where a trial was interrupted. Raises UsageError
    where there is nothing to watch.
    """
    from cuassay.engine.executors import local_lanes
    from cuassay.engine.pool import WarmPool

    if not paths:
        raise UsageError("--watch needs a kernel that is a file or a folder of this machine")
    names = " and ".join(path.name for path in paths)
    with WarmPool(local_lanes(device, 1)) as pool:
        code = INTERRUPTED
        try:
            while True:
                seen, code = _stamps(paths), INTERRUPTED
                try:
                    code = once(pool.check)
                except CuassayError as error:  # a kernel or problem in the middle of an edit
                    code = 2 if isinstance(error, UsageError) else 3
                    say(f"cuassay: {error}")
                if code == INTERRUPTED:
                    return code
                say(f"cuassay: watching {names}; a save judges again, Ctrl+C ends")
                while _stamps(paths) == seen:
                    time.sleep(_POLL_S)
        except KeyboardInterrupt:
            return code


def _stamps(paths: Sequence[Path]) -> dict[Path, tuple[int, int]]:
    """Return when each file was written and its bytes; a file that is not there has no entry."""
    stamps = {}
    for path in paths:
        files = sorted(path.rglob("*"))[:_MOST_FILES] if path.is_dir() else [path]
        for file in files:
            try:
                known = file.stat()
            except OSError:
                continue
            if "__pycache__" not in file.parts:
                stamps[file] = (known.st_mtime_ns, known.st_size)
    return stamps
