"""Runs random programs and probes on an NVIDIA GPU and keeps what every thread stored.

    python benchmarks/machine_dump.py --programs 12000 --out DIR

writes fuzz-N.npy (uint32[4000, threads, words] each), units.npy (uint64[spellings, threads]: every
instruction alone), probes.npz and dump.json into DIR; `--parts` chooses among them.
`benchmarks/machine_fidelity.py DIR` compares them with the machine, on any computer.

The random programs lie in `packages/ptxsan/tests`, which belongs on PYTHONPATH.
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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from machine_probes import Probe, inputs, probes
from numpy.typing import NDArray

from cuassay.build.cuda.driver import Driver, load_driver
from ptxsan_fuzz.inputs import words
from ptxsan_fuzz.programs import (
    INPUT_WORDS,
    OUTPUT_WORDS,
    THREADS,
    generate,
    module,
    program_digest,
)
from ptxsan_fuzz.table import ROWS
from ptxsan_fuzz.units import UNIT_BLOCKS, UNIT_THREADS, unit

PROGRAMS_A_FILE = 4000
_PROGRAMS_A_MODULE = 125


def assemble(text: str, target: str, *, level: int = 3) -> bytes:
    """Return the cubin of a PTX text by Triton's ptxas at an optimisation level."""
    tool = _ptxas()
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(text)
        command = [tool, f"-arch={target}", f"-O{level}", str(source), "-o", str(result)]
        subprocess.run(command, check=True)
        return result.read_bytes()


def _ptxas() -> str:
    import triton

    return str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas")


def launch(
    driver: Driver, cubin: bytes, name: str, shape: tuple[int, int], pointers: tuple[int, int]
) -> None:
    """Launch `name` with (input, output) addresses over (blocks, threads)."""
    driver.launch(
        driver.function(cubin, name),
        (shape[0], 1, 1),
        (shape[1], 1, 1),
        shared_bytes=0,
        stream=torch.cuda.current_stream().cuda_stream,
        arguments=[ctypes.c_uint64(pointer) for pointer in pointers],
    )


def _upload(array: NDArray[np.uint32]) -> torch.Tensor:
    return torch.from_numpy(array.view(np.int32).copy()).cuda()


def run_programs(driver: Driver, seeds: range, *, level: int) -> NDArray[np.uint32]:
    """Return uint32[programs, THREADS, OUTPUT_WORDS]: what the programs of these seeds stored."""
    parts = [seeds[i : i + _PROGRAMS_A_MODULE] for i in range(0, len(seeds), _PROGRAMS_A_MODULE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = [module([generate(seed) for seed in part]) for part in parts]
        cubins = list(pool.map(lambda text: assemble(text, "sm_90", level=level), texts))
    result = torch.zeros((len(seeds), THREADS, OUTPUT_WORDS), dtype=torch.int32, device="cuda")
    size = THREADS * INPUT_WORDS
    given = _upload(np.stack([words(seed, size) for seed in seeds]))
    for part, cubin in zip(parts, cubins, strict=True):
        for seed in part:
            at = seed - seeds.start
            pointers = given[at].data_ptr(), result[at].data_ptr()
            launch(driver, cubin, f"fuzz{seed}", (1, THREADS), pointers)
        torch.cuda.synchronize()
    return result.cpu().numpy().view(np.uint32)


def run_units(driver: Driver) -> NDArray[np.uint64]:
    """Return uint64[spellings, threads]: the result of every instruction of the table alone."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        cubins = list(pool.map(lambda row: assemble(unit(row), "sm_90"), ROWS))
    threads = UNIT_BLOCKS * UNIT_THREADS
    result = torch.zeros((len(ROWS), threads), dtype=torch.int64, device="cuda")
    for index, (row, cubin) in enumerate(zip(ROWS, cubins, strict=True)):
        given = _upload(words(1 << 20 | index, 2 * threads * max(1, len(row.sources))))
        pointers = given.data_ptr(), result[index].data_ptr()
        launch(driver, cubin, "unit", (UNIT_BLOCKS, UNIT_THREADS), pointers)
        torch.cuda.synchronize()
    return result.cpu().numpy().view(np.uint64)


def run_probe(driver: Driver, probe: Probe) -> NDArray[np.uint32]:
    """Return uint32[threads of the grid, out_words]."""
    given = _upload(inputs(probe))
    count = probe.blocks * probe.threads
    result = torch.zeros((count, probe.out_words), dtype=torch.int32, device="cuda")
    cubin = assemble(probe.text, "sm_90a")
    launch(
        driver, cubin, "probe", (probe.blocks, probe.threads),
        (given.data_ptr(), result.data_ptr()),
    )  # fmt: skip
    torch.cuda.synchronize()
    return result.cpu().numpy().view(np.uint32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=12_000)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    parser.add_argument("--parts", default="probes,units,programs")
    parser.add_argument("--only", default="", help="probes whose name begins with this")
    parser.add_argument("--raw", type=int, default=3, help="files of programs to keep whole")
    parser.add_argument("--twice", action="store_true", help="assemble also without optimisation")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.zeros(1, device="cuda")
    driver = load_driver(0)
    started, parts = time.monotonic(), arguments.parts.split(",")
    kept, failed = {}, {}
    for probe in probes() if "probes" in parts else []:
        if not probe.name.startswith(arguments.only):
            continue
        try:
            kept[probe.name] = run_probe(driver, probe)
        except (RuntimeError, subprocess.CalledProcessError) as error:
            failed[probe.name] = str(error)[:300]
    if kept:
        np.savez(arguments.out / "probes.npz", **kept)
    print(f"{len(kept)} probes in {time.monotonic() - started:.0f} s; failed: {failed}", flush=True)
    if "units" in parts:
        np.save(arguments.out / "units.npy", run_units(driver))
        print(f"{len(ROWS)} instructions after {time.monotonic() - started:.0f} s", flush=True)
    programs = arguments.programs if "programs" in parts else 0
    digests: dict[str, list[int]] = {"programs": [], "programs_unoptimised": []}
    for first in range(0, programs, PROGRAMS_A_FILE):
        seeds = range(first, min(first + PROGRAMS_A_FILE, programs))
        dumped = run_programs(driver, seeds, level=3)
        if first // PROGRAMS_A_FILE < arguments.raw:
            np.save(arguments.out / f"fuzz-{first // PROGRAMS_A_FILE}.npy", dumped)
        digests["programs"] += [program_digest(one) for one in dumped]
        if not arguments.twice:
            continue
        plain = run_programs(driver, seeds, level=0)
        digests["programs_unoptimised"] += [program_digest(one) for one in plain]
        print(f"programs up to {seeds.stop} after {time.monotonic() - started:.0f} s", flush=True)
    if programs:
        arrays = {name: np.array(some, np.uint32) for name, some in digests.items()}
        np.savez(arguments.out / "digests.npz", **arrays)
    about = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": sys.version.split()[0],
        "programs": programs,
        "probes": len(kept),
        "failed": failed,
        "seconds": round(time.monotonic() - started, 1),
    }
    (arguments.out / "dump.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
