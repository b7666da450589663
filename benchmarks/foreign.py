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
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from common import ROOT, save

PACKED = ROOT / "build" / "foreign"
_COPY = ("definition.json", "workload.jsonl", "reference.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A problem and its own reference as a candidate; paths below the packed folder."""

    set: str
    name: str
    problem: str
    candidate: str

    @property
    def key(self) -> str:
        """What identifies the problem in a journal."""
        return f"{self.set}/{self.name}"


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

    @property
    def id(self) -> str:
        """What a resumed run looks for."""
        return f"{self.device}/{self.mode}/{self.seed}/{self.key}"


def sol(foreign: Path, out: Path) -> Iterator[Item]:
    """SOL-ExecBench: the 235 problems."""
    for folder in sorted((foreign / "sol" / "problems").iterdir(), key=lambda p: int(p.name)):
        place = out / "sol" / folder.name
        place.mkdir(parents=True)
        for name in _COPY:
            if (folder / name).is_file():
                shutil.copy(folder / name, place / name)
        source = json.loads((folder / "definition.json").read_text(encoding="utf-8"))["reference"]
        (place / "candidate.py").write_text(source, encoding="utf-8")
        yield Item(
            set="sol",
            name=folder.name,
            problem=f"sol/{folder.name}",
            candidate=f"sol/{folder.name}/candidate.py",
        )


def kernelbench(foreign: Path, out: Path) -> Iterator[Item]:
    """KernelBench: the problems of levels 1 to 4."""
    for file in sorted((foreign / "kernelbench" / "KernelBench").glob("level*/*.py")):
        place = out / "kernelbench" / file.parent.name / file.stem
        place.mkdir(parents=True)
        text = file.read_text(encoding="utf-8")
        (place / "problem.py").write_text(text, encoding="utf-8")
        (place / "candidate.py").write_text(f"{text}\n\nModelNew = Model\n", encoding="utf-8")
        where = str(place.relative_to(out))
        yield Item(
            set="kernelbench",
            name=f"{file.parent.name}/{file.stem}",
            problem=f"{where}/problem.py",
            candidate=f"{where}/candidate.py",
        )


def gpumode(foreign: Path, out: Path) -> Iterator[Item]:
    """GPU MODE's reference kernels of one GPU."""
    root = foreign / "reference-kernels" / "problems"
    for task in sorted(root.glob("*/*/task.y*ml")):
        if "distributed" in str(task):
            continue
        place = out / "gpumode" / task.parent.parent.name / task.parent.name
        shutil.copytree(task.parent, place, ignore=shutil.ignore_patterns("submission*", "*.cu"))
        for shared in task.parent.parent.glob("*.py"):
            shutil.copy(shared, place.parent / shared.name)
        if not (place / "reference.py").is_file():
            continue
        text = (place / "reference.py").read_text(encoding="utf-8")
        text += "\n\ndef custom_kernel(data):\n    return ref_kernel(data)\n"
        (place / "candidate.py").write_text(text, encoding="utf-8")
        where = str(place.relative_to(out))
        yield Item(
            set="gpumode",
            name=f"{task.parent.parent.name}/{task.parent.name}",
            problem=where,
            candidate=f"{where}/candidate.py",
        )


SETS = {"sol": sol, "kernelbench": kernelbench, "gpumode": gpumode}


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--pack", type=Path, metavar="FOREIGN", help="copy the sets and stop")
    parser.add_argument("--packed", type=Path, default=PACKED)
    parser.add_argument("--sets", nargs="*", default=["sol"], choices=sorted(SETS))
    parser.add_argument("--only", nargs="*", help="only these problems, by name")
    parser.add_argument("--draw", type=int, default=0, help="only this many, drawn by --draw-seed")
    parser.add_argument("--draw-seed", type=int, default=19)
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--ready", action="store_true", help="stop once the first truth is made")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="", help="cpu or cuda; cuda where there is one")
    parser.add_argument("--gpu-memory", default="", help="given to each trial, such as 8GiB")
    parser.add_argument("--jobs", type=int, default=2, help="trials side by side, over all GPUs")
    parser.add_argument("--each", type=float, default=240.0, help="seconds for one trial")
    parser.add_argument("--time-limit", type=float, default=0.0, help="seconds for all; 0: none")
    parser.add_argument("--resume", action="store_true", help="keep what the last run finished")
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
    from cuassay.judge.smoke import smallest_case, smoke
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.verdict import Profile

    found: dict[str, Any] = {"ending": "READY", "reason": ""}
    try:
        problem = load_problem(place)
        reference = load_reference(problem)
        trial = JudgeTrial(problem, reference, profile=Profile.QUICK, device=device, root_seed=seed)
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


class Device:
    """Watches how much of a GPU's memory is in use, while it is entered."""

    def __init__(self, gpu: int | None) -> None:
        self._gpu, self._done = gpu, threading.Event()
        self._most_mib = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Device:
        if self._gpu is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._gpu is not None:
            self._thread.join()

    @property
    def most_gib(self) -> float | None:
        """The most that was in use; None where nobody could tell."""
        return round(self._most_mib / 1024, 2) if self._most_mib else None

    def _watch(self) -> None:
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while not self._done.wait(0.25):
            try:
                said = subprocess.run(
                    [*command, f"--id={self._gpu}"], capture_output=True, text=True, timeout=10
                ).stdout
                self._most_mib = max(self._most_mib, int(said.strip()))
            except (OSError, ValueError, subprocess.TimeoutExpired):
                return


class Bench:
    """Runs trials side by side until all are done or the time is up."""

    def __init__(self, given: argparse.Namespace, device: str, gpus: int) -> None:
        self._given, self._device, self._gpus = given, device, gpus
        self._mode = "ready" if given.ready else given.profile
        self._lock = threading.Lock()
        self._deadline = time.monotonic() + (given.time_limit or float("inf"))
        self._journal = journal_path(given, device)
        self.rows: dict[str, Row] = {}
        if given.resume:
            rows = read_rows(self._journal)
            self.rows = {row.id: row for row in rows if row.ending not in given.again}
        else:
            self._journal.unlink(missing_ok=True)
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        self._home = Path(tempfile.mkdtemp(prefix="cuassay-foreign-"))

    def run(self, items: Sequence[Item]) -> None:
        """Try every problem that has no row yet."""
        places, slots = threading.local(), iter(range(10**9))

        def one(item: Item) -> None:
            if not hasattr(places, "number"):
                with self._lock:
                    places.number = next(slots)
            row = self._tried(item, places.number)
            if row is not None:
                self._keep(row)

        head = f"{self._device}/{self._mode}/{self._given.seed}"
        left = [item for item in items if f"{head}/{item.key}" not in self.rows]
        with ThreadPoolExecutor(self._given.jobs) as pool:
            for task in [pool.submit(one, item) for item in left]:
                task.result()

    def _keep(self, row: Row) -> None:
        with self._lock:
            self.rows[row.id] = row
            with open(self._journal, "a", encoding="utf-8") as out:
                out.write(json.dumps(asdict(row)) + "\n")
            memory = f"judge {row.gpu_gib:.1f} GiB" if row.gpu_gib is not None else ""
            if row.device_gib is not None:
                memory += f", device {row.device_gib:.1f} GiB"
            print(
                f"{row.key:28s}{row.ending:13s}{row.seconds:6.1f} s {memory} "
                f"{' '.join(row.checks)} {row.reason[:140]}",
                flush=True,
            )

    def _tried(self, item: Item, slot: int) -> Row | None:
        left_s = self._deadline - time.monotonic()
        if left_s < 5.0:
            return None
        given, folder = self._given, self._given.packed
        environment = os.environ | {
            "CUASSAY_HOME": str(self._home / f"slot{slot}"),
            "PYTHONPATH": os.pathsep.join(
                filter(
                    None,
                    [
                        str(ROOT / "src"),
                        str(ROOT / "packages" / "ptxsan" / "src"),
                        os.environ.get("PYTHONPATH", ""),
                    ],
                )
            ),
        }
        environment.setdefault("OMP_NUM_THREADS", "1")
        if self._device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = str(slot % self._gpus)
        problem = str(folder / item.problem)
        if given.ready:
            command = [sys.executable, __file__, "--one", problem, "--device", self._device]
            command += ["--seed", str(given.seed)]
        else:
            command = [sys.executable, "-m", "cuassay", "check", str(folder / item.candidate)]
            command += ["--problem", problem, "--profile", given.profile, "--json"]
            command += ["--device", self._device, "--seed", str(given.seed)]
            if given.gpu_memory:
                command += ["--gpu-memory", given.gpu_memory]
        started = time.monotonic()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        timed_out = False
        watch = Device(slot % self._gpus if self._device == "cuda" else None)
        with watch:
            try:
                said, errors = process.communicate(timeout=min(given.each, left_s))
            except subprocess.TimeoutExpired:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)
                said, errors = process.communicate()
        seconds = round(time.monotonic() - started, 1)
        if timed_out and seconds < given.each:
            return None
        row = self._row(item, said, errors, process.returncode, seconds, timed_out=timed_out)
        return replace(row, device_gib=watch.most_gib)

    def _row(
        self,
        item: Item,
        said: str,
        errors: str,
        code: int,
        seconds: float,
        *,
        timed_out: bool,
    ) -> Row:
        document: dict[str, Any] = {}
        for line in (said, said.strip().rpartition("\n")[2]):
            try:
                document = json.loads(line)
                break
            except json.JSONDecodeError:
                continue
        ending = str(document.get("verdict") or document.get("ending") or "")
        if not ending:
            ending = "TIMEOUT" if timed_out else {2: "REFUSED", 3: "STOPPED"}.get(code, "ERROR")
        environment: Mapping[str, str] = document.get("environment") or {}
        peak = environment.get("judge_gpu_peak_gib")
        return Row(
            key=item.key,
            mode=self._mode,
            device=self._device,
            seed=self._given.seed,
            ending=ending,
            seconds=seconds,
            reason=str(document.get("reason") or errors[-500:])[:500],
            checks=tuple(
                f"{one['code']}:{one['outcome']}"
                for one in document.get("checks", ())
                if one["outcome"] in ("failed", "inconclusive", "errored")
            ),
            conditions=tuple(str(one).split(":", 1)[0] for one in document.get("conditions", ())),
            gpu_gib=float(peak) if peak else None,
            host_gib=document.get("host_gib"),
        )


