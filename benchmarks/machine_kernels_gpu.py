"""The corpus of tests/machine on an NVIDIA GPU and in the machine: random launches, every byte.

    PYTHONPATH=src:. python benchmarks/machine_kernels_gpu.py --launches 200

Every correct CUDA C++ kernel of the corpus is launched with freshly drawn memory; all buffers are
compared with the machine's afterwards. Kernels without approximate functions and without
float atomics must agree in every bit; the others within the kernel's own tolerance (their share of
equal bytes is reported). `--pack` writes the PTX texts, for a GPU machine without NVRTC's headers;
both sides execute the packed text. Writes machine-kernels-<device>.json into $OUT, else into
benchmarks/results.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
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

from ptxsan.launch import Pointer, TensorMap  # noqa: E402
from ptxsan.options import Options  # noqa: E402
from ptxsan.parser import parse  # noqa: E402
from ptxsan.run import run  # noqa: E402
from ptxsan_corpus.corpus import KERNELS, Prepared, prepare, ptx  # noqa: E402

# Buffers that hold addresses, which differ between any two places.
ADDRESSES = {"shared_pointer_through_memory": {"where"}}
# Buffers whose values lie in the order in which warps came: which is first, the GPU decides.
ARRIVAL = {"ballot_compaction": {"y"}}
PACK = ROOT / "packages" / "ptxsan" / "tests" / "data" / "corpus-ptx.json.gz"
_INEXACT = re.compile(
    r"\b(?:[a-z0-9]+\.approx|div\.full)|(?:atom|red)\.[\w.]*add[\w.]*\.(?:f32|f64|f16|bf16)"
)


@cache
def texts() -> dict[str, str]:
    """Return the packed PTX of every kernel by name."""
    with gzip.open(PACK, "rt") as file:
        return dict(json.load(file))


def pack() -> None:
    """Compile every kernel of the corpus and keep its PTX."""
    found = {name: ptx(kernel.text(), kernel.arch) for name, kernel in KERNELS.items()}
    plain = {
        name: re.sub(r'"[^"]*/kernel.cu"', '"kernel.cu"', text) for name, text in found.items()
    }
    PACK.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(PACK, "wb", mtime=0) as file:
        file.write(json.dumps(plain).encode())
    print(f"{len(found)} kernels, {PACK.stat().st_size} bytes")


def machine_results(name: str, launches: int) -> tuple[str, list[list[bytes]] | str]:
    """Return the buffers' bytes after each launch in the machine, or why it cannot run."""
    kernel = KERNELS[name]
    try:
        module = parse(texts()[name])
        found = []
        for seed in range(launches):
            prepared = prepare(kernel, seed)
            report = run(
                module, prepared.launch, options=Options(shadow=False, races=False, workers=1)
            )
            if report.inconclusive:
                return name, report.inconclusive
            found.append(_kept(name, prepared, [b.data for b in prepared.buffers.values()]))
    except Exception as error:
        return name, f"{type(error).__name__}: {error}"[:300]
    return name, found


def gpu_results(name: str, launches: int) -> list[list[bytes]]:
    """Return the buffers' bytes after each launch on the GPU."""
    import torch

    from cuassay.build.cuda.driver import load_driver

    kernel = KERNELS[name]
    text, driver, found = texts()[name].encode() + b"\0", load_driver(0), []
    for seed in range(launches):
        prepared = prepare(kernel, seed)
        places = {
            id(one): torch.from_numpy(one.data.copy()).cuda() for one in prepared.buffers.values()
        }
        arguments: list[Any] = []
        for one in prepared.launch.arguments:
            if isinstance(one, Pointer):
                arguments.append(ctypes.c_uint64(places[id(one.buffer)].data_ptr() + one.offset))
            elif isinstance(one, TensorMap):
                place = places[id(one.pointer.buffer)].data_ptr() + one.pointer.offset
                raw = driver.tensor_map(driver_map(one, place))
                arguments.append((ctypes.c_uint64 * 16).from_buffer_copy(raw))
            else:
                arguments.append((ctypes.c_uint8 * len(one)).from_buffer_copy(one))
        launch = prepared.launch
        driver.launch(
            driver.function(text, launch.kernel),
            launch.grid,
            launch.block,
            shared_bytes=launch.dynamic_shared_bytes,
            stream=torch.cuda.current_stream().cuda_stream,
            arguments=arguments,
        )
        torch.cuda.synchronize()
        after = [places[id(one)].cpu().numpy() for one in prepared.buffers.values()]
        found.append(_kept(name, prepared, after))
    return found


