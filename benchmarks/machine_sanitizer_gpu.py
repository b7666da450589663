"""The corpus of tests/machine below compute-sanitizer: what its four tools find of each fault.

Every planted fault runs once below every tool, and so does every twin. Kernels follow each other
in one process until one takes the context with it or has not ended after 20 s (planted deadlocks
do not end); the next process goes on with the rest. Per fault: which tools reported an error,
which a warning, and the seconds. A tool that reports anything of a twin is counted as a false
alarm. Needs an NVIDIA GPU and compute-sanitizer (CUDA_HOME, PATH, or the wheel
nvidia-cuda-sanitizer-api). Every row is on disk as soon as it is there; the same call goes on
where an earlier one ended. Writes machine-sanitizer-<device>.json into $OUT, else into
benchmarks/results.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PTXSAN = ROOT / "packages" / "ptxsan"
for place in map(str, (ROOT, ROOT / "src", PTXSAN / "src", PTXSAN / "tests")):
    if place not in sys.path:
        sys.path.insert(0, place)

import numpy as np  # noqa: E402
from common import result_path  # noqa: E402
from tests.machine.driver_maps import driver_map  # noqa: E402

from cuassay.build.cuda.driver import load_driver  # noqa: E402
from cuassay.build.cuda.nvrtc import compile_ptx  # noqa: E402
from cuassay.checks.memory.sanitizer_report import Record, find_sanitizer, parse_report  # noqa: E402
from ptxsan_corpus.case import Empty, Kernel, Number, Tile  # noqa: E402
from ptxsan_corpus.corpus import FAULTS, KERNELS, planted  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_LIMIT_S = 20.0  # for one kernel
_START_S = 60.0  # for the process before its first kernel
_BEGIN, _END = "@@begin ", "@@end "


def kernel_named(name: str) -> Kernel:
    """Return a correct kernel or a planted fault by name."""
    if name in KERNELS:
        return KERNELS[name]
    return planted(next(fault for fault in FAULTS if fault.name == name))


def named_ptx(name: str) -> str:
    """Return a kernel's PTX with an entry of its own name, which the tools' reports repeat."""
    kernel = kernel_named(name)
    text = compile_ptx(kernel.text(), arch=kernel.arch, name="kernel.cu")
    return re.sub(rf"(\.entry\s+){kernel.entry}\(", rf"\1k_{name}(", text)


def child(folder: Path, names: Sequence[str]) -> int:
    """Launch kernels one after the other; 1 at the first that the device reports an error of."""
    for name in names:
        print(_BEGIN + name, flush=True)
        good = launched(name, (folder / f"{name}.ptx").read_bytes())
        print(f"{_END}{name} {'ended' if good else 'failed'}", flush=True)
        if not good:
            return 1
    return 0


def launched(name: str, ptx: bytes) -> bool:
    """Run one kernel once through the driver; whether the device reports no error."""
    kernel, driver = kernel_named(name), load_driver(0)
    function = driver.function(ptx + b"\0", f"k_{name}")
    pointers: dict[str, ctypes.c_uint64] = {}
    for buffer, value in kernel.make(np.random.default_rng(0)).items():
        pointers[buffer] = _placed(driver._library, value)
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
    failed = driver._library.cuCtxSynchronize() != 0
    time.sleep(0.02)  # the tool prints on a thread of its own
    for pointer in pointers.values():
        driver._library.cuMemFree_v2(pointer)
    return not failed


def _placed(library: Any, value: np.ndarray | Empty) -> ctypes.c_uint64:
    """Return memory on the device that holds a buffer's bytes."""
    size = value.size * value.dtype.itemsize if isinstance(value, Empty) else value.nbytes
    pointer = ctypes.c_uint64()
    check(library.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)), "cuMemAlloc")
    if not isinstance(value, Empty):
        data = np.ascontiguousarray(value).tobytes()
        check(library.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(size)), "cuMemcpyHtoD")
    return pointer


