"""Commands side by side over the GPUs there are, with rows that are kept as they come."""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from common import ROOT
from kernel_sets import Kernel

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How cuassay judged one kernel of a set, what every row on such a kernel begins with.

    `decision` is TIMEOUT or ERROR where there is no verdict. `checks` are the codes with findings
    that reject, by their number, `messages` the first of them; `checks_s` the seconds of each
    check. Of the launches that were recorded `made` is how many there were, `judged` how many the
    PTX machine executed to the end, and `causes` why the others were not. `slowest` are the longest
    spans of the timeline.
    """

    name: str
    language: str
    device: str
    decision: str
    seconds: float
    reason: str = ""
    checks: dict[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    checks_s: dict[str, float] = field(default_factory=dict)
    made: int = 0
    judged: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    slowest: tuple[str, ...] = ()


def check_command(
    kernel: Kernel, packed: Path, *more: str, profile: str, device: str, gpu_memory: str = ""
) -> list[str]:
    """Return the command that judges a packed kernel and prints its verdict as JSON."""
    command = [sys.executable, "-m", "cuassay", "check", str(packed / kernel.path)]
    command += ["--problem", str(packed / kernel.problem), "--profile", profile]
    command += ["--device", device, "--json", *more]
    return [*command, "--gpu-memory", gpu_memory] if gpu_memory else command


def read_verdict(kernel: Kernel, ended: Ended, device: str) -> tuple[dict[str, Any], Judged]:
    """Return the document of an ended check with what `Judged` keeps of it.

    Without a verdict the document has what the command wrote.
    """
    try:
        document: dict[str, Any] = json.loads(ended.said)
        decision = str(document["verdict"])
    except (json.JSONDecodeError, KeyError):
        decision = "TIMEOUT" if ended.timed_out else "ERROR"
        document = {"said": ended.said[-2000:], "errors": ended.errors[-4000:]}
    wrong = [one for one in document.get("findings", ()) if one["finding_class"] == "wrong"]
    launches = document.get("launches", {})
    spans = sorted(
        (
            (one["end_s"] - one["begin_s"], one["lane"], one["what"])
            for one in document.get("timeline", ())
        ),
        reverse=True,
    )
    return document, Judged(
        name=kernel.name,
        language=kernel.language,
        device=device,
        decision=decision,
        seconds=ended.seconds,
        reason=str(document.get("reason") or ended.errors[-600:] or "")[:600],
        checks=dict(Counter(str(one["code"]) for one in wrong)),
        messages=tuple(f"{one['code']}: {one['message']}"[:300] for one in wrong[:6]),
        conditions=tuple(str(one).split(":", 1)[0] for one in document.get("conditions", ())),
        checks_s={one["code"]: round(one["duration_s"], 2) for one in document.get("checks", ())},
        made=int(launches.get("made", 0)),
        judged=int(launches.get("judged", 0)),
        causes={why[:200]: int(count) for why, count in launches.get("causes", {}).items()},
        slowest=tuple(f"{lane} {what[:80]} {seconds:.1f}" for seconds, lane, what in spans[:14]),
    )


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
    below it for each place; None for a new folder. No GPU where `gpus` is 0. With `cores` each
    place has as many processors of its own.
    """

    def __init__(
        self,
        *,
        jobs: int,
        each_s: float,
        limit_s: float,
        gpus: int,
        home: Path | None,
        cores: int = 0,
    ) -> None:
        self._jobs, self._each_s, self._cores = jobs, each_s, cores
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
        add("--cores", type=int, default=0, help=f"processors of each {what} alone; 0: all share")

    @classmethod
    def asked_for(cls, given: argparse.Namespace, *, device: str, gpus: int) -> SideBySide:
        """Return what --jobs, --each, --time-limit and --home, where there is one, ask for."""
        return cls(
            jobs=given.jobs,
            each_s=given.each,
            limit_s=given.time_limit,
            gpus=gpus if device == "cuda" else 0,
            home=getattr(given, "home", None),
            cores=given.cores,
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
            [*self._pinned(place), *command],
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

    def _pinned(self, place: Place) -> list[str]:
        """Return what begins a command that keeps to its place's own processors."""
        first = place.number * self._cores
        own = sorted(os.sched_getaffinity(0))[first : first + self._cores]
        return ["taskset", "-c", ",".join(map(str, own))] if own else []

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
