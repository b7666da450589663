"""Audit of published kernels: judge what is left, then tables and pictures from the run folders.

    python benchmarks/public_audit.py --sets DIR --runs RUNS --limit-s 540     # goes on each time
    python benchmarks/public_audit.py --sets DIR --runs RUNS --part 1/4        # one of 4 machines
    python benchmarks/public_audit.py --sets DIR --runs RUNS --left            # nobody decided them
    python benchmarks/public_audit.py --sets DIR --runs RUNS --profile standard --undecided
    python benchmarks/public_audit.py --sets DIR --runs RUNS --again 200       # other secret seeds
    python benchmarks/public_audit.py --runs RUNS --report                     # judges nothing

DIR holds local copies of the sets (benchmarks/kernel_sets.py names them), RUNS one audit folder
for each profile, device and part: `cuassay audit` judges, keeps every verdict as it ends, and goes
on where it stopped. Rows of folders that are gone come from the data file of the last report.
Kernels come in the order of their digests, so that an audit that is cut short has judged a random
sample of each set. Foreign code runs behind the walls of cuassay only, and in a folder of its own.
What is written into the repository holds names, digests and verdicts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import public_audit_report
from common import ROOT, machine
from kernel_sets import PUBLISHED, SETS, Kernel, pack, read_index, write_index
from public_audit_imports import Origin, import_rows
from public_audit_rows import DECIDED, Row, calls_file, latest, read_rows, results_written
from trials import source_path

from cuassay import __version__
from cuassay.audit.family import operator_family

PACKED = ROOT / "build" / "public-audit"
RUNS = ROOT / "build" / "public-audit-runs"
_PART = re.compile(r"(?P<first>\d+)(-(?P<last>\d+))?/(?P<count>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which share of the kernels this machine judges: numbers `first` to `last` of `count`."""

    first: int  # from 1
    last: int
    count: int

    def holds(self, kernel: Kernel) -> bool:
        """Whether the kernel is in this part; the same on every machine."""
        return self.first <= int(kernel.digest[:8], 16) % self.count + 1 <= self.last

    def __str__(self) -> str:
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{numbers}of{self.count}"


def part_named(text: str) -> Part:
    """Return the part that a command line names, such as 1/4 or 2-4/4."""
    parts = _PART.fullmatch(text)
    if parts is not None:
        first, count = int(parts["first"]), int(parts["count"])
        last = int(parts["last"] or first)
        if 1 <= first <= last <= count:
            return Part(first=first, last=last, count=count)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a part: expected K/N or K-L/N with 1 <= K <= L <= N"
    )


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--sets", type=Path, metavar="DIR", help="local copies of the sets")
    parser.add_argument("--labels", type=Path, help="labels.json of the SOL-ExecBench candidates")
    parser.add_argument("--runs", type=Path, default=RUNS, help="audit folders, kept between calls")
    parser.add_argument("--packed", type=Path, default=PACKED, help="sources, outside of git")
    parser.add_argument("--only-sets", nargs="*", default=list(PUBLISHED), choices=sorted(SETS))
    parser.add_argument("--only", nargs="*", default=[], help="only names that begin like this")
    parser.add_argument(
        "--languages", nargs="*", default=[], help="cuda, triton, triton+cuda, torch"
    )
    parser.add_argument("--labeled", action="store_true", help="only kernels that have a label")
    parser.add_argument("--profile", default="quick", choices=("quick", "standard", "deep"))
    parser.add_argument("--left", action="store_true",
                        help="only kernels that nobody decided, sets in turn")  # fmt: skip
    parser.add_argument("--first", type=int, default=0, metavar="N",
                        help="only the first N of them; 0: all")  # fmt: skip
    parser.add_argument("--undecided", action="store_true",
                        help="only kernels that `quick` rejected or could not decide")  # fmt: skip
    parser.add_argument("--again", type=int, default=0, metavar="N",
                        help="judge N decided kernels with other seeds")  # fmt: skip
    parser.add_argument("--round", default="", metavar="NAME",
                        help="judge again, in folders of this name")  # fmt: skip
    parser.add_argument("--part", type=part_named, default=part_named("1/1"), metavar="K[-L]/N")
    parser.add_argument("--device", default="", help="cpu or cuda; cuda where there is one")
    parser.add_argument(
        "--lanes", type=int, default=0, help="trials side by side; 0: cuassay's own"
    )
    parser.add_argument("--each", type=float, default=240.0, help="seconds for one kernel")
    parser.add_argument("--limit-s", type=float, default=0.0, help="seconds for all; 0: none")
    parser.add_argument("--report", action="store_true", help="write tables and pictures and stop")
    parser.add_argument("--import-rows", type=Path, nargs="*", default=[], metavar="FILE",
                        help="read rows of earlier runs and stop")  # fmt: skip
    parser.add_argument("--origin", default="", metavar="JSON",
                        help="who judged them: device, machine, versions, time")  # fmt: skip
    public_audit_report.add_options(parser)
    return parser.parse_args(arguments)


