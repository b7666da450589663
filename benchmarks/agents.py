"""What a verification costs a kernel-writing agent: from cold, and from a waiting judge.

    PYTHONPATH=src:. python benchmarks/agents.py [--device cuda]

One correct and one wrong kernel of the catalogue's rmsnorm at `quick`, several times each: a call
of `cuassay.verify`, and of a `Verifier` whose judge has had time to get ready, as it has while
an agent writes its next kernel. Then twelve candidates back to back through a Verifier with one
lane. Seconds of wall time; the verdicts are checked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable

from common import save

from cuassay.verifier import Result, Verifier, verify

_GOOD = """
import torch
def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)
"""
_BAD = """
import torch
def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps * 100)
"""
_BATCH = 12
_READY_S = 12.0


def main() -> None:
    """Measure and keep the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", help="cpu or cuda; default: cuda where there is a GPU")
    parser.add_argument("--times", type=int, default=5, help="repetitions of each call")
    given = parser.parse_args()
    os.environ.setdefault("CUASSAY_HOME", tempfile.mkdtemp(prefix="cuassay-bench-"))
    results = {"problem": "rmsnorm", "profile": "quick", **_measured(given.device, given.times)}
    print(json.dumps(results, indent=1))
    print(save("agents", results))


def _measured(device: str | None, times: int) -> dict[str, object]:
    def cold(source: str) -> Result:
        return verify(source, "rmsnorm", profile="quick", device=device)

    found: dict[str, object] = {
        "cold_accepted_s": _timed(lambda: cold(_GOOD), "ACCEPTED", times),
        "cold_rejected_s": _timed(lambda: cold(_BAD), "REJECTED", times),
    }
    with Verifier(workers=1, profile="quick", device=device) as pool:
        for name, source, status in (
            ("accepted", _GOOD, "ACCEPTED"),
            ("rejected", _BAD, "REJECTED"),
        ):
            found[f"warm_{name}_s"] = _timed(
                lambda source=source: pool.verify(source, "rmsnorm"),
                status,
                times,
                pause_s=_READY_S,
            )
        pairs = [((_GOOD, _BAD)[n % 2], "rmsnorm") for n in range(_BATCH)]
        started = time.perf_counter()
        statuses = [result.status.value for result in pool.verify_all(*pairs)]
        took_s = time.perf_counter() - started
    assert statuses == ["ACCEPTED", "REJECTED"] * (_BATCH // 2), statuses
    found["batch_of_12_s"] = round(took_s, 2)
    found["batch_per_candidate_s"] = round(took_s / _BATCH, 2)
    return found


def _timed(
    call: Callable[[], Result], status: str, repeats: int, *, pause_s: float = 0.0
) -> dict[str, object]:
    times = []
    for _ in range(repeats):
        time.sleep(pause_s)
        started = time.perf_counter()
        result = call()
        times.append(round(time.perf_counter() - started, 2))
        assert result.status.value == status, (result.status, result.reason)
    return {"median": statistics.median(times), "all": times}


if __name__ == "__main__":
    main()
