"""Launches recorded on an NVIDIA GPU and executed again in the PTX machine: every written byte.

    PYTHONPATH=src:. python benchmarks/recorded_launches.py record FOLDER     # on a GPU, a minute
    PYTHONPATH=src:. python benchmarks/recorded_launches.py replay FOLDER     # anywhere

`record` keeps launches of Triton kernels of a program (tables of pointers, bare addresses and
descriptors among them), of planted faults and their twins as candidates, of a launch that crashes
and of one that hangs: one file each. `replay` executes each file once, with everything watched,
and writes benchmarks/results/recorded-launches-h200.json: findings, and on how many of
the bytes that a launch wrote machine and GPU agree.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import RESULTS, ROOT, machine

PTXSAN = ROOT / "packages" / "ptxsan"
for place in map(str, (ROOT, ROOT / "src", PTXSAN / "src", PTXSAN / "tests")):
    if place not in sys.path:
        sys.path.insert(0, place)

from cuassay.model.device import CUDA  # noqa: E402
from cuassay.model.recording import Recording  # noqa: E402

PAIRS = ("cuda_missing_barrier", "cuda_last_block_store", "triton_store_unmasked")
# The autotuner's benchmark had written the result before the launch that was recorded.
CLEARED = {"matmul": "c"}
_PATIENCE_S = 60.0
CRASH = """
import sys, torch
import cuassay
from tests.machine import triton_recorded as more

y = torch.empty(256, device="cuda")
with cuassay.record_launches(sys.argv[1]):
    more.writes_far(y, 1 << 44)
    torch.cuda.synchronize()
"""
HANG = """
import sys, torch
import cuassay
from tests.machine import triton_recorded as more

flag, y = torch.zeros(1, dtype=torch.int32, device="cuda"), torch.zeros(32, device="cuda")
with cuassay.record_launches(sys.argv[1], limit_s=1.0):
    more.waits(flag, y)
