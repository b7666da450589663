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

from cuassay import settings
from cuassay.home import home
from cuassay_guard.capsules.evidence import file_part
from cuassay_guard.fleet import registry
from cuassay_guard.fleet.seen import MOST, seen
from cuassay_guard.sampled.checker import CHECKER

SWITCH = "CUASSAY_GUARD_STATUS"


def folder() -> Path | None:
    """Return where status files go, None where they are off."""
    given = settings.get(SWITCH)
    if given.lower() in ("off", "0"):
        return None
    return Path(given) if given else home() / "guard" / "status"


class StatusFile:
    """Writes this process's file."""

    def __init__(self) -> None:
        self._last = ""
        self._path: Path | None = None
        self._seen: dict[str, tuple[str, ...]] = {}

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
        _replace(path, json.dumps(document))
        self._path, self._last = path, text
        # Keep what each kernel was seen to do; it outlives the process.
        place = place.parent / "seen"
        for watch in registry.watches():
            found = seen(watch) | {"name": watch.name, "digest": watch.digest}
            known = tuple(call["signature"] for call in found["calls"])
            if not known or self._seen.get(watch.digest) == known:
                continue
            self._seen[watch.digest] = known
            place.mkdir(parents=True, exist_ok=True)
            target = place / f"{file_part(watch.name)}-{watch.digest}.json"
            _replace(target, json.dumps(merged(target, found)))

    def remove(self) -> None:
        """Remove the file of a process that ends."""
        if self._path is not None and self._path.name == f"{os.getpid()}.json":
            with contextlib.suppress(OSError):
                self._path.unlink()


def merged(target: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return a record with the calls that earlier processes saw, the latest ones last."""
    try:
        before = json.loads(target.read_text(encoding="utf-8"))["calls"]
    except (OSError, ValueError, KeyError, TypeError):
        return found
    mine = {call["signature"] for call in found["calls"]}
    kept = [call for call in before if call.get("signature") not in mine]
    return found | {"calls": [*kept, *found["calls"]][-MOST:]}


def _replace(target: Path, text: str) -> None:
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, target)


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
