"""Problems that nobody here wrote, each with its own reference as the candidate.

    python benchmarks/foreign.py --pack FOLDER                 # copies to build/foreign
    python benchmarks/foreign.py --profile quick --jobs 6 --time-limit 560 --resume
    python benchmarks/foreign.py --ready --jobs 2              # only as far as a first truth

A reference has to be ACCEPTED: whatever else comes out is a fault of cuassay. `--ready` stops
once a problem's files are read, its sizes are learnt and the truth of its smallest case is made.
Rows are written as they come and hold names and counts; `--resume` runs what is left.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from common import ROOT, save
from kernel_sets import Kernel, pack, read_index
from trials import Ended, Journal, Place, SideBySide, read_journal

PACKED = ROOT / "build" / "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How one trial ended. `ending` is a verdict, READY, REFUSED (exit 2), STOPPED or TIMEOUT.

    `gpu_gib` is the judge's peak of reserved GPU memory, `device_gib` the most that all processes
    held on the GPU while it ran (its own where trials run alone), `host_gib` the largest process.
    """

    key: str
    mode: str
    device: str
    seed: int
    ending: str
    seconds: float
    reason: str = ""
    checks: tuple[str, ...] = ()  # that failed or could not decide
    conditions: tuple[str, ...] = ()
    gpu_gib: float | None = None
    host_gib: float | None = None
    device_gib: float | None = None
    slowest: tuple[str, ...] = ()  # where a trial's time went: the start, then checks, seconds each
    lanes: tuple[str, ...] = ()  # seconds by who spent them
    spans: tuple[str, ...] = ()  # the longest spans below the checks: lane, what, seconds

    @property
    def id(self) -> str:
        """What a resumed run looks for."""
        return f"{self.device}/{self.mode}/{self.seed}/{self.key}"


# The names of the command line and of rows, as docs/contract.md has them.
SETS = {
    "sol": "sol-references",
    "kernelbench": "kernelbench-references",
    "gpumode": "gpumode-references",
    "flashinfer": "flashinfer-references",
}
_SLOWEST = 6  # parts of a trial's time in its row
_LOG_CHARACTERS = 30_000
_SPANS = 12  # the longest spans of a trial in its row


def key_of(kernel: Kernel) -> str:
    """Return what identifies a problem in a journal."""
    return f"{kernel.set.removesuffix('-references')}/{kernel.name}"


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pack", type=Path, metavar="FOREIGN", help="copy the sets and stop")
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--sets", nargs="*", default=["sol"], choices=sorted(SETS))
    parser.add_argument("--only", nargs="*", help="only these problems, by name")
    parser.add_argument("--draw", type=int, default=0, help="only this many, drawn by --draw-seed")
    parser.add_argument("--draw-seed", type=int, default=19)
    parser.add_argument("--first", nargs="*", default=[], help="begin with these, in this order")
    parser.add_argument("--last", nargs="*", default=[], help="end with these, by name")
    parser.add_argument("--without", nargs="*", default=[], help="not these, by name")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--ready", action="store_true", help="stop once the first truth is made")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="", help="cpu or cuda; cuda where there is one")
    parser.add_argument("--gpu-memory", default="", help="given to each trial, such as 8GiB")
    SideBySide.add_options(parser, "trial", jobs=2, each_s=240.0)
    parser.add_argument("--again", nargs="*", default=[], help="endings to run again on --resume")
    parser.add_argument("--journal", type=Path, help="where rows go as they come")
    parser.add_argument("--report", action="store_true", help="print the journal's table and stop")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def ready(place: str, device: str, seed: int) -> dict[str, Any]:
    """Return how far one problem gets: its files, the sizes learnt, the first truth."""
    from cuassay.errors import CuassayError, UsageError
    from cuassay.formats import load_problem
    from cuassay.formats.execute import load_reference
    from cuassay.judge.plan.smoke import smallest_case, smoke
    from cuassay.judge.run.bookings import Booking, gpu_of
    from cuassay.judge.trial import open_trial
    from cuassay.model.device import Device
    from cuassay.model.verdict import Profile

    found: dict[str, Any] = {"ending": "READY", "reason": ""}
    where = Device(device)
    booking = Booking(gpu_of(where))  # given up when this process ends
    try:
        problem = load_problem(place)
        reference = load_reference(problem)
        trial = open_trial(problem, reference, profile=Profile.QUICK, device=where, root_seed=seed)
        trial.book(booking)
        smoke(trial)
        case = smallest_case(trial)
        own = "own values" if case.benchmark or case.generator else "values of ours"
        found["reason"] = f"{own} on {dict(case.axes)}"
    except UsageError as error:
        found |= {"ending": "REFUSED", "reason": str(error)}
    except CuassayError as error:
        found |= {"ending": "STOPPED", "reason": str(error)}
    except Exception as error:
        found |= {"ending": "ERROR", "reason": f"{type(error).__name__}: {error}"}
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["host_gib"] = round(usage / 2**20, 2)
    return found


