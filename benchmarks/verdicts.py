"""Time to verdict, from process start to exit: cold and warm build cache, quick and standard.

On a GPU: RMSNorm in Triton and CUDA C++ over 14 workloads, and the embedding-gradient kernels
at V = 65 536, H = 4 096, 32 768 tokens. On a CPU: the same at the demo's size, where Triton
runs in its interpreter.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from common import ROOT, check, line, save

EMBEDDING = ROOT / "examples" / "embedding_rmsnorm_backward"
NORM = ROOT / "benchmarks" / "rmsnorm"


def trials(gpu: bool) -> list[tuple[str, Path, str, str]]:
    """Return name, candidate, problem and the verdict that is right."""
    problem = str(EMBEDDING / ("problem_full" if gpu else "problem"))
    found = [
        ("rmsnorm Triton", NORM / "kernel_triton.py", str(NORM), "ACCEPTED"),
        ("embedding bf16 Triton", EMBEDDING / "kernel_bf16_triton.py", problem, "REJECTED"),
        ("embedding fp32 Triton", EMBEDDING / "kernel_fp32_triton.py", problem, "ACCEPTED"),
    ]
    if gpu:
        found += [
            ("rmsnorm CUDA C++", NORM / "cuda" / "solution.json", str(NORM), "ACCEPTED"),
            ("embedding bf16 CUDA", EMBEDDING / "kernel_bf16.cu", problem, "REJECTED"),
            ("embedding fp32 CUDA", EMBEDDING / "kernel_fp32.cu", problem, "ACCEPTED"),
        ]
    return found


def main() -> int:
    """Print a line a run and save the results; 1 where a verdict is not the right one."""
    gpu = torch.cuda.is_available()
    runs = [("quick", "cold"), ("quick", "warm"), ("standard", "warm")]
    only = sys.argv[1:]
    results, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, candidate, problem, right in trials(gpu):
            for profile, cache in runs:
                if only and profile not in only:
                    continue
                if profile == "standard" and "Triton" not in name:
                    continue  # the same cases as Triton's twin: one of them tells the time
                document = check(
                    candidate, problem, profile=profile, home=Path(folder) / name.replace(" ", "_")
                )
                label = f"{name}, {profile}, {cache}"
                print(line(label, document), flush=True)
                wrong += document.get("verdict") != right
                keys = ("verdict", "wall_s", "timing_s", "reason", "exit_code", "error")
                kept = {key: document.get(key) for key in keys}
                results.append({"name": label, "expected": right, **kept})
    print(f"results: {save('verdicts', results)}; {wrong} not as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
