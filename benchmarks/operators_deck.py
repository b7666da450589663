"""The operators that people write kernels for in 2026: verdicts on kernelbench.com's H100 runs.

    python benchmarks/operators_deck.py --pack FOLDER     # the set kernelbench.com to build/deck
    python benchmarks/operators_deck.py --jobs 1          # judge what was packed, on a GPU
    python benchmarks/operators_deck.py --report          # the tables from the rows of a run

FOLDER is as benchmarks/kernel_sets.py says. Rows are written as they come, with the whole verdict
of each in `verdicts.ndjson.xz` beside them; `--resume` runs what is left. Seconds and memory mean
something with one job a GPU alone: `beside` of a row says how many trials shared its GPU.
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from common import ROOT, save
from kernel_sets import Kernel, pack, read_index
from trials import (
    Ended,
    Journal,
    Judged,
    Place,
    SideBySide,
    check_command,
    read_journal,
    read_verdict,
)

PACKED = ROOT / "build" / "deck"
_READINGS = Path(__file__).with_name("operators_deck_readings.json")
_KEPT = Path(__file__).parent / "results" / "operators-deck-h200.json"
_SET = "kernelbench.com"
_JUDGED = ("ACCEPTED", "REJECTED")
_ACCEPTED = "the precision policy accepts it"  # what a verdict says of such a mutant
_LONGEST_S = 60.0  # what the first verdict on a kernel may take, its build included


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Judged):
    """How cuassay judged one kernel; see `Judged`.

    `axes` counts the sizes that each axis had. `killed` of `mutants` were told from the reference,
    `accepted` are what the policy accepts. `peak_mib` is what the GPU held at most, beyond what it
    held before; `beside` how many trials shared it.
    """

    operator: str
    model: str
    theirs: bool | None
    beside: int
    axes: dict[str, int] = field(default_factory=dict)
    mutants: int = 0
    killed: int = 0
    accepted: int = 0
    survivors: tuple[str, ...] = ()
    peak_mib: int = 0
    diagnoses: tuple[str, ...] = ()
    unsettled: dict[str, str] = field(default_factory=dict)
    timing_s: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What identifies the row in a journal."""
        return f"{self.device}/{self.name}"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pack", type=Path, metavar="FOREIGN", help="copy the set and stop")
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--only", nargs="*", help="only kernels with one of these in their name")
    parser.add_argument("--device", default="", help="cpu or cuda; cuda where there is one")
    parser.add_argument(
        "--budget", default="60s", help="of each trial, as `cuassay check` takes it"
    )
    parser.add_argument("--gpu-memory", default="", help="given to each trial, such as 24GiB")
    SideBySide.add_options(parser, "kernel", jobs=1, each_s=240.0)
    parser.add_argument("--rows", type=Path, default=ROOT / "build" / "deck-rows")
    parser.add_argument("--home", type=Path, help="build caches kept between runs; else none are")
    parser.add_argument("--report", action="store_true", help="print the tables and stop")
    return parser.parse_args(arguments)


