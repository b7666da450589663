"""The corpus of tests/machine below compute-sanitizer: what its four tools find of each fault.

Every planted fault runs below every tool, and so does every twin, each in a process of its own
(a fault may take the context with it), several side by side. Per fault: which tools reported an
error, which a warning, and the seconds. A tool that reports anything of a twin is counted as a
false alarm. Needs an NVIDIA GPU and compute-sanitizer (CUDA_HOME, PATH, or the wheel
nvidia-cuda-sanitizer-api). A run that has not ended after 15 s is stopped: planted deadlocks do not
end. Every row is on disk as soon as it is there, the same call goes on where an earlier one
ended, and the result says how many of the planned runs it holds. Writes
machine-sanitizer-<device>.json into $OUT, else into benchmarks/results.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
for place in (str(ROOT), str(ROOT / "src")):
    if place not in sys.path:
        sys.path.insert(0, place)

import numpy as np  # noqa: E402
from common import machine  # noqa: E402
from tests.machine.case import Empty, Kernel, Number, Tile  # noqa: E402
from tests.machine.corpus import FAULTS, KERNELS, driver_map, planted  # noqa: E402

from cuassay.build.driver import load_driver  # noqa: E402
from cuassay.build.nvrtc import compile_ptx  # noqa: E402
from cuassay.checks.sanitizer_report import find_sanitizer, parse  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_LIMIT_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One kernel below one tool; an empty tool is a plain run."""

    name: str
    tool: str


def kernel_named(name: str) -> Kernel:
    """Return a correct kernel or a planted fault by name."""
    if name in KERNELS:
        return KERNELS[name]
    return planted(next(fault for fault in FAULTS if fault.name == name))


def child(name: str) -> int:
    """Run one kernel once through the driver; 1 where the device reports an error."""
    kernel = kernel_named(name)
    driver = load_driver(0)
    ptx = compile_ptx(kernel.text(), arch=kernel.arch, name="kernel.cu")
    function = driver.function(ptx.encode() + b"\0", kernel.entry)
    library = driver._library
    pointers: dict[str, ctypes.c_uint64] = {}
    for buffer, value in kernel.make(np.random.default_rng(0)).items():
        size = value.size * value.dtype.itemsize if isinstance(value, Empty) else value.nbytes
        pointer = ctypes.c_uint64()
        check(library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), "cuMemAlloc")
        if not isinstance(value, Empty):
            data = np.ascontiguousarray(value).tobytes()
            check(library.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(size)), "cuMemcpyHtoD")
        pointers[buffer] = pointer
    arguments: list[Any] = []
    for item in kernel.arguments:
        if isinstance(item, Number):
            raw = item.packed()
            arguments.append((ctypes.c_char * len(raw)).from_buffer_copy(raw))
        elif isinstance(item, Tile):
            raw = driver.tensor_map(driver_map(item, int(pointers[item.buffer].value or 0)))
            arguments.append((ctypes.c_uint64 * 16).from_buffer_copy(raw))
        else:
            arguments.append(pointers[item])
    driver.launch(
        function,
        kernel.grid,
        kernel.block,
        shared_bytes=kernel.shared_bytes,
        stream=0,
        arguments=arguments,
    )
    return int(library.cuCtxSynchronize() != 0)


def check(status: int, what: str) -> None:
    """Raise where a driver call failed."""
    if status != 0:
        raise RuntimeError(f"{what} returned {status}")


def observed(task: Task, binary: str) -> dict[str, Any]:
    """Run a task and return what its tool said."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="cuassay-sanitizer-") as folder:
        report, log = Path(folder) / "report.xml", Path(folder) / "log"
        command = [sys.executable, str(Path(__file__).resolve()), "--child", task.name]
        if task.tool:
            options = ["--tool", task.tool, "--xml", "--save", str(report), "--log-file", str(log)]
            options += ["--print-limit", "32"]
            if task.tool == "initcheck":
                options += address_spaces(binary)
            command = [binary, *options, *command]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
            ended = "ended" if done.returncode == 0 else f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = "no end"
        records = parse(text_of(report), text_of(log)) if task.tool else []
    return {
        "name": task.name,
        "tool": task.tool,
        "ended": ended,
        "errors": [record.text for record in records if record.level == "error"][:3],
        "warnings": [record.text for record in records if record.level == "warning"][:3],
        "seconds": round(time.perf_counter() - started, 3),
    }


def text_of(path: Path) -> str:
    """Return a file's text, empty where there is none."""
    return path.read_text(errors="replace") if path.is_file() else ""