class Devices:
    """Notes how much memory of each GPU is in use, twice a second, while it is entered.

    One process asks for all trials: each new one opens the driver anew.
    """

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._seen: list[tuple[float, int, int]] = []  # when, GPU, MiB in use
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Devices:
        if self._gpus:
            command = ["nvidia-smi", "--query-gpu=index,memory.used", "-lms", "500"]
            command += ["--format=csv,noheader,nounits"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def most_gib(self, gpu: int | None, since: float) -> float | None:
        """Return the most that was in use of a GPU; None where nobody could tell."""
        found = [mib for when, of, mib in self._seen if of == gpu and when >= since]
        return round(max(found) / 1024, 2) if found else None

    def _read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            with suppress(ValueError):
                gpu, mib = map(int, line.split(","))
                self._seen.append((time.monotonic(), gpu, mib))


class Bench:
    """Runs trials side by side until all are done or the time is up."""

    def __init__(self, given: argparse.Namespace, device: str, gpus: int) -> None:
        self._given, self._device = given, device
        self._mode = "ready" if given.ready else given.profile
        self._journal = Journal(
            journal_path(given, device), Row, lambda row: row.id, resume=given.resume
        )
        self._trials = SideBySide.asked_for(given, device=device, gpus=gpus)
        self._devices = Devices(gpus if device == "cuda" else 0)

    @property
    def rows(self) -> list[Row]:
        """The rows so far, those of the journal that is resumed first."""
        return list(self._journal.rows.values())

    def run(self, kernels: Sequence[Kernel]) -> None:
        """Try every problem that has no row yet, or one whose ending is to be tried again."""
        head = f"{self._device}/{self._mode}/{self._given.seed}"
        done = {row.id for row in self.rows if row.ending not in self._given.again}
        left = [kernel for kernel in kernels if f"{head}/{key_of(kernel)}" not in done]
        with self._devices:
            self._trials.all(left, self._try)

    def _try(self, kernel: Kernel, place: Place) -> None:
        given, folder = self._given, self._given.packed
        problem = str(folder / kernel.problem)
        if given.ready:
            command = [sys.executable, __file__, "--one", problem, "--device", self._device]
            command += ["--seed", str(given.seed)]
        else:
            command = [sys.executable, "-m", "cuassay", "check", str(folder / kernel.path)]
            command += ["--problem", problem, "--profile", given.profile, "--json", "-v"]
            command += ["--device", self._device, "--seed", str(given.seed)]
            if given.gpu_memory:
                command += ["--gpu-memory", given.gpu_memory]
        began = time.monotonic()
        ended = self._trials.end(command, place)
        if ended is None:
            return
        most = self._devices.most_gib(place.gpu, began)
        row = replace(self._row(kernel, ended), device_gib=most)
        if row.ending not in ("ACCEPTED", "READY"):
            self._keep_log(row, ended)
        memory = f"judge {row.gpu_gib:.1f} GiB" if row.gpu_gib is not None else ""
        if row.device_gib is not None:
            memory += f", device {row.device_gib:.1f} GiB"
        self._journal.keep(
            row,
            f"{row.key:28s}{row.ending:13s}{row.seconds:6.1f} s {memory} "
            f"{' '.join(row.checks)} {row.reason[:140]}",
        )

    def _keep_log(self, row: Row, ended: Ended) -> None:
        """Write what a trial said on its way beside the journal: where it was, and for how long."""
        journal = journal_path(self._given, self._device)
        logs = journal.with_name(f"{journal.stem}-logs")
        logs.mkdir(parents=True, exist_ok=True)
        name = f"{row.key}-{row.seed}".replace("/", "_")
        (logs / f"{name}.txt").write_text(ended.errors[-_LOG_CHARACTERS:], encoding="utf-8")

    def _row(self, kernel: Kernel, ended: Ended) -> Row:
        document: dict[str, Any] = {}
        for line in (ended.said, ended.said.strip().rpartition("\n")[2]):
            try:
                document = json.loads(line)
                break
            except json.JSONDecodeError:
                continue
        ending = str(document.get("verdict") or document.get("ending") or "")
        if not ending:
            failed = {2: "REFUSED", 3: "STOPPED"}.get(ended.code, "ERROR")
            ending = "TIMEOUT" if ended.timed_out else failed
        environment: Mapping[str, str] = document.get("environment") or {}
        peak = environment.get("judge_gpu_peak_gib")
        return Row(
            key=key_of(kernel),
            mode=self._mode,
            device=self._device,
            seed=self._given.seed,
            ending=ending,
            seconds=ended.seconds,
            reason=str(document.get("reason") or ended.errors[-500:])[:500],
            checks=tuple(
                f"{one['code']}:{one['outcome']}"
                for one in document.get("checks", ())
                if one["outcome"] in ("failed", "inconclusive", "errored")
            ),
            conditions=tuple(str(one).split(":", 1)[0] for one in document.get("conditions", ())),
            gpu_gib=float(peak) if peak else None,
            host_gib=document.get("host_gib"),
            slowest=_slowest(document),
            lanes=_lanes(document),
            spans=_spans(document),
        )


def _slowest(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the seconds before the first check and those of the longest checks."""
    checks = {one["code"]: float(one["duration_s"] or 0) for one in document.get("checks", ())}
    total = float((document.get("timing_s") or {}).get("total") or 0)
    parts = {"beside checks": total - sum(checks.values()), **checks}
    ordered = sorted(parts.items(), key=lambda part: -part[1])[:_SLOWEST]
    return tuple(f"{name} {seconds:.1f}" for name, seconds in ordered if seconds >= 0.1)


def _lanes(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the seconds that each lane spent, the most first; lanes overlap."""
    spent: dict[str, float] = defaultdict(float)
    for span in document.get("timeline", ()):
        spent[span["lane"]] += span["end_s"] - span["begin_s"]
    return tuple(f"{lane} {seconds:.1f}" for lane, seconds in Counter(spent).most_common())


def _spans(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the longest spans that are no check themselves: below checks, and beside them."""
    checks = {one["code"] for one in document.get("checks", ())}
    spans = [span for span in document.get("timeline", ()) if span["what"] not in checks]
    spans.sort(key=lambda span: span["begin_s"] - span["end_s"])
    return tuple(
        f"{one['lane']} {one['what'][:100]} {one['end_s'] - one['begin_s']:.1f}"
        for one in spans[:_SPANS]
    )


def journal_path(given: argparse.Namespace, device: str) -> Path:
    """Return the journal of this device."""
    place: Path = given.journal or ROOT / "build" / f"foreign-{device}.ndjson"
    return place


def read_rows(journal: Path) -> list[Row]:
    """Return the rows of a journal, the last of each trial; none where there is no journal."""
    return list({row.id: row for row in read_journal(journal, Row)}.values())


def show(rows: Sequence[Row]) -> dict[str, Any]:
    """Print, for each set and mode, how many problems ended how, and why the others did."""
    found: dict[str, Any] = {}
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[f"{row.key.split('/')[0]} {row.mode} seed {row.seed} {row.device}"].append(row)
    for name, of in sorted(groups.items()):
        endings = Counter(row.ending for row in of)
        reasons: dict[str, list[str]] = defaultdict(list)
        for row in of:
            if row.ending not in ("ACCEPTED", "READY"):
                why = " ".join(row.checks) or row.reason.strip().rpartition("\n")[2][:90]
                reasons[f"{row.ending}: {why}"].append(row.key.partition("/")[2])
        peaks = [row.gpu_gib for row in of if row.gpu_gib is not None]
        print(f"\n{name}: {len(of)} problems, {dict(endings)}")
        for why, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
            print(f"  {len(names):3d}  {why}: {', '.join(names)}")
        spent: dict[str, float] = defaultdict(float)
        for row in of:
            for part in row.slowest:
                check, _, seconds = part.rpartition(" ")
                spent[check] += float(seconds)
        if spent:
            print("  seconds a trial: " + ", ".join(
                f"{check} {seconds / len(of):.1f}"
                for check, seconds in sorted(spent.items(), key=lambda pair: -pair[1])[:8]
            ))  # fmt: skip
        used = [row.device_gib for row in of if row.device_gib is not None]
        if used:
            print(f"  peak use of a GPU by all processes: {max(used):.1f} GiB")
        if peaks:
            print(f"  peak GPU memory of a judge: {max(peaks):.1f} GiB, "
                  f"above 8 GiB: {sum(peak > 8 for peak in peaks)}")  # fmt: skip
        found[name] = {
            "problems": len(of),
            "endings": dict(endings),
            "others": dict(reasons),
            "rows": [asdict(row) for row in of],
        }
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Pack, run or report; 1 where a reference is not accepted."""
    given = options(sys.argv[1:] if arguments is None else arguments)
    if given.one:
        print(json.dumps(ready(given.one, given.device or "cpu", given.seed)))
        return 0
    if given.pack:
        names = [SETS[name] for name in given.sets]
        kernels = pack(given.pack, None, given.packed, names)
        print(f"{len(kernels)} problems packed in {given.packed}")
        return 0
    import torch

    gpus = torch.cuda.device_count()
    device = given.device or ("cuda" if gpus else "cpu")
    if given.report:
        show(read_rows(journal_path(given, device)))
        return 0
    wanted = {SETS[name] for name in given.sets}
    kernels = [
        kernel
        for kernel in read_index(given.packed)
        if kernel.set in wanted
        and kernel.name not in given.without
        and (not given.only or kernel.name in given.only)
    ]
    # In an order drawn by lot: whenever time ends, what was judged is a fair sample.
    drawn = random.Random(given.draw_seed)
    kernels = drawn.sample(kernels, min(given.draw or len(kernels), len(kernels)))
    place = {name: number for number, name in enumerate(given.first)}
    kernels.sort(key=lambda one: (place.get(one.name, len(place)), one.name in given.last))
    bench = Bench(given, device, max(gpus, 1))
    bench.run(kernels)
    found = show(bench.rows)
    save("foreign", found)
    return int(any(row.ending not in ("ACCEPTED", "READY") for row in bench.rows))


if __name__ == "__main__":
    raise SystemExit(main())
