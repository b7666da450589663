"""Builds the wheels of all distributions, installs them in a new environment, uses them there.

    python benchmarks/wheels.py [--folder build/wheels]

The first launch is made with an empty cache, as on a new machine: it must compile no runtime.
Prints what was built and how long each step took; ends with an error where a step does not end as
it should. Fetches the dependencies from the package index that pip is configured for.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_PACKAGES = sorted(place.parent for place in (_ROOT / "packages").glob("*/pyproject.toml"))
_SCALE = """\
__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n + OFF) y[i] = 2 * x[i];
}
"""
_PROGRAM = """\
#include <cstdio>
__global__ void fill(int* y) { y[threadIdx.x] = threadIdx.x; }
int main() {
  int *y, last = 0;
  cudaMalloc(&y, 32 * sizeof(int));
  fill<<<1, 32>>>(y);
  cudaMemcpy(&last, y + 31, sizeof last, cudaMemcpyDeviceToHost);
  printf("last %d\\n", last);
}
"""


def main() -> None:
    """Build, install and try."""
    parser = argparse.ArgumentParser(description="Build, install and try the wheels.")
    parser.add_argument("--folder", type=Path, default=_ROOT / "build" / "wheels")
    folder = parser.parse_args().folder.resolve()
    built, place = folder / "dist", folder / "venv"
    built.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    step("build", [*pip, "wheel", "-q", "--no-deps", "-w", str(built), *map(str, _PACKAGES), "."])
    # Those with extras come first: pip then takes from their files what the others need of them.
    extras = {"ptxsan": "[cuda]", "cuassay": "[cpu]"}
    names = list(dict.fromkeys([*extras, *(place.name.replace("-", "_") for place in _PACKAGES)]))
    wheels = {
        name: max(built.glob(f"{name}-*.whl"), key=lambda one: one.stat().st_mtime)
        for name in names
    }
    ptxsan = wheels["ptxsan"]
    inside = [one for one in zipfile.ZipFile(ptxsan).namelist() if "/prebuilt/" in one]
    print(f"{ptxsan.name}: {ptxsan.stat().st_size / 1e6:.1f} MB, runtime {inside or 'missing'}")
    for wheel in (wheels[name] for name in names if name != "ptxsan"):
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")
    venv.create(place, with_pip=True, clear=True)
    python = str(place / "bin" / "python")
    # All at once: their names are taken from the files, never from an index.
    wanted = [f"{wheels[name]}{extras.get(name, '')}" for name in names]
    step("install", [python, "-m", "pip", "install", "-q", *wanted])
    for name in names:
        told = [python, "-c", f"import {name}; print({name}.__file__)"]
        found = subprocess.run(told, cwd=folder, capture_output=True, text=True, check=True).stdout
        if str(place) not in found:
            sys.exit(f"{name} comes from {found.strip()}; expected it below {place}")
    (folder / "scale.cu").write_text(_SCALE)
    (folder / "program.cu").write_text(_PROGRAM)
    tool, home = str(place / "bin" / "ptxsan"), folder / f"home-{time.time_ns()}"
    sizes = ["--kernel", "scale", "--grid", "4", "--block", "256", "--arg", "x=f32[1000]"]
    launch = [tool, "run", "scale.cu", *sizes, "--arg", "y=out:f32[1000]", "--arg", "n=1000"]
    first = step("first launch", [*launch, "--flag=-DOFF=0"], folder, home=home)
    step("second launch, at fault", [*launch, "--flag=-DOFF=1"], folder, home=home, expected=1)
    step("whole program", [tool, "run", "program.cu"], folder, home=home)
    if compiled := list(home.rglob("*.nbi")):
        sys.exit(f"numba compiled {len(compiled)} functions that the wheel should hold")
    example = _ROOT / "examples" / "embedding_rmsnorm_backward"
    command = [str(place / "bin" / "cuassay"), "check", str(example / "kernel_fp32.cu")]
    command += ["--problem", str(example / "problem"), "--profile", "quick", "--device", "cpu"]
    step("cuassay check", command, folder, home=home, expected=None)
    print(f"first launch on a new machine: {first:.1f} s")


def step(
    name: str, command: list[str], folder: Path = _ROOT, *, home: Path | None = None,
    expected: int | None = 0,
) -> float:  # fmt: skip
    """Run a command; return its seconds. Ends the process where its exit code is another.

    With `expected=None` accepted and rejected (0 and 1) are both right.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if home is not None:
        environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        environment.pop("PTXSAN_RUNTIME", None)
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    print(f"{name}: exit code {done.returncode}, {seconds:.1f} s", flush=True)
    if done.returncode not in ((0, 1) if expected is None else (expected,)):
        sys.exit(f"expected {expected}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    if expected is None:
        print("\n".join(done.stdout.splitlines()[:6]))
    return seconds


if __name__ == "__main__":
    main()
