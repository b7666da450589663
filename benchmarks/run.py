"""`make bench`: every measurement, by name; what needs a GPU that is not there says so.

    python benchmarks/run.py --list                    # names, what each measures, time, needs
    python benchmarks/run.py guard-cost loops-headline # these
    python benchmarks/run.py --on gpu --within-s 560   # what fits, longest-waiting results first
    python benchmarks/run.py --on gpu --together 4     # beside each other, the timed ones alone

Each runs in a process group of its own under a limit, its output in NAME.log beside the results
($CUASSAY_RESULTS, default benchmarks/results, logs in build/bench). With `--within-s`, those
whose result file is oldest or absent come first, so that repeated calls cover all. Exit code 1
where one failed or was stopped at its limit, 2 for a name that is not known.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench_table import BENCHES, Bench

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = Path(os.environ.get("CUASSAY_RESULTS", HERE / "results"))
_FOLDERS = tuple(str(ROOT / one) for one in ("src", ".", "packages/ptxsan/tests"))
_GRACE_S = 5.0  # between the request to end and the kill


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a measurement ended. `code` is None where it was stopped at its limit."""

    bench: Bench
    code: int | None
    wall_s: float

    @property
    def good(self) -> bool:
        """Whether it measured what it set out to."""
        return self.code == 0

    def line(self) -> str:
        """Return one line for the end of the run."""
        how = {None: "stopped at its limit", 0: "done"}.get(self.code, f"exit code {self.code}")
        return f"{self.bench.name:20s} {self.wall_s:7.1f} s  {how}"


def gpus() -> int:
    """Return how many GPUs the driver's tool names, 0 without it; loads no torch."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    done = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False)
    return sum(each.startswith("GPU ") for each in done.stdout.splitlines())


def chosen(names: Sequence[str], on: str, present: int) -> list[Bench]:
    """Return the measurements named, or all for a place that this machine can carry out.

    Raises:
        SystemExit: 2, for a name that is not in the table.
    """
    known = {bench.name: bench for bench in BENCHES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no measurement named {', '.join(unknown)}; there are: {', '.join(known)}")
        raise SystemExit(2)
    wanted = [known[name] for name in names] or [
        bench for bench in BENCHES if on == "all" or bench.place in (on, "both")
    ]
    for bench in wanted:
        if bench.gpus > present:
            print(f"{bench.name}: passed over, needs {bench.gpus} GPU(s), {present} here")
    return [bench for bench in wanted if bench.gpus <= present]


def age(bench: Bench) -> float:
    """Return when a measurement's result was last written, 0 where there is none."""
    found = [path.stat().st_mtime for path in RESULTS.glob(f"{bench.result}*.json")]
    return max(found, default=0.0)


def run(bench: Bench, limit_s: float, logs: Path) -> Ending:
    """Run one in a process group of its own; what it leaves behind is ended with it."""
    started = time.monotonic()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [*_FOLDERS, os.environ.get("PYTHONPATH", "")])),
        "PYTHONUNBUFFERED": "1",
    }
    with open(logs / f"{bench.name}.log", "w", encoding="utf-8") as log:
        child = subprocess.Popen(
            [sys.executable, *bench.command],
            cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(child)
    return Ending(bench=bench, code=code, wall_s=time.monotonic() - started)


def _end(child: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            return
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            continue


class Queue:
    """Measurements in turn; those that are timed run alone, others `together`."""

    def __init__(self, logs: Path, within_s: float | None) -> None:
        self._logs = logs
        self._until = None if within_s is None else time.monotonic() + within_s
        self._said = threading.Lock()

    def run(self, benches: Sequence[Bench], together: int) -> list[Ending]:
        """Return how each ended that was begun; names those for which no time was left."""
        alone = [bench for bench in benches if bench.timed or together < 2]
        beside = [bench for bench in benches if bench not in alone]
        found = [self._one(bench) for bench in alone]
        with ThreadPoolExecutor(max(1, together)) as pool:
            found += pool.map(self._one, beside)
        return [ending for ending in found if ending is not None]

    def _one(self, bench: Bench) -> Ending | None:
        left_s = bench.limit_s
        if self._until is not None:
            left_s = min(left_s, self._until - time.monotonic() - _GRACE_S)
        if left_s < bench.least_s:
            self._say(f"{bench.name}: not begun, needs {bench.least_s:.0f} s")
            return None
        ending = run(bench, left_s, self._logs)
        log = self._logs / f"{bench.name}.log"
        self._say(f"\n== {ending.line()}\n{log.read_text(encoding='utf-8', errors='replace')}")
        return ending

    def _say(self, text: str) -> None:
        with self._said:
            print(text, flush=True)


def listing() -> str:
    """Return the table of measurements, a line each."""
    rows = [f"{'name':20s} {'on':6s} {'about':>7s} {'timed':5s}  what"]
    for bench in BENCHES:
        timed = "alone" if bench.timed else ""
        rows.append(
            f"{bench.name:20s} {bench.place:6s} {bench.about_s:5.0f} s {timed:5s}  {bench.what}"
        )
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--on", choices=("all", "cpu", "gpu"), default="all")
    parser.add_argument("--list", action="store_true", help="print the table and stop")
    parser.add_argument("--within-s", type=float, help="begin nothing that would not end by then")
    parser.add_argument("--together", type=int, default=1, help="how many that are not timed")
    given = parser.parse_args(arguments)
    if given.list:
        print(listing())
        return 0
    benches = chosen(given.names, given.on, gpus())
    if given.within_s is not None:
        benches.sort(key=age)
    logs = RESULTS if "CUASSAY_RESULTS" in os.environ else ROOT / "build" / "bench"
    logs.mkdir(parents=True, exist_ok=True)
    endings = Queue(logs, given.within_s).run(benches, given.together)
    print("\n" + "\n".join(ending.line() for ending in endings))
    return 0 if all(ending.good for ending in endings) else 1


if __name__ == "__main__":
    sys.exit(main())
