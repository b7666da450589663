"""The status file: what the guards of a process have seen, for `cuassay guard status`.

$CUASSAY_HOME/guard/status/PID.json, written about once a second where something changed, in
one step, and removed when the process ends in an orderly way. $CUASSAY_GUARD_STATUS names
another folder, or is `off`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cuassay.guard import registry
from cuassay.guard.checker import CHECKER
from cuassay.guard.seen import seen
from cuassay.home import home

SWITCH = "CUASSAY_GUARD_STATUS"


def folder() -> Path | None:
    """Return where status files go, None where they are off."""
    given = os.environ.get(SWITCH, "")
    if given.lower() in ("off", "0"):
        return None
    return Path(given) if given else home() / "guard" / "status"


class StatusFile:
    """Writes this process's file."""

    def __init__(self) -> None:
        self._last = ""
        self._path: Path | None = None

    def write(self) -> None:
        """Write the file where it would differ. Raises OSError."""
        place = folder()
        if place is None:
            return
        guards = [_guard(watch) for watch in registry.watches()]
        text = json.dumps(guards)
        if text == self._last:
            return
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{os.getpid()}.json"
        document = {
            "version": 1,
            "pid": os.getpid(),
            "program": Path(sys.argv[0]).name if sys.argv else "",
            "unix_s": time.time(),
            "guards": guards,
        }
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(document), encoding="utf-8")
        os.replace(temporary, path)
        self._path, self._last = path, text

    def remove(self) -> None:
        """Remove the file of a process that ends."""
        if self._path is not None and self._path.name == f"{os.getpid()}.json":
            with contextlib.suppress(OSError):
                self._path.unlink()


def _guard(watch: Any) -> dict[str, Any]:
    last = watch.last
    found = asdict(watch.stats()) | {"digest": watch.digest, "seen": seen(watch)}
    if last is not None:
        found["last_violation"] = {
            "message": last.message,
            "unix_s": last.unix_s,
            "capsule": last.capsule,
        }
    return found


FILE = StatusFile()


def begin() -> None:
    """Keep the file up to date from now on."""
    CHECKER.every_tick(FILE.write)


atexit.register(FILE.remove)
