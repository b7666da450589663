"""A whole `standard` verdict on a fused norm backward at production size, check by check.

V = 65 536, H = 4 096, 32 768 tokens, everything on, compute-sanitizer included; in Triton and in
CUDA C++, each with an empty build cache and from process start to exit. The bound is 120 s.

    PYTHONPATH=src python benchmarks/standard_production.py [triton|cuda]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from common import ROOT, check, line, save

FOLDER = ROOT / "examples" / "embedding_rmsnorm_backward"
KERNELS = {"triton": "kernel_fp32_triton.py", "cuda": "kernel_fp32.cu"}
BOUND_S = 120.0
_TOP = 12


def by_check(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return code, outcome, reason and seconds of every check, the longest first."""
    keys = ("code", "outcome", "reason", "duration_s")
    found = [{key: entry.get(key) for key in keys} for entry in document.get("checks", [])]
    return sorted(found, key=lambda entry: -(entry["duration_s"] or 0.0))


def main() -> int:
    """Print the longest checks and save all; 1 where a verdict is wrong or takes too long."""
    if not torch.cuda.is_available():
        print("needs an NVIDIA GPU")
        return 3
    results, bad = [], 0
    for name in sys.argv[1:] or list(KERNELS):
        with tempfile.TemporaryDirectory() as home:
            document = check(
                FOLDER / KERNELS[name],
                str(FOLDER / "problem_full"),
                profile="standard",
                home=Path(home),
            )
        print(line(f"{name}, standard, cold", document), flush=True)
        checks = by_check(document)
        for entry in checks[:_TOP]:
            print(f"  {entry['code']:<10} {entry['duration_s'] or 0.0:7.1f} s  {entry['outcome']}")
        keys = ("verdict", "wall_s", "timing_s", "reason", "exit_code", "conditions", "error")
        kept = {key: document.get(key) for key in keys}
        beside = document["wall_s"] - sum(entry["duration_s"] or 0.0 for entry in checks)
        print(f"  {'beside':<10} {beside:7.1f} s  start, the rule, power, speed, choices")
        kept |= {"bound_s": BOUND_S, "beside_checks_s": round(beside, 2)}
        results.append({"name": name, **kept, "checks": checks})
        bad += document.get("verdict") != "ACCEPTED" or document["wall_s"] > BOUND_S
    print(f"results: {save('standard-production', results)}; {bad} not as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
