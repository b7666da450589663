"""A whole `standard` verdict on a fused norm backward at production size, phase by phase.

V = 65 536, H = 4 096, 32 768 tokens, everything on, compute-sanitizer included; in Triton and in
CUDA C++, each with an empty build cache, from the start of the judge to the verdict. The bound
is 120 s. The clock is read at every event, so that what lies between checks shows as well.

    PYTHONPATH=src python benchmarks/standard_production.py [triton|cuda]
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import Any

import torch
from common import ROOT, save

from cuassay.api import job_of
from cuassay.engine import run
from cuassay.model.events import CheckFinished, EngineFinished, EngineStopped, Progress
from cuassay.model.verdict import Profile

FOLDER = ROOT / "examples" / "embedding_rmsnorm_backward"
KERNELS = {"triton": "kernel_fp32_triton.py", "cuda": "kernel_fp32.cu"}
BOUND_S = 120.0
_TOP = 14


def judged(name: str) -> dict[str, Any]:
    """Return the verdict, the wall time and the seconds of every check and of every phase."""
    job = job_of(FOLDER / KERNELS[name], problem=FOLDER / "problem_full", profile=Profile.STANDARD)
    begun = last = time.perf_counter()
    phase, phases, checks = "start", dict[str, float](), list[dict[str, Any]]()
    found: dict[str, Any] = {"name": name, "bound_s": BOUND_S}
    for event in run.check(job):
        now = time.perf_counter()
        match event:
            case CheckFinished(report=report):
                kind = type(report.outcome).__name__
                why = getattr(report.outcome, "summary", "") or getattr(
                    report.outcome, "reason", ""
                )
                row = {"code": report.code, "outcome": kind, "why": why}
                checks.append(row | {"seconds": round(report.duration_s, 2)})
                phases.setdefault("start", now - begun - report.duration_s)
                last, phase = now, "after the checks"
            case Progress(text=text) if phase != "start":
                phases[phase] = phases.get(phase, 0.0) + now - last
                last, phase = now, text
            case EngineFinished(verdict=verdict):
                phases[phase] = phases.get(phase, 0.0) + now - last
                found |= {"verdict": verdict.decision.value, "reason": verdict.reason}
                found |= {"conditions": list(verdict.conditions)}
            case EngineStopped(message=message):
                found |= {"verdict": "", "reason": message}
            case _:
                pass
    found["wall_s"] = round(time.perf_counter() - begun, 1)
    found["phases"] = {key: round(value, 2) for key, value in phases.items()}
    return found | {"checks": sorted(checks, key=lambda row: -float(row["seconds"]))}


def main() -> int:
    """Print the longest checks and save all; 1 where a verdict is wrong or takes too long."""
    if not torch.cuda.is_available():
        print("needs an NVIDIA GPU")
        return 3
    results, bad = [], 0
    for name in sys.argv[1:] or list(KERNELS):
        with tempfile.TemporaryDirectory() as home:
            os.environ["CUASSAY_HOME"] = home
            found = judged(name)
        print(f"{name}: {found['verdict']} in {found['wall_s']} s; {found['reason'][:200]}")
        for row in found["checks"][:_TOP]:
            print(
                f"  {row['code']:<12} {row['seconds']:7.1f} s  {row['outcome']} {row['why'][:150]}"
            )
        for phase, seconds in found["phases"].items():
            print(f"  {seconds:7.1f} s  {phase}", flush=True)
        results.append(found)
        bad += found["verdict"] != "ACCEPTED" or found["wall_s"] > BOUND_S
    print(f"results: {save('standard-production', results)}; {bad} not as expected")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
