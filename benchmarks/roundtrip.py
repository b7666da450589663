"""Worker round trip: 64 MiB of inputs to a worker, an identity kernel, 64 MiB back.

Prints the machine, then one line and one JSON object a device: median and spread over the
rounds of the whole trip, and of the time to a fresh worker from the spare. No absolute claim:
ratios of one run count.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.support import workers

from cuassay.model.case import Case
from cuassay.model.problem import Scalar
from cuassay.sandbox.host.client import WorkerPool
from cuassay.sandbox.host.waits import run_now

ELEMENTS = 16 << 20  # of float32: 64 MiB
ROUNDS = 15


def measure(device: str, keep: Path) -> dict[str, Any]:
    """Return seconds of round trips on one device."""
    started = time.perf_counter()
    with workers.nursery(device) as opened:
        run_now(opened.wait_ready())
        ready_s = time.perf_counter() - started
        with workers.pool("def run(x): return x", keep, opened) as pool:
            return {
                "device": device,
                "machine": platform.node() if device == "cpu" else torch.cuda.get_device_name(),
                "torch": torch.__version__,
                "mebibytes_each_way": ELEMENTS * 4 >> 20,
                "zygote_ready_s": round(ready_s, 4),
                **_rounds(pool, device),
                "device_memory_shared": pool.sandbox["device memory shared"],
            }


def _rounds(pool: WorkerPool, device: str) -> dict[str, float]:
    data = torch.rand(ELEMENTS, device=device)

    def inputs(case: Case) -> Mapping[str, torch.Tensor | Scalar]:
        return {"x": data}

    trip = workers.scenario(sizes=(ELEMENTS,))
    started = time.perf_counter()
    pool.run(trip, inputs)
    first_s = time.perf_counter() - started
    reused: list[float] = []
    fresh: list[float] = []
    for number in range(2 * ROUNDS):
        started = time.perf_counter()
        run = pool.run(trip, inputs, fresh=number % 2 == 1)
        if device != "cpu":
            torch.cuda.synchronize()
        (reused, fresh)[number % 2].append(time.perf_counter() - started)
        if not torch.equal(workers.read(run, 2), data):
            raise SystemExit(f"round {number} on {device} did not give the same values back")
    return {
        "first_s": round(first_s, 4),
        "round_trip_median_s": round(statistics.median(reused), 5),
        "round_trip_min_s": round(min(reused), 5),
        "round_trip_max_s": round(max(reused), 5),
        "fresh_worker_median_s": round(statistics.median(fresh), 5),
    }


def main() -> None:
    """Measure every device that is there."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        with tempfile.TemporaryDirectory() as keep:
            found = measure(device, Path(keep))
        print(
            f"{device}: 64 MiB there and back in {found['round_trip_median_s'] * 1e3:.1f} ms "
            f"(median of {ROUNDS}), in a fresh worker {found['fresh_worker_median_s'] * 1e3:.1f} ms"
        )
        print(json.dumps(found))


if __name__ == "__main__":
    main()
