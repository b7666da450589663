"""A million guarded correct calls: no false alarm, flat memory, exact counters.

    PYTHONPATH=src:. python benchmarks/guard_soak.py [CALLS]

Two operators that err otherwise than their trusted ones (a fused RMSNorm in bfloat16, a
blocked float32 row sum) on inputs that change with every call, eight threads, signatures that
come and go. Resident memory is read every twentieth of the way; on a GPU the device's too.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from benchmarks.common import save
from benchmarks.guard_model import rms_norm, row_sum
from torch import Tensor

import cuassay

_THREADS = 8
_INPUTS = 97  # different inputs a thread goes round; each is changed a little every time


def fused(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return RMSNorm by PyTorch's fused kernel."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def blocked(x: Tensor) -> Tensor:
    """Return the same in another order: blocks of 16, then the blocks."""
    return x.reshape(x.shape[0], -1, 16).sum(1).sum(-1)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _work(guards: list[Any], calls: int, seed: int, device: str) -> None:
    generator = torch.Generator(device=device).manual_seed(seed)
    weight = torch.rand(64, generator=generator, device=device).bfloat16() + 0.5
    inputs = [
        torch.randn(4 + n % 3, 64, generator=generator, device=device) for n in range(_INPUTS)
    ]
    low = [x.bfloat16() for x in inputs]
    for index in range(calls):
        place = index % _INPUTS
        if index % 2:
            guards[0](low[place], weight, 1e-6)
        else:
            guards[1](inputs[place])
            inputs[place].mul_(1.0 - 2.0 * (place % 2)).add_(1e-3)
            if index % 64 == 0:
                low[place] = inputs[place].bfloat16()


def main() -> None:
    """Run, print and keep."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    logging.getLogger("cuassay.guard").setLevel(logging.WARNING)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as home:
        os.environ["CUASSAY_HOME"] = home
        os.environ["CUASSAY_GUARD_STATUS"] = str(Path(home) / "status")
        results = soak(total, device) | {"every call judged": judged(2000, device)}
    path = save("guard-soak", results)
    print(json.dumps(results, indent=1))
    print(path)
    if os.environ.get("OUT"):
        shutil.copy(path, os.environ["OUT"])


def judged(count: int, device: str) -> dict[str, Any]:
    """Return what the oracle and the drift test say of correct calls, every one judged."""
    options: dict[str, Any] = {
        "sample": 1.0, "max_overhead": None, "deep_every": 1, "oracle": "process",
    }  # fmt: skip
    guards = [
        cuassay.guard(fused, trusted=rms_norm, **options),
        cuassay.guard(blocked, trusted=row_sum, **options),
    ]
    for part in range(count // 4):  # with more waiting, only suspicious calls are judged
        _work(guards, 4, 10_000 + part, device)
        for one in guards:
            one.flush(300)
    found = [one.stats() for one in guards]
    return {
        name: sum(getattr(one, name) for one in found)
        for name in ("calls", "judged", "violations", "undecided", "errors", "dropped")
    }


def soak(total: int, device: str) -> dict[str, Any]:
    """Return what a million calls left behind."""
    options: dict[str, Any] = {"sample": 0.02, "max_overhead": None}
    guards = [
        cuassay.guard(fused, trusted=rms_norm, **options),
        cuassay.guard(blocked, trusted=row_sum, **options),
    ]
    memory, started = [], time.perf_counter()
    for part in range(20):
        count = total // 20 // _THREADS
        threads = [
            threading.Thread(target=_work, args=(guards, count, 1000 * part + n, device))
            for n in range(_THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in guards:
            one.flush(300)
        on_device = torch.cuda.memory_allocated() / 2**20 if device == "cuda" else 0.0
        memory.append({"resident_mib": _resident_mib(), "device_mib": on_device})
    calls = total // 20 // _THREADS * 20 * _THREADS
    counted = sum(one.stats().calls for one in guards)
    return {
        "calls made": calls,
        "calls counted": counted,
        "exact": counted == calls,
        "false alarms": sum(one.stats().violations for one in guards),
        "seconds": time.perf_counter() - started,
        "memory": memory,
        "growth of the second half, MiB": memory[-1]["resident_mib"] - memory[9]["resident_mib"],
        "snapshot bytes left": sum(one.watch.memory.used_bytes for one in guards),
        "guards": [
            {name: getattr(one.stats(), name) for name in one.stats().__dataclass_fields__}
            for one in guards
        ],
    }


if __name__ == "__main__":
    main()