"""


def programs() -> dict[str, Callable[[], object]]:
    """Return the calls of a program that are recorded, by name."""
    import torch
    from tests.machine import triton_kernels as kernels
    from tests.machine import triton_recorded as more

    def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(*shape, device="cuda").to(dtype)

    torch.manual_seed(11)
    half, short = torch.float16, torch.bfloat16
    call: Any = kernels
    ids = torch.randint(0, 12, (64,), device="cuda")
    flag = torch.ones(1, dtype=torch.int32, device="cuda")
    return {
        "softmax": lambda: call.softmax(draw(37, 300, dtype=short)),
        "pointer_table": lambda: call.grouped_gemm(*(draw(8, 8, dtype=half) for _ in range(4))),
        "bare_address": lambda: more.from_address(draw(100), draw(100)),
        "descriptors": lambda: more.doubled_tiles(draw(40, 64)),
        "layer_norm": lambda: call.layer_norm(draw(33, 200), draw(200), draw(200)),
        "swiglu": lambda: call.swiglu(draw(3000, dtype=short), draw(3000, dtype=short)),
        "embedding_grad_atomics": lambda: call.embedding_grad(draw(64, 64), ids),
        "flag": lambda: more.waits(flag, draw(32)),
        "attention": lambda: call.attention(*(draw(2, 40, 32, dtype=half) for _ in range(3))),
        "matmul": lambda: call.matmul(draw(48, 64, dtype=half), draw(64, 40, dtype=half)),
    }


def record(folder: Path) -> None:
    """Record everything, each in a file of its own; what fails is told, and the rest goes on."""
    import cuassay

    folder.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"machine": machine(), "cases": {}}
    cases: dict[str, Callable[[Path], object]] = {}

    def program(call: Callable[[], object]) -> Callable[[Path], object]:
        def go(file: Path) -> object:
            with cuassay.record_launches(file, unwritten=True) as recorder:
                call()
            return list(recorder.notes())

        return go

    cases |= {name: program(call) for name, call in programs().items()}
    for name in PAIRS:
        cases[f"{name}_bug"] = candidate(name, planted=True)
        cases[f"{name}_twin"] = candidate(name, planted=False)
    cases |= {"crash": apart(CRASH), "hang": apart(HANG)}
    for name, go in cases.items():
        began = time.perf_counter()
        try:
            said: object = go(folder / f"{name}.safetensors")
        except Exception as error:
            said = f"{type(error).__name__}: {error}"[:2000]
        told["cases"][name] = {"said": said, "seconds": round(time.perf_counter() - began, 2)}
        (folder / "record.json").write_text(json.dumps(told, indent=1))
        sys.stdout.write(f"{name}: {told['cases'][name]}\n")
        sys.stdout.flush()


def candidate(name: str, *, planted: bool) -> Callable[[Path], object]:
    """Return what records one call of a candidate of the zoo, as a worker does."""

    def go(file: Path) -> object:
        from tests.zoo.manifest import PAIRS as EVERY
        from tests.zoo.manifest import load

        from cuassay import build
        from cuassay.checks.machine.faults import machine_cases, recorded_call
        from cuassay.formats import load_candidate
        from cuassay.formats.execute import load_reference
        from cuassay.judge.trial import open_trial
        from cuassay.model.trace import StepDone
        from cuassay.model.verdict import Profile
        from cuassay.sandbox.local import LocalRunner

        pair = next(one for one in EVERY if one.name == name)
        problem = load(pair.problem)
        found = load_candidate(str(pair.bug if planted else pair.twin), problem)
        trial = open_trial(
            problem, load_reference(problem), profile=Profile.QUICK, device=CUDA, root_seed=11
        )
        built = build.load(found, problem, device=CUDA, folder=Path(tempfile.mkdtemp()))
        runner = LocalRunner(built.call, problem, device=CUDA, convention=found.convention)
        case = machine_cases(trial)[0]
        run = runner.run(recorded_call(case, on_gpu=True), trial.inputs, None)
        record = run.result.records[3]
        if not isinstance(record, StepDone):
            return str(run.result.records)[:2000]
        file.write_bytes(bytes(run.tensor(record.items[0]).cpu().numpy()))
        return []

    return go


def apart(text: str) -> Callable[[Path], object]:
    """Return what runs a program in a process of its own until it has ended or left a file."""

    def go(file: Path) -> object:
        with tempfile.TemporaryDirectory() as name:
            script, log = Path(name) / "program.py", Path(name) / "log"
            script.write_text(text)
            environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
            command = [sys.executable, str(script), str(file)]
            with log.open("wb") as output:
                began = time.monotonic()
                started = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
                while started.poll() is None and time.monotonic() - began < _PATIENCE_S:
                    if file.is_file() and text is HANG:
                        break
                    time.sleep(0.1)
                started.kill()
                started.wait()
            return log.read_text(errors="replace")[-300:]

    return go


def replay(folder: Path) -> None:
    """Execute every file of a folder; write what was found and how far the GPU agrees."""
    from cuassay.build.machine.replay import execute
    from cuassay.model.recording import decode

    rows, device = {}, ""
    for file in sorted(folder.glob("*.safetensors")):
        began = time.process_time()
        recording = decode(file.read_bytes())
        seen = execute(_cleared(recording, CLEARED.get(file.stem, "")), {})
        rows[file.stem] = {
            "file_bytes": file.stat().st_size,
            "processor_s": round(time.process_time() - began, 2),
            "notes": list(seen.notes),
            "launches": [_row(launch) for launch in seen.launches],
        }
        device = seen.device
        sys.stdout.write(f"{file.stem}: {rows[file.stem]}\n")
    place = RESULTS / "recorded-launches-h200.json"
    found = {"recorded_on": device, "replayed_on": machine(), "cases": rows}
    place.write_text(json.dumps(found, indent=1) + "\n")


def _cleared(recording: Recording, name: str) -> Recording:
    """Return the recording with a region of this name cleared before each launch."""
    launches = []
    for launch in recording.launches:
        places = [n for n, region in enumerate(launch.regions) if region.name == name]
        zeros = {place: bytes(launch.regions[place].nbytes) for place in places}
        launches.append(replace(launch, contents={**launch.contents, **zeros}))
    return replace(recording, launches=tuple(launches))


def _row(launch: Any) -> Mapping[str, Any]:
    agreement = launch.agreement
    return {
        "kernel": launch.kernel,
        "faults": sorted({fault.kind for fault in launch.faults}),
        "inconclusive": launch.inconclusive,
        "gpu_reported": launch.failure[:200],
        "written_bytes": None if agreement is None else sum(one.nbytes for one in agreement),
        "equal_bytes": None if agreement is None else sum(one.equal for one in agreement),
        "apart": [
            {"what": one.allocation, "largest": one.largest, "scale": one.scale, "dtype": one.dtype}
            for one in agreement or ()
            if one.equal < one.nbytes
        ],
    }


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("record", "replay"):
        raise SystemExit("recorded_launches.py record FOLDER | replay FOLDER")
    {"record": record, "replay": replay}[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