def all_gpu_results(
    names: Sequence[str], launches: int
) -> Iterator[tuple[str, list[list[bytes]] | str]]:
    """Yield what each kernel left on the GPU, or why it failed.

    In a process beside this one, and in a new one after a failure: a launch that fails takes the
    context with it, and every launch after it.
    """
    left = list(names)
    while left:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            while left:
                name = left.pop(0)
                try:
                    yield name, pool.submit(gpu_results, name, launches).result()
                except Exception as error:
                    yield name, str(error)
                    break


def compared(name: str, ours: list[list[bytes]], theirs: list[list[bytes]]) -> dict[str, Any]:
    """Return counts for one kernel."""
    kernel = KERNELS[name]
    exact = _INEXACT.search(texts()[name]) is None
    types, hidden = prepare(kernel, 0).types, ADDRESSES.get(name, set())
    shown = [index for index, buffer in enumerate(types) if buffer not in hidden]
    kinds = [kind for buffer, kind in types.items() if buffer not in hidden]
    equal_launches, equal_bytes, total, worst = 0, 0, 0, 0.0
    for one, other in zip(ours, theirs, strict=True):
        x, y = [one[index] for index in shown], [other[index] for index in shown]
        equal_launches += x == y
        for a, b, kind in zip(x, y, kinds, strict=True):
            equal_bytes += int((np.frombuffer(a, np.uint8) == np.frombuffer(b, np.uint8)).sum())
            total += len(a)
            if a != b:
                worst = max(worst, _distance(a, b, kind))
    return {
        "must_be_exact": exact,
        "launches": len(ours),
        "identical_launches": equal_launches,
        "identical_bytes": equal_bytes / max(total, 1),
        "worst_relative": worst,
        "tolerance": kernel.tolerance,
        "good": equal_launches == len(ours) if exact else worst <= kernel.tolerance,
    }


def _kept(name: str, prepared: Prepared, data: Sequence[np.ndarray[Any, Any]]) -> list[bytes]:
    """Return the buffers' bytes, values sorted where their order is the GPU's choice."""
    of = dict(zip(prepared.buffers, data, strict=True))
    for buffer in ARRIVAL.get(name, ()):
        of[buffer] = np.sort(of[buffer].view(prepared.types[buffer]))
    return [each.tobytes() for each in of.values()]


def _distance(a: bytes, b: bytes, kind: np.dtype[Any]) -> float:
    """Return the largest difference relative to the largest value; inf for other integers."""
    if kind.kind in "iub":
        return float("inf")
    x, y = (np.frombuffer(one, kind).astype(np.float64) for one in (a, b))
    known = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return float("inf")
    scale = max(float(np.abs(y[known]).max(initial=0.0)), 1.0)
    return float(np.abs(x[known] - y[known]).max(initial=0.0)) / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit-s", type=float, default=420.0)
    parser.add_argument("--pack", action="store_true")
    arguments = parser.parse_args()
    if arguments.pack:
        pack()
        return
    import torch

    started = time.monotonic()
    names = [name for name in KERNELS if not arguments.only or name in arguments.only]
    context = multiprocessing.get_context("spawn")
    rows: dict[str, Any] = {}
    with context.Pool(max(1, len(os.sched_getaffinity(0)) - 1)) as pool:
        waiting = [(n, pool.apply_async(machine_results, (n, arguments.launches))) for n in names]
        theirs = {}
        for name, found in all_gpu_results(names, arguments.launches):
            if isinstance(found, str):
                rows[name] = {"good": False, "problem": f"GPU: {found}"[:300]}
            else:
                theirs[name] = found
        print(f"GPU done after {time.monotonic() - started:.0f} s", flush=True)
        for name, result in waiting:
            if name in rows:
                continue
            left = arguments.limit_s - (time.monotonic() - started)
            try:
                _, ours = result.get(timeout=max(left, 0.1))
            except multiprocessing.TimeoutError:
                rows[name] = {"good": False, "problem": "not done in time"}
                continue
            if isinstance(ours, str):
                rows[name] = {"good": False, "problem": ours}
            else:
                rows[name] = compared(name, ours, theirs[name])
    device = torch.cuda.get_device_name(0)
    exact = [row for row in rows.values() if row.get("must_be_exact")]
    result = {
        "device": device,
        "kernels": len(rows),
        "exact_kernels": len(exact),
        "exact_kernels_identical": sum(row["good"] for row in exact),
        "other_kernels": sum(row.get("must_be_exact") is False for row in rows.values()),
        "other_kernels_within_tolerance": sum(
            row["good"] for row in rows.values() if row.get("must_be_exact") is False
        ),
        "launches_a_kernel": arguments.launches,
        "seconds": round(time.monotonic() - started, 1),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "rows": rows,
    }
    folder = Path(os.environ.get("OUT", str(ROOT / "benchmarks" / "results")))
    path = result_path("machine-kernels", folder)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}, indent=1))
    for name, row in rows.items():
        if not row["good"]:
            print(name, row)


if __name__ == "__main__":
    main()
