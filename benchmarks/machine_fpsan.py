"""Triton's FpSan beside the machine's algebra: which variants of a kernel each finds equal.

    export PYTHONPATH=.:packages/ptxsan/tests
    python benchmarks/machine_fpsan.py [--python ENVIRONMENT/bin/python]

FpSan replaces float arithmetic by arithmetic on payloads modulo a power of two; the PTX that
Triton makes of it runs in the machine, and outputs are compared bit by bit. The same kernels
without FpSan run in the machine's algebra (docs/machine-algebra.md). `--python` is an environment
with Triton 3.9 (no torch needed); by default this one, which may have none. Needs no GPU. Writes
benchmarks/results/machine-fpsan-cpu.json.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import save

from ptxsan.equivalence import Executed, Output, equivalent
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.residues import Residues
from ptxsan.run import run
from ptxsan.syntax import Module

_ROWS, _N, _M, _K, _COLUMNS = 4, 1000, 64, 40, 64
_FIRST = {"softmax": "softmax_4_warps", "matmul": "matmul_32x32x16"}


class Variant:
    """One compiled kernel with its launch over fixed inputs."""

    def __init__(self, folder: Path, stem: str) -> None:
        self.told: dict[str, Any] = json.loads((folder / f"{stem}.json").read_text())
        self.module: Module = parse((folder / f"{stem}.ptx").read_text())
        self.product = stem.startswith("matmul")

    def execute(self, options: Options) -> Buffer:
        """Run once; return the output. Raises RuntimeError where the machine cannot."""
        rng = np.random.default_rng(7)
        constants = self.told["constants"]
        if self.product:
            shapes, size, last = ((_M, _K), (_K, _COLUMNS)), _M * _COLUMNS, _K
            grid = (_M // constants["BM"], _COLUMNS // constants["BN"], 1)
        else:
            shapes, size, last, grid = ((_ROWS, _N),), _ROWS * _N, _N, (_ROWS, 1, 1)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        inputs = [
            Buffer(name=f"input {n}", data=np.frombuffer(bytearray(a.tobytes()), np.uint8))
            for n, a in enumerate(arrays)
        ]
        output = Buffer(name="output", data=np.zeros(4 * size, np.uint8))
        blocks = grid[0] * grid[1]
        scratch = [
            Buffer(name=name, data=np.zeros(max(256, self.told[name] * blocks), np.uint8))
            for name in ("global_scratch", "profile_scratch")
        ]
        launch = Launch(
            kernel=self.told["kernel"],
            grid=grid,
            block=(32 * self.told["warps"], 1, 1),
            arguments=(
                *(Pointer(buffer=one) for one in (*inputs, output)),
                struct.pack("<i", last),
                *(Pointer(buffer=one) for one in scratch),
            ),
            dynamic_shared_bytes=self.told["shared"],
        )
        report = run(self.module, launch, options=options)
        if report.inconclusive:
            raise RuntimeError(report.inconclusive)
        return output


def payload_share(first: Variant, second: Variant) -> float:
    """Return the share of output elements whose FpSan payloads are the same bits."""
    plain = Options(shadow=False, races=False)
    a, b = (one.execute(plain).data.view(np.uint32) for one in (first, second))
    return float((a == b).mean())


def algebra_share(first: Variant, second: Variant) -> float:
    """Return the share of output elements that are equal in the machine's algebra."""

    def runner(one: Variant, residues: Residues) -> Executed:
        left = one.execute(Options(shadow=residues, races=False))
        places = np.arange(0, left.data.size, 4, dtype=np.int64)
        output = Output(name="output", buffer=left, type="f32", offsets=places, width=4)
        return Executed(outputs=(output,), roots=False)

    return equivalent(
        lambda residues: runner(first, residues), lambda residues: runner(second, residues)
    ).share


def compile_all(python: str, folder: Path) -> None:
    """Compile the kernels in another environment. Ends with its message where it cannot."""
    script = Path(__file__).with_name("fpsan_kernels.py")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache")}
    environment |= {"TRITON_DEFAULT_FP_FUSION": "1"}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [python, "-W", "ignore", str(script), str(folder)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr.strip().splitlines()[-1])


def main(arguments: Sequence[str]) -> int:
    """Compile, run and compare; save the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    chosen = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_all(chosen.python, folder)
        for file in sorted(folder.glob("*.fpsan.json")):
            stem = file.name.removesuffix(".fpsan.json")
            base = _FIRST[stem.partition("_")[0]]
            if stem == base:
                continue
            row: dict[str, Any] = {"variant": stem, "against": base}
            for method, suffix in ((payload_share, ".fpsan"), (algebra_share, "")):
                started = time.perf_counter()
                pair = [Variant(folder, f"{one}{suffix}") for one in (base, stem)]
                row["compiled_with_triton"] = pair[0].told["triton"]
                try:
                    row[method.__name__] = method(*pair)
                except RuntimeError as error:
                    row[method.__name__] = f"not run: {error}"
                row[f"{method.__name__}_s"] = round(time.perf_counter() - started, 2)
            rows.append(row)
            print(row, flush=True)
    save("machine-fpsan", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