def check(status: int, what: str) -> None:
    """Raise where a driver call failed."""
    if status != 0:
        raise RuntimeError(f"{what} returned {status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Kernels to run below one tool ('' for none)."""

    tool: str
    names: list[str]


def served(batch: Batch, *, command: Sequence[str], folder: Path, until: float) -> Iterator[Any]:
    """Yield a row for each kernel of a batch, in as many processes as that takes."""
    left = list(batch.names)
    while left and time.monotonic() < until:
        rows = list(_process(batch.tool, left, [*command, "--folder", str(folder)], until))
        if not rows:
            yield {"name": left.pop(0), "tool": batch.tool, "ended": "not started"} | _NOTHING
        yield from rows
        left = left[len(rows) :]


_NOTHING: dict[str, Any] = {"errors": [], "warnings": [], "seconds": 0.0}


def _process(
    tool: str, names: Sequence[str], command: Sequence[str], until: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one process: it ends with the names, with a fault, or too late."""
    process = subprocess.Popen(
        [*command, "--child", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    timer = _armed(process, min(_START_S, until - time.monotonic()))
    name, text, began = "", [""], time.monotonic()
    for line in process.stdout:
        if line.startswith(_BEGIN):
            timer.cancel()
            timer = _armed(process, _LIMIT_S)
            name, text, began = line.removeprefix(_BEGIN).strip(), [], time.monotonic()
        elif line.startswith(_END):
            yield _row(name, tool, line.split()[-1], text, began)
            name = ""
        else:
            text.append(line)
    timer.cancel()
    code = process.wait()
    if name:
        yield _row(name, tool, "no end" if code < 0 else f"exit {code}", text, began)


def _armed(process: subprocess.Popen[str], limit_s: float) -> threading.Timer:
    """Kill the tool and the process below it after that time."""
    timer = threading.Timer(max(limit_s, 0.1), partial(os.killpg, process.pid, signal.SIGKILL))
    timer.daemon = True
    timer.start()
    return timer


def _row(name: str, tool: str, ended: str, text: list[str], began: float) -> dict[str, Any]:
    """Return what a tool printed while a kernel ran, and of that kernel."""
    found = (
        [record for record in parse_report("", "".join(text)) if _of(record, name)] if tool else []
    )
    return {
        "name": name,
        "tool": tool,
        "ended": ended,
        "errors": [record.text for record in found if record.level == "error"][:3],
        "warnings": [record.text for record in found if record.level == "warning"][:3],
        "seconds": round(time.monotonic() - began, 3),
    }


def _of(record: Record, name: str) -> bool:
    """Whether a record is about a kernel; those that name none are of the one that runs."""
    return not record.kernel or f"k_{name}" in re.findall(r"\w+", record.kernel)


def address_spaces(binary: str) -> list[str]:
    """Return the option that makes initcheck look at shared memory, where it is known."""
    told = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False).stdout
    return ["--initcheck-address-space", "all"] if "--initcheck-address-space" in told else []


def main(arguments: Sequence[str]) -> int:
    """Run everything and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs="+")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit-s", type=float, default=1e9, help="begin no process after that")
    chosen = parser.parse_args(arguments)
    if chosen.child:
        return child(chosen.folder, chosen.child)
    binary = find_sanitizer()
    if not binary:
        print("compute-sanitizer was not found (CUDA_HOME, PATH): nothing was run")
        return 3
    faults = [f for f in FAULTS if not chosen.only or any(part in f.name for part in chosen.only)]
    twins = sorted({fault.twin for fault in faults})
    names = [*(fault.name for fault in faults), *twins]
    planned = [(name, tool) for tool in TOOLS for name in names] + [(name, "") for name in twins]
    target = Path(os.environ.get("OUT", ROOT / "benchmarks" / "results"))
    target.mkdir(parents=True, exist_ok=True)
    rows = all_rows(planned, binary, chosen, target / "machine-sanitizer.ndjson")
    document = summary({fault.name: fault.kind for fault in faults}, rows, binary)
    document |= {"runs": len(rows), "planned": len(planned)}
    path = result_path("machine-sanitizer", target)
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document["classes"], indent=1))
    print("false alarms on twins:", document["false_alarms"])
    print(f"{len(rows)} of {len(planned)} runs; seconds {document['seconds']}")
    return 0


