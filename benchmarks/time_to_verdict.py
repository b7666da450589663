"""Seconds from command to verdict for real kernels, one at a time, with a peer beside them.

    python benchmarks/time_to_verdict.py --packed build/wild --peer SOL-ExecBench --time-limit 500

Every kernel is judged three times by `cuassay check` at one profile: with nothing kept (an empty
CUASSAY_HOME), again (its build is kept), and with a judge of `cuassay serve` that is ready.
`standard` is one trial at that profile after them, with the same home. `--kinds` has fewer, and
what the first of them needs kept is made untimed. The peer is SOL-ExecBench's own evaluator out of
a checkout (github.com/NVIDIA/SOL-ExecBench, which needs cupti-python, click, rich and safetensors),
on the same solution and all its workloads, twice. What it decides is another question than ours: a
few draws of each workload, and times. It starts `python` by that name: what runs this file is put
first on its PATH. `--documents FOLDER` keeps each verdict with its timeline as NAME-KIND.json.
Kernels are those packed by `benchmarks/wild.py`, the correct ones, one of each problem first, or
those of `--names`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common import ROOT, save
from kernel_sets import Kernel, read_index

_SOURCES = (ROOT / "src", ROOT / "packages" / "ptxsan" / "src")
_PEER = "from sol_execbench.cli import cli; cli()"
_READY_S = 8.0  # after which the next judge waits
_KINDS = ("first", "again", "served", "standard", "peer_first", "peer_again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Wall seconds of one kernel; None where it was not run or came to no verdict.

    `spent_s`: what took longest in the last trial, by lane and name, most first. By kind of trial
    `workers` are the processes started for candidate and reference, `verdicts` what was decided.
    """

    name: str
    language: str
    verdict: str
    peer: str
    seconds: Mapping[str, float | None]
    judge_gpu_peak_gib: str = ""
    spent_s: Mapping[str, float] = field(default_factory=dict)
    workers: Mapping[str, int] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)


def longest(document: Mapping[str, Any], count: int = 24) -> dict[str, float]:
    """Return the seconds of what took longest by the timeline of a verdict, spans of a name as one.

    Truths and comparisons are one each. Lanes overlap: the seconds add up to more than a trial.
    """
    taken: dict[str, float] = {}
    for span in document.get("timeline", ()):
        within = span["lane"] in ("truth", "compare")
        name = span["lane"] if within else f"{span['lane']}: {span['what']}"
        taken[name] = taken.get(name, 0.0) + span["end_s"] - span["begin_s"]
    ordered = sorted(taken.items(), key=lambda pair: -pair[1])[:count]
    return {name: round(seconds, 2) for name, seconds in ordered}


def own_python(folder: Path) -> Path:
    """Make a folder in which `python` is the interpreter that runs this, and return it."""
    folder.mkdir()
    for name in ("python", "python3"):
        place = folder / name
        place.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        place.chmod(0o755)
    return folder


def spread(kernels: Sequence[Kernel]) -> list[Kernel]:
    """Return the kernels in turns over their problems, so that any beginning is a sample."""
    rounds: dict[str, int] = {}
    keyed = []
    for kernel in kernels:
        rounds[kernel.problem] = rounds.get(kernel.problem, 0) + 1
        keyed.append((rounds[kernel.problem], kernel))
    return [kernel for _, kernel in sorted(keyed, key=lambda pair: (pair[0], pair[1].name))]


def timed(
    command: Sequence[str], environment: Mapping[str, str], limit_s: float, *, errors: bool = False
) -> tuple[float | None, str]:
    """Return the wall seconds of a command and what it printed; None where it took too long.

    With `errors` what it printed as errors is among it.
    """
    begun = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
        text=True,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    return time.perf_counter() - begun, said


@contextmanager
def waiting(environment: Mapping[str, str]) -> Iterator[None]:
    """Keep a judge waiting in this block."""
    command = [sys.executable, "-m", "cuassay", "serve", "--device", "cuda", "--workers", "1"]
    server = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        yield
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20.0)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def peer_said(text: str) -> str:
    """Return how many of its workloads the peer passed, or the last line that it printed."""
    lines = text.splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    states = [str((one.get("evaluation") or {}).get("status")) for one in found]
    if states:
        return f"{states.count('PASSED')} of {len(states)} passed"
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


