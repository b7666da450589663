"""Commands side by side over the GPUs there are, with rows that are kept as they come."""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from common import ROOT

from cuassay.held_folder import TRIALS, make_held_folder

_SOURCES = (ROOT / "src", ROOT / "packages" / "ptxsan" / "src")
_LEAST_S = 5.0  # nothing is begun that has less time than this
Item = TypeVar("Item")
RowT = TypeVar("RowT", bound=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What a command wrote and how it ended. `code` is negative where a signal ended it."""

    said: str
    errors: str
    code: int
    seconds: float
    timed_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one of several commands runs: its number from 0, and its GPU where there is one.

    The GPU is the machine's number of it, whichever are visible here.
    """

    number: int
    gpu: int | None


class Journal(Generic[RowT]):
    """Rows of a dataclass in an NDJSON file; the last of a key counts.

    `resume` keeps what the file holds, else the file starts empty.
    """

    def __init__(
        self, path: Path, kind: type[RowT], key: Callable[[RowT], str], *, resume: bool
    ) -> None:
        self._path, self._key, self._lock = path, key, threading.Lock()
        self.rows: dict[str, RowT] = {}
        if resume:
            self.rows = {key(row): row for row in read_journal(path, kind)}
        else:
            path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)

    def keep(self, row: RowT, line: str) -> None:
        """Write a row and print a line about it."""
        with self._lock:
            self.rows[self._key(row)] = row
            with open(self._path, "a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(row)) + "\n")
            print(line, flush=True)


def read_journal(path: Path, kind: type[RowT]) -> list[RowT]:
    """Return the rows of a journal as `kind`; none where there is no journal."""
    if not path.is_file():
        return []
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [
        kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in row.items()})
        for row in rows
    ]


class SideBySide:
    """Runs commands in process groups of their own until all are done or the time is up.

    `each_s` bounds one command, `limit_s` all of them (0: no limit). `home` is cuassay's, one
    below it for each place; None for a new folder. No GPU where `gpus` is 0.
    """

    def __init__(
        self, *, jobs: int, each_s: float, limit_s: float, gpus: int, home: Path | None
    ) -> None:
        self._jobs, self._each_s = jobs, each_s
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        numbers = [int(one) for one in visible.split(",") if one.isdigit()]
        self._gpus = (numbers or list(range(gpus)))[:gpus]
        if home is None:
            home, self._lock = make_held_folder(TRIALS, remove=_remove)
            atexit.register(_remove, home)
        self._home = home
        self._deadline = time.monotonic() + (limit_s or float("inf"))

    @staticmethod
    def add_options(
        parser: argparse.ArgumentParser, what: str, *, jobs: int, each_s: float
    ) -> None:
        """Add what `asked_for` reads, and --resume; `what` is what is judged, such as kernel."""
        add = parser.add_argument
        add("--jobs", type=int, default=jobs, help=f"{what}s side by side, over all GPUs")
        add("--time-limit", type=float, default=0.0, help="seconds for all; 0: none")
        add("--each", type=float, default=each_s, help=f"seconds for one {what}")
        add("--resume", action="store_true", help="keep what the last run finished")

    @classmethod
    def asked_for(cls, given: argparse.Namespace, *, device: str, gpus: int) -> SideBySide:
        """Return what --jobs, --each, --time-limit and --home, where there is one, ask for."""
        return cls(
            jobs=given.jobs,
            each_s=given.each,
            limit_s=given.time_limit,
            gpus=gpus if device == "cuda" else 0,
            home=getattr(given, "home", None),
        )

    def all(self, items: Sequence[Item], one: Callable[[Item, Place], None]) -> None:
        """Call `one` on every item, `jobs` at a time, each in its place."""
        places, numbers, lock = threading.local(), iter(range(10**9)), threading.Lock()

        def placed(item: Item) -> None:
            if not hasattr(places, "own"):
                with lock:
                    number = next(numbers)
                gpu = self._gpus[number % len(self._gpus)] if self._gpus else None
                places.own = Place(number=number, gpu=gpu)
            one(item, places.own)

        with ThreadPoolExecutor(self._jobs) as pool:
            for task in [pool.submit(placed, item) for item in items]:
                task.result()

    def end(self, command: Sequence[str], place: Place) -> Ended | None:
        """Return how a command ended; None where the time for all was up first."""
        left_s = self._deadline - time.monotonic()
        if left_s < _LEAST_S:
            return None
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(place),
            start_new_session=True,
        )
        timed_out = False
        try:
            said, errors = process.communicate(timeout=min(self._each_s, left_s))
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            said, errors = process.communicate()
        seconds = round(time.monotonic() - started, 1)
        if timed_out and seconds < self._each_s:
            return None
        return Ended(
            said=said,
            errors=errors,
            code=process.returncode,
            seconds=seconds,
            timed_out=timed_out,
        )

    def _environment(self, place: Place) -> dict[str, str]:
        environment = os.environ | {
            "CUASSAY_HOME": str(self._home / f"slot{place.number}"),
            "PYTHONPATH": source_path(),
        }
        environment.setdefault("OMP_NUM_THREADS", "1")
        if place.gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(place.gpu)
        return environment


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def source_path() -> str:
    """Return a PYTHONPATH on which this checkout's cuassay comes first."""
    found = [*map(str, _SOURCES), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, found))