def address_spaces(binary: str) -> list[str]:
    """Return the option that makes initcheck look at shared memory, where it is known."""
    told = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False).stdout
    return ["--initcheck-address-space", "all"] if "--initcheck-address-space" in told else []


def main(arguments: Sequence[str]) -> int:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit-s", type=float, default=1e9, help="begin no run after that")
    chosen = parser.parse_args(arguments)
    if chosen.child:
        return child(chosen.child)
    binary = find_sanitizer()
    if not binary:
        print("compute-sanitizer was not found (CUDA_HOME, PATH): nothing was run")
        return 3
    faults = [f for f in FAULTS if not chosen.only or any(part in f.name for part in chosen.only)]
    twins = sorted({fault.twin for fault in faults})
    names = [*(fault.name for fault in faults), *twins]
    tasks = [Task(name=name, tool=tool) for name in names for tool in TOOLS]
    tasks += [Task(name=name, tool="") for name in twins]
    target = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    target.mkdir(parents=True, exist_ok=True)
    rows = all_rows(tasks, binary, chosen, target / "machine-sanitizer.ndjson")
    document = summary({fault.name: fault.kind for fault in faults}, rows, binary)
    document |= {"runs": len(rows), "planned": len(tasks)}
    slug = machine()["device"].lower().replace("nvidia ", "").replace(" ", "-")
    path = target / f"machine-sanitizer-{slug}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document["classes"], indent=1))
    print("false alarms on twins:", document["false_alarms"])
    return 0


def all_rows(
    tasks: Sequence[Task], binary: str, chosen: argparse.Namespace, journal: Path
) -> list[dict[str, Any]]:
    """Return the rows of all tasks that a journal holds or that the time allows to run."""
    rows = [json.loads(line) for line in text_of(journal).splitlines()]
    done = {(row["name"], row["tool"]) for row in rows}
    until = time.monotonic() + chosen.limit_s
    left = [task for task in tasks if (task.name, task.tool) not in done]

    def run(task: Task) -> dict[str, Any] | None:
        return observed(task, binary) if time.monotonic() < until else None

    with ThreadPoolExecutor(chosen.processes) as pool, journal.open("a", buffering=1) as out:
        for row in filter(None, pool.map(run, left)):
            out.write(json.dumps(row) + "\n")
            rows.append(row)
    return rows


def summary(
    kinds: Mapping[str, str], rows: Sequence[Mapping[str, Any]], binary: str
) -> dict[str, Any]:
    """Return found and missed by class, false alarms on twins, and every row."""
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    by_fault: dict[str, list[str]] = {name: [] for name in kinds}
    alarms = []
    for row in rows:
        spoke = bool(row["errors"] or row["warnings"])
        if row["name"] in by_fault and spoke:
            by_fault[row["name"]].append(row["tool"])
        elif row["name"] not in by_fault and spoke:
            alarms.append(f"{row['tool']}: {row['name']}: {[*row['errors'], *row['warnings']][0]}")
    classes: dict[str, dict[str, int]] = {}
    for name, kind in kinds.items():
        counts = classes.setdefault(kind, {"found": 0, "missed": 0})
        counts["found" if by_fault[name] else "missed"] += 1
    return {
        "sanitizer": told.strip().splitlines()[-1:],
        "date": time.strftime("%Y-%m-%d"),
        "classes": classes,
        "found_by": by_fault,
        "false_alarms": alarms,
        "seconds": {
            t or "plain": sum(r["seconds"] for r in rows if r["tool"] == t) for t in ("", *TOOLS)
        },
        "rows": list(rows),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