class Bench:
    """Judges kernels side by side until all are done or the time is up."""

    def __init__(self, given: argparse.Namespace, device: str, gpus: int) -> None:
        self._given, self._device = given, device
        self._journal = Journal(
            given.rows / f"rows-{device}.ndjson", Row, lambda row: row.key, resume=given.resume
        )
        self._trials = SideBySide.asked_for(given, device=device, gpus=gpus)
        self._beside = -(-given.jobs // max(gpus, 1))
        self._lock = threading.Lock()

    @property
    def rows(self) -> list[Row]:
        """The rows so far, those of the journal that is resumed first."""
        return list(self._journal.rows.values())

    def run(self, kernels: Sequence[Kernel]) -> None:
        """Judge every kernel that has no row yet."""
        left = [one for one in kernels if f"{self._device}/{one.name}" not in self._journal.rows]
        with memory_watched(on_gpu=self._device == "cuda") as memory:
            self._trials.all(left, lambda kernel, place: self._judge(kernel, place, memory))

    def _judge(self, kernel: Kernel, place: Place, memory: MemoryWatch) -> None:
        given = self._given
        command = check_command(
            kernel,
            given.packed,
            "--budget",
            given.budget,
            profile=given.profile,
            device=self._device,
            gpu_memory=given.gpu_memory,
        )
        before = memory.begin(place.gpu)
        ended = self._trials.end(command, place)
        if ended is None:
            return
        row, document = self._row(kernel, ended, peak_mib=memory.peak(place.gpu) - before)
        with self._lock, lzma.open(self._given.rows / "verdicts.ndjson.xz", "at") as out:
            out.write(json.dumps({"name": kernel.name, "verdict": document}) + "\n")
        found = " ".join(f"{code} x{count}" for code, count in row.checks.items())
        self._journal.keep(
            row,
            f"{row.operator:20s}{row.model:18.18s}{row.decision:13s}{row.seconds:6.1f} s  "
            f"{row.judged}/{row.made} launches  {row.killed}/{row.mutants} mutants  "
            f"{found or row.reason[:90]}",
        )

    def _row(self, kernel: Kernel, ended: Ended, *, peak_mib: int) -> tuple[Row, Any]:
        document, judged = read_verdict(kernel, ended, self._device)
        power = document.get("power") or {}
        row = Row(
            **{one.name: getattr(judged, one.name) for one in fields(judged)},
            operator=kernel.operator,
            model=kernel.model,
            theirs=kernel.theirs,
            beside=self._beside,
            axes={one["axis"]: len(one["values"]) for one in document.get("coverage", ())},
            mutants=int(power.get("mutants") or 0),
            killed=int(power.get("killed") or 0),
            accepted=sum(_ACCEPTED in str(one) for one in power.get("survivors", ())),
            survivors=tuple(str(one)[:160] for one in power.get("survivors", ())),
            peak_mib=max(peak_mib, 0),
            diagnoses=tuple(
                f"{one['cause']}: {one['words']}"[:300] for one in document.get("diagnoses", ())
            ),
            unsettled={
                one["code"]: f"{one['outcome']}: {one['reason']}"[:200]
                for one in document.get("checks", ())
                if one["outcome"] not in ("passed", "failed", "skipped")
            },
            timing_s={k: round(v, 1) for k, v in (document.get("timing_s") or {}).items() if v},
        )
        return row, document


class MemoryWatch:
    """What nvidia-smi says that each GPU holds, in MiB; nothing where there is none."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}
        self._peak: dict[int, int] = {}

    def see(self, gpu: int, held_mib: int) -> None:
        """Keep one reading."""
        self._now[gpu] = held_mib
        self._peak[gpu] = max(held_mib, self._peak.get(gpu, 0))

    def begin(self, gpu: int | None) -> int:
        """Return what a GPU holds now, and let its peak begin there."""
        if gpu is None:
            return 0
        self._peak[gpu] = self._now.get(gpu, 0)
        return self._peak[gpu]

    def peak(self, gpu: int | None) -> int:
        """Return the most that a GPU held since `begin`."""
        return 0 if gpu is None else self._peak.get(gpu, 0)


@contextmanager
def memory_watched(*, on_gpu: bool) -> Iterator[MemoryWatch]:
    """Read the memory that GPUs hold four times a second."""
    watch = MemoryWatch()
    if not on_gpu:
        yield watch
        return
    command = ["nvidia-smi", "--query-gpu=index,memory.used", "--format=csv,noheader,nounits"]
    process = subprocess.Popen([*command, "-lms", "250"], stdout=subprocess.PIPE, text=True)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            index, _, held = line.partition(",")
            if index.strip().isdigit() and held.strip().isdigit():
                watch.see(int(index), int(held))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield watch
    finally:
        process.terminate()
        process.wait()


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Return what holds of some kernels: verdicts, seconds, launches, power, memory, axes."""
    seconds = [row.seconds for row in rows if row.decision in _JUDGED]
    made, judged = sum(row.made for row in rows), sum(row.judged for row in rows)
    mutants, killed = sum(row.mutants for row in rows), sum(row.killed for row in rows)
    causes: Counter[str] = Counter()
    axes: dict[str, int] = {}
    for row in rows:
        causes.update(row.causes)
        for axis, sizes in row.axes.items():
            axes[axis] = max(axes.get(axis, 0), sizes)
    return {
        "kernels": len(rows),
        "verdicts": dict(Counter(row.decision for row in rows)),
        "median_s": round(statistics.median(seconds), 1) if seconds else None,
        "worst_s": max(seconds, default=None),
        f"beyond {_LONGEST_S:.0f} s": sum(one > _LONGEST_S for one in seconds),
        "launches": {"made": made, "judged": judged, "causes": dict(causes.most_common())},
        "power": {
            "mutants": mutants,
            "killed": killed,
            "accepted by the policy": sum(row.accepted for row in rows),
        },
        "peak_mib": max((row.peak_mib for row in rows), default=0),
        "axes": axes,
        "kernels without a launch judged": sum(not row.judged for row in rows),
    }


def read_readings() -> Mapping[str, Mapping[str, str]]:
    """Return what reading the source of a kernel showed: by name, `is` and `why`."""
    if not _READINGS.is_file():
        return {}
    found: dict[str, dict[str, str]] = json.loads(_READINGS.read_text(encoding="utf-8"))
    return found


def names_judged() -> frozenset[str]:
    """Return the kernels that the runs of the kept results have a verdict of."""
    if not _KEPT.is_file():
        return frozenset()
    rows = json.loads(_KEPT.read_text(encoding="utf-8"))["results"]["rows"]
    return frozenset(str(row["name"]) for row in rows if row["decision"] in _JUDGED)


def show(rows: Sequence[Row]) -> dict[str, Any]:
    """Print the tables and return the summaries by operator."""
    readings = read_readings()
    found = {}
    for operator in sorted({row.operator for row in rows}):
        of = [row for row in rows if row.operator == operator]
        found[operator] = counted = summary(of)
        print(f"\n{operator}")
        for name, value in counted.items():
            print(f"  {name:34s}{value}")
        for row in of:
            reading = readings.get(row.name, {})
            print(
                f"  {row.name[:15]} {row.model:22.22s}{row.decision:13s}{row.seconds:6.1f} s "
                f"{row.judged}/{row.made} {row.killed}/{row.mutants} "
                f"[{reading.get('is', 'not read')}] "
                f"{'; '.join(row.diagnoses)[:150] or row.reason[:150]}"
            )
    whole = summary(rows)
    print(f"\nall: {whole}")
    return {"all": whole, "operators": found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack, judge or report; 1 where a kernel that was read as right is rejected."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    if given.pack:
        kernels = pack(given.pack, None, given.packed, [_SET])
        print(f"{len(kernels)} kernels packed in {given.packed}")
        return 0
    import torch

    gpus = torch.cuda.device_count()
    device = given.device or ("cuda" if gpus else "cpu")
    if given.report:
        rows = read_journal(given.rows / f"rows-{device}.ndjson", Row)
    else:
        kernels = [one for one in read_index(given.packed) if one.set == _SET]
        if given.only:
            kernels = [one for one in kernels if any(word in one.name for word in given.only)]
        # The operators in turns, of each those first that no earlier run judged, in an order that
        # nobody chose: a run that is cut short has then seen all operators, and new kernels.
        seen_before = names_judged()
        kernels.sort(key=lambda kernel: (kernel.name in seen_before, kernel.digest))
        seen: Counter[str] = Counter()
        turns = {}
        for kernel in kernels:
            turns[kernel.name] = seen[kernel.operator]
            seen[kernel.operator] += 1
        kernels.sort(key=lambda kernel: (turns[kernel.name], kernel.operator))
        bench = Bench(given, device, gpus)
        bench.run(kernels)
        rows = bench.rows
    found = show(rows)
    readings = read_readings()
    kept = [
        {
            **{name: getattr(row, name) for name in
               ("name", "operator", "language", "model", "theirs", "decision", "seconds", "beside",
                "axes", "made", "judged", "causes", "mutants", "killed", "accepted", "survivors",
                "peak_mib", "checks", "diagnoses", "conditions")},
            "read": dict(readings.get(row.name, {})),
        }
        for row in rows
    ]  # fmt: skip
    print(f"results: {save('operators-deck', {'summaries': found, 'rows': kept})}")
    alarms = [
        row.name
        for row in rows
        if row.decision == "REJECTED" and readings.get(row.name, {}).get("is") == "right"
    ]
    print(f"false alarms: {' '.join(alarms) or 'none'}")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