def ordered(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Return kernels in the order in which they are judged: by digest, hence at random."""
    return sorted(kernels, key=lambda kernel: (kernel.digest, kernel.key))


def chosen(given: argparse.Namespace, kernels: Sequence[Kernel], device: str) -> list[Kernel]:
    """Return the kernels of this call: of its sets and part, and what earlier rows say of them."""
    wanted = [
        kernel
        for kernel in ordered(kernels)
        if kernel.set in given.only_sets
        and given.part.holds(kernel)
        and (not given.only or kernel.name.startswith(tuple(given.only)))
        and (not given.languages or kernel.language in given.languages)
        and (not given.labeled or kernel.label)
    ]
    if not (given.left or given.undecided or given.again):
        return wanted
    judged = read_rows(given.runs, published=given.results)
    if given.left:
        return left(wanted, judged, tried_first=device == "cuda")
    rows = {row.key: row for row in latest(judged, device=device, profile="quick")}
    if given.undecided:
        undecided = {key for key, row in rows.items() if row.verdict != "ACCEPTED"}
        return [kernel for kernel in wanted if kernel.key in undecided]
    decided = {key for key, row in rows.items() if row.verdict in DECIDED}
    # A second seed for each kernel says more than a third for some.
    decided -= {row.key for row in judged if row.again and row.device == device}
    sample = [kernel for kernel in wanted if kernel.key in decided]
    return ordered(random.Random(27).sample(sample, min(given.again, len(sample))))


def left(
    kernels: Sequence[Kernel], rows: Iterable[Row], *, tried_first: bool = False
) -> list[Kernel]:
    """Return the kernels without a decided row: those without any first, their sets in turn.

    With `tried_first` those come first that were tried, as on a GPU, since some need one.
    """
    verdicts = {row.key: row.verdict for row in latest(rows)}
    turns: Counter[tuple[bool, str]] = Counter()
    order = []
    for kernel in kernels:
        if verdicts.get(kernel.key) not in DECIDED:
            group = (kernel.key in verdicts) is not tried_first, kernel.set
            order.append((group[0], turns[group], kernel))
            turns[group] += 1
    return [kernel for *_, kernel in sorted(order, key=lambda each: each[:2])]


def write_list(kernels: Sequence[Kernel], packed: Path, place: Path) -> None:
    """Write the list that `cuassay audit` reads."""
    lines = [
        {
            "problem": str((packed / kernel.problem).absolute()),
            "candidate": str((packed / kernel.path).absolute()),
            "name": kernel.key,
            "author": kernel.model or "not published",
            "family": operator_family(kernel.operator),
        }
        for kernel in kernels
    ]
    place.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def judge(given: argparse.Namespace, kernels: Sequence[Kernel], device: str) -> None:
    """Judge kernels by `cuassay audit` until all are done or the time is up."""
    again = "-again" if given.again else ""
    round_ = f"-{given.round}" if given.round else ""
    folder = given.runs.absolute() / f"{given.profile}{again}{round_}-{device}-{given.part}"
    given.runs.mkdir(parents=True, exist_ok=True)
    listed = folder.with_suffix(".jsonl")
    write_list(kernels, given.packed, listed)
    _note_call(given, folder, device)
    command = [sys.executable, "-m", "cuassay", "audit", str(listed), "--run", str(folder)]
    command += ["--profile", given.profile, "--device", device, "--timeout", f"{given.each:g}s"]
    if given.lanes:
        command += ["--lanes", str(given.lanes)]
    if given.limit_s:
        # Most trials take less than half of the longest: what begins later would hardly end.
        command += ["--budget", f"{max(given.limit_s - given.each / 2, 1.0):g}s"]
    environment = os.environ | {
        "CUASSAY_HOME": str(given.runs.absolute() / "home"),
        "PYTHONPATH": source_path(),
    }
    environment.setdefault("OMP_NUM_THREADS", "1")
    # Candidates may write into the working directory: it must not be anybody's.
    with tempfile.TemporaryDirectory(prefix="cuassay-public-audit-") as nowhere:
        process = subprocess.Popen(command, cwd=nowhere, env=environment, start_new_session=True)
        try:
            process.wait(given.limit_s or None)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            _end(process)


def _note_call(given: argparse.Namespace, folder: Path, device: str) -> None:
    """Note which version and machine judge from the next result on."""
    note: dict[str, Any] = {
        "begins_after": results_written(folder),
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "version": __version__,
        "device": device,
        "profile": given.profile,
        "again": bool(given.again),
        "machine": machine(),
    }
    with open(calls_file(folder), "a", encoding="utf-8") as out:
        out.write(json.dumps(note) + "\n")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the audit, which keeps what ended; kill what does not end by itself."""
    for number, patience_s in ((signal.SIGINT, 20.0), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def progress(rows: Iterable[Row], kernels: Sequence[Kernel], given: argparse.Namespace) -> str:
    """Return one line: how many kernels of this call have a row of its profile, with its seeds."""
    done = {
        row.key for row in rows if row.profile == given.profile and row.again is bool(given.again)
    }
    count = sum(kernel.key in done for kernel in kernels)
    return f"{given.profile}: {count} of {len(kernels)} kernels have a row"


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge what is left, or write the report; 2 where there is nothing to read."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    if given.report:
        return public_audit_report.write(given)
    if given.sets is None and not (given.packed / "kernels.json").is_file():
        print(f"{given.packed} holds no packed sets: give --sets DIR with local copies of them")
        return 2
    if not (given.packed / "kernels.json").is_file():
        pack(given.sets, given.labels, given.packed, SETS)
    import torch

    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    kernels = read_index(given.packed)
    given.runs.mkdir(parents=True, exist_ok=True)
    write_index(kernels, given.runs)
    if given.import_rows:
        for file in given.import_rows:
            found = import_rows(file, given.runs, Origin(**json.loads(given.origin)))
            print(f"{file}: {len(found)} rows")
        return 0
    # A lane stays with a problem: a call that few kernels fit into would see few problems.
    wanted = chosen(given, kernels, device)[: given.first or None]
    if not wanted:
        print("no kernel is left that this call wants")
        return 0
    judge(given, wanted, device)
    print(progress(read_rows(given.runs), wanted, given))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
