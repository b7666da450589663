"""Processor seconds of each test, with those of the processes that it starts, and of each folder.

    python benchmarks/cost_of_tests.py --out build/cost.ndjson -- -n 2 --dist loadfile tests/zoo

Runs pytest with what follows `--`, without what needs a GPU or is thorough. The file has a line for
each test, [name, processor seconds, those of its own process, wall seconds], and is written as the
tests end: a run that is cut off leaves what it measured. Prints folders and the most expensive
tests; with no arguments for pytest it prints what the file has. Seconds of a processor are those of
/proc and hardly depend on other work of the machine, as wall seconds do. What a test only lets wait
is not in them. Processes that outlive a test count for the next one that takes 40 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

_OUT = "COST_OF_TESTS"
_SHORT_S = 0.04  # of a test that is taken to start no process: to look for some takes 5 ms
_TICKS = os.sysconf("SC_CLK_TCK")


def tree_s(root: int) -> float:
    """Return the processor seconds of a process, of those below it, and of those that ended there.

    A process that somebody else has taken over by then is none of them.
    """
    below = defaultdict[int, list[int]](list)
    ticks: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                text = (place / "stat").read_text()
            except OSError:  # it has ended
                continue
            fields = text[text.rindex(")") + 2 :].split()
            pid = int(place.name)
            below[int(fields[1])].append(pid)
            ticks[pid] = sum(int(field) for field in fields[11:15])
    total, left = 0, [root]
    while left:
        pid = left.pop()
        total += ticks.get(pid, 0)
        left += below[pid]
    return total / _TICKS


class Meter:
    """Writes what each test of this process takes."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._others_s = tree_s(os.getpid()) - time.process_time()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Measure set-up, call and tear-down of a test."""
        begun_s, own_s = time.monotonic(), time.process_time()
        done = yield
        wall_s, taken_s = time.monotonic() - begun_s, time.process_time() - own_s
        total_s = taken_s
        if wall_s > _SHORT_S:
            others_s = tree_s(os.getpid()) - time.process_time()
            total_s += max(others_s - self._others_s, 0.0)
            self._others_s = others_s
        row = [item.nodeid, round(total_s, 3), round(taken_s, 3), round(wall_s, 3)]
        with self._out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return done


def pytest_configure(config: pytest.Config) -> None:
    """Measure in the processes that run tests: with pytest-xdist its workers."""
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Meter(Path(os.environ[_OUT])))


def report(rows: list[list[Any]], most: int = 60) -> str:
    """Return the folders and the most expensive tests, most first, as lines."""
    folders = defaultdict[str, list[float]](list)
    for name, seconds, *_ in rows:
        folders[str(PurePosixPath(name.partition("::")[0]).parent)].append(seconds)
    lines = [f"{len(rows)} tests, {sum(row[1] for row in rows):,.0f} s of a processor"]
    for folder, taken in sorted(folders.items(), key=lambda pair: -sum(pair[1])):
        lines.append(f"{sum(taken):9.1f} s {len(taken):6} tests  {folder}")
    for name, seconds, own_s, _ in sorted(rows, key=lambda row: -row[1])[:most]:
        lines.append(f"{seconds:9.2f} s {own_s:6.2f} own    {name}")
    return "\n".join(lines)


def main() -> int:
    """Run the tests and print what they take; returns pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/cost.ndjson"))
    parser.add_argument("pytest", nargs="*")
    given = parser.parse_args()
    code = 0
    if given.pytest:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.unlink(missing_ok=True)
        paths = (str(Path(__file__).parent), os.environ.get("PYTHONPATH", ""))
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            _OUT: str(given.out.resolve()),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "pytest", "-p", Path(__file__).stem, "--ignore"]
        command += ["tests/gpu", "-m", "not gpu and not thorough", "-q", *given.pytest]
        code = subprocess.run(command, env=environment, check=False).returncode
    print(report([json.loads(line) for line in given.out.read_text().splitlines()]))
    return code


if __name__ == "__main__":
    sys.exit(main())