def journal_path(given: argparse.Namespace, device: str) -> Path:
    """Return the journal of this device."""
    place: Path = given.journal or ROOT / "build" / f"foreign-{device}.ndjson"
    return place


def read_rows(journal: Path) -> list[Row]:
    """Return the rows of a journal, the last of each trial; none where there is no journal."""
    if not journal.is_file():
        return []
    found: dict[str, Row] = {}
    for text in journal.read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        lists = {name: tuple(row[name]) for name in ("checks", "conditions")}
        made = Row(**{**row, **lists})
        found[made.id] = made
    return list(found.values())


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
        shutil.rmtree(given.packed, ignore_errors=True)
        items = [item for name in given.sets for item in SETS[name](given.pack, given.packed)]
        text = json.dumps([asdict(item) for item in items], indent=1)
        (given.packed / "items.json").write_text(text + "\n", encoding="utf-8")
        print(f"{len(items)} problems packed in {given.packed}")
        return 0
    import torch

    gpus = torch.cuda.device_count()
    device = given.device or ("cuda" if gpus else "cpu")
    if given.report:
        show(read_rows(journal_path(given, device)))
        return 0
    packed = json.loads((given.packed / "items.json").read_text(encoding="utf-8"))
    items = [Item(**row) for row in packed if row["set"] in given.sets]
    if given.only:
        items = [item for item in items if item.name in given.only]
    if given.draw:
        chosen = random.Random(given.draw_seed)
        items = chosen.sample(items, min(given.draw, len(items)))
    bench = Bench(given, device, max(gpus, 1))
    bench.run(items)
    found = show(list(bench.rows.values()))
    save("foreign", found)
    return int(any(row.ending not in ("ACCEPTED", "READY") for row in bench.rows.values()))


if __name__ == "__main__":
    raise SystemExit(main())