class Bench:
    """Times kernels until the time is up."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._deadline = time.monotonic() + given.time_limit
        path = filter(None, [*map(str, _SOURCES), os.environ.get("PYTHONPATH", "")])
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        self._environment.setdefault("OMP_NUM_THREADS", "1")
        self._python = ""
        self.rows: list[Row] = []

    def run(self, kernels: Sequence[Kernel]) -> None:
        """Time each kernel; those that do not fit into the time are left out whole."""
        with tempfile.TemporaryDirectory(prefix="cuassay-time-") as base:
            self._python = str(own_python(Path(base, "bin")))
            served = self._environment | {"CUASSAY_HOME": str(Path(base, "served"))}
            with waiting(served) if "served" in self._given.kinds else nullcontext():
                for number, kernel in enumerate(kernels):
                    if time.monotonic() > self._deadline:
                        return
                    home = Path(base, f"home{number}")
                    row = self._row(kernel, self._environment | {"CUASSAY_HOME": str(home)}, served)
                    self.rows.append(row)
                    times = "  ".join(
                        f"{kind} {'-' if s is None else f'{s:.1f}'}"
                        for kind, s in row.seconds.items()
                    )
                    print(
                        f"{row.name:20s}{row.language:10s}{row.verdict:13s}{times}  "
                        f"{max(row.workers.values(), default=0)} processes  {row.peer}",
                        flush=True,
                    )
                    self.save()

    def _row(self, kernel: Kernel, own: Mapping[str, str], served: Mapping[str, str]) -> Row:
        folder, each_s = self._given.packed, self._given.each
        solution, problem = str(folder / kernel.path), str(folder / kernel.problem)
        check = [sys.executable, "-m", "cuassay", "check", solution, "--problem", problem]
        check += ["--profile", self._given.profile, "--device", "cuda", "--json"]
        path = os.pathsep.join([str(self._given.peer.resolve() / "src"), own["PYTHONPATH"]])
        theirs = [sys.executable, "-c", _PEER, problem, "--solution", solution, "--json"]
        seconds: dict[str, float | None] = {}
        document: Mapping[str, Any] = {}
        workers: dict[str, int] = {}
        verdicts: dict[str, str] = {}
        peer = ""
        for number, kind in enumerate(self._given.kinds):
            if kind == "served":
                timed(check, served, each_s)  # builds there, as `first` did
                time.sleep(_READY_S)
            elif kind in ("again", "standard") and number == 0:
                timed(check, own, each_s)
            if kind.startswith("peer"):
                search = os.pathsep.join(filter(None, [self._python, own.get("PATH", "")]))
                given = own | {"PYTHONPATH": path, "PATH": search}
                seconds[kind], told = timed(theirs, given, each_s, errors=True)
                peer = peer_said(told) or peer
            else:
                command = [*check, "--profile", "standard"] if kind == "standard" else check
                where = served if kind == "served" else own
                seconds[kind], said = timed(command, where, each_s)
                document = json.loads(said) if said else document
                if said:
                    workers[kind] = int(document.get("workers", 0))
                    verdicts[kind] = str(document.get("verdict", "none"))
                if said and self._given.documents is not None:
                    self._given.documents.mkdir(parents=True, exist_ok=True)
                    name = f"{kernel.name.replace('/', '-')}-{kind}.json"
                    (self._given.documents / name).write_text(said)
        return Row(
            name=kernel.name,
            language=kernel.language,
            verdict=str(document.get("verdict", "none")),
            peer=peer,
            seconds={kind: None if s is None else round(s, 2) for kind, s in seconds.items()},
            judge_gpu_peak_gib=str(document.get("environment", {}).get("judge_gpu_peak_gib", "")),
            spent_s=longest(document),
            workers=workers,
            verdicts=verdicts,
        )

    def save(self) -> None:
        """Write the rows and their medians."""
        medians = {}
        for kind in self._given.kinds:
            found = [s for row in self.rows if (s := row.seconds[kind]) is not None]
            medians[kind] = round(statistics.median(found), 2) if found else None
        results = {
            "profile": self._given.profile,
            "medians_s": medians,
            "rows": [asdict(row) for row in self.rows],
        }
        save(self._given.name, results)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time the packed kernels and print their medians."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--packed", type=Path, default=ROOT / "build" / "wild")
    parser.add_argument(
        "--kernel", nargs=2, metavar=("FILE", "PROBLEM"), help="this one, and none that is packed"
    )
    parser.add_argument("--names", nargs="*", help="of packed kernels, such as 10/1bc7c0e1d146")
    parser.add_argument("--peer", type=Path, default=Path("SOL-ExecBench"), help="its checkout")
    parser.add_argument("--kinds", nargs="*", default=list(_KINDS), choices=_KINDS)
    parser.add_argument("--documents", type=Path, help="folder for the verdicts as JSON")
    parser.add_argument("--skip", type=int, default=0, help="kernels to pass over first")
    parser.add_argument("--name", default="time-to-verdict", help="of the file of results")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--language", nargs="*", default=["torch", "triton"])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--each", type=float, default=120.0, help="seconds for one command")
    parser.add_argument("--time-limit", type=float, default=1e9, help="seconds for all")
    given = parser.parse_args(arguments)
    if given.kernel is not None:
        file, problem = (str(Path(place).resolve()) for place in given.kernel)
        kernels = [Kernel(set="given", name=Path(file).stem, path=file, problem=problem)]
    else:
        found = [
            kernel
            for kernel in read_index(given.packed)
            if kernel.set == "sol"
            and kernel.label == "correct"
            and kernel.language in given.language
        ]
        kernels = spread(found)[given.skip :][: given.count]
        if given.names:
            packed = {kernel.name: kernel for kernel in read_index(given.packed)}
            kernels = [packed[name] for name in given.names]
    bench = Bench(given)
    bench.run(kernels)
    bench.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