def all_rows(
    planned: Sequence[tuple[str, str]], binary: str, chosen: argparse.Namespace, journal: Path
) -> list[dict[str, Any]]:
    """Return the rows that a journal holds or that the time allows to run."""
    held = journal.read_text().splitlines() if journal.is_file() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in held]
    done = {(row["name"], row["tool"]) for row in rows}
    left = [task for task in planned if task not in done]
    until = time.monotonic() + chosen.limit_s
    with (
        tempfile.TemporaryDirectory(prefix="cuassay-sanitizer-") as name,
        ThreadPoolExecutor(chosen.processes) as pool,
        journal.open("a", buffering=1) as out,
    ):
        folder = Path(name)
        kernels = sorted({task[0] for task in left})
        for each, text in zip(kernels, pool.map(named_ptx, kernels), strict=True):
            (folder / f"{each}.ptx").write_text(text)
        run = partial(served, folder=folder, until=until)

        def serve(batch: Batch) -> None:
            for row in run(batch, command=command(batch.tool, binary)):
                out.write(json.dumps(row) + "\n")
                rows.append(row)

        list(pool.map(serve, batches(left, chosen.processes)))
    return rows


def batches(tasks: Sequence[tuple[str, str]], processes: int) -> list[Batch]:
    """Return the tasks of each tool in several parts of about equal length."""
    parts = max(1, processes // len(TOOLS))
    found = []
    for tool in ("", *TOOLS):
        names = [name for name, of in tasks if of == tool]
        found += [Batch(tool=tool, names=names[part::parts]) for part in range(parts)]
    return [batch for batch in found if batch.names]


def command(tool: str, binary: str) -> list[str]:
    """Return what runs this script below a tool."""
    plain = [sys.executable, str(Path(__file__).resolve())]
    if not tool:
        return plain
    more = address_spaces(binary) if tool == "initcheck" else []
    return [binary, "--tool", tool, "--print-limit", "32", *more, *plain]


def summary(
    kinds: Mapping[str, str], rows: Sequence[Mapping[str, Any]], binary: str
) -> dict[str, Any]:
    """Return found and missed by class, false alarms on twins, and every row.

    `hangs` are faults that no tool says anything of, and that end below none.
    """
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    by_fault: dict[str, list[str]] = {name: [] for name in kinds}
    ended, alarms = {row["name"] for row in rows if row["ended"] != "no end"}, []
    for row in rows:
        spoke = bool(row["errors"] or row["warnings"])
        if row["name"] in by_fault and spoke:
            by_fault[row["name"]].append(row["tool"])
        elif row["name"] not in by_fault and spoke:
            alarms.append(f"{row['tool']}: {row['name']}: {[*row['errors'], *row['warnings']][0]}")
    classes: dict[str, dict[str, int]] = {}
    for name, kind in kinds.items():
        counts = classes.setdefault(kind, {"found": 0, "hangs": 0, "missed": 0})
        counts["found" if by_fault[name] else "missed" if name in ended else "hangs"] += 1
    return {
        "sanitizer": told.strip().splitlines()[-1:],
        "date": time.strftime("%Y-%m-%d"),
        "classes": classes,
        "found_by": by_fault,
        "false_alarms": alarms,
        "seconds": {
            t or "plain": round(sum(r["seconds"] for r in rows if r["tool"] == t), 1)
            for t in ("", *TOOLS)
        },
        "rows": list(rows),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
