"""How much memory truths take beside what `bytes_needed` plans, and how long they take.

    python benchmarks/truth_memory.py [--device cuda] [--limit-s 300] [--elements 33554432]

One process a problem: the peak is torch's own on a GPU, and of the resident set on a CPU. Rows
are saved as they come; a problem whose truth cannot be made is a row with its reason.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import resource
import time
from typing import Any

import torch
from common import save

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.inputs.geometry import elements
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.model.axes import resolve, shape_of
from cuassay.model.device import Device
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.memory import bytes_needed, live_bytes, truth_bytes

PROBLEMS = (
    "rmsnorm", "rmsnorm_backward", "softmax_softcap", "cross_entropy", "attention",
    "embedding_grad", "gemm", "swiglu", "moe_scatter", "layernorm",
)  # fmt: skip


def measured(name: str, device: Device, most: int, pipe: Any) -> None:
    """Send what one truth of the largest workload below `most` elements took."""
    try:
        pipe.send(row(name, device, most))
    except Exception as error:
        pipe.send({"problem": name, "reason": f"{type(error).__name__}: {error}"[:300]})


def row(name: str, device: Device, most: int) -> dict[str, Any]:
    problem = registry.get(name)
    case = plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=1)[0]
    sizes = [resolve(problem.axes, workload.axes) for workload in problem.workloads]
    fitting = [axes for axes in sizes if elements(problem, axes) <= most] or sizes[:1]
    axes = max(fitting, key=lambda one: elements(problem, one))
    values = list(
        materialise(problem, dataclasses.replace(case, axes=axes), device=device).values()
    )
    reference = load_reference(problem).call
    shapes = [shape_of(spec.shape, axes) for spec in problem.outputs]
    before = _peak(device)
    started = time.perf_counter()
    truth = make_truth(reference, values, problem.outputs, seed=1)
    _wait(device)
    taken_s = time.perf_counter() - started
    return {
        "problem": name,
        "elements": elements(problem, axes),
        "axes": dict(axes),
        "draws": truth.draws,
        "seconds": round(taken_s, 3),
        "peak_bytes": _peak(device) - before,
        "planned_bytes": bytes_needed(
            live_bytes(reference, values, device=device), values, shapes, draws=truth.draws
        ),
        "kept_bytes": truth_bytes(truth),
    }


def _wait(device: Device) -> None:
    if device.on_gpu:
        torch.cuda.synchronize()


def _peak(device: Device) -> int:
    if device.on_gpu:
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return peak
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measure every problem, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    default = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", type=Device, default=default)
    parser.add_argument("--elements", type=int, default=1 << 25, help="at most, inputs and outputs")
    parser.add_argument("--limit-s", type=float, default=300.0)
    parser.add_argument("--only", nargs="*", default=PROBLEMS)
    options = parser.parse_args()
    context, rows, started = multiprocessing.get_context("spawn"), [], time.monotonic()
    for name in options.only:
        left_s = options.limit_s - (time.monotonic() - started)
        if left_s <= 0:
            break
        here, there = context.Pipe(duplex=False)
        arguments = (name, options.device, options.elements, there)
        process = context.Process(target=measured, args=arguments)
        process.start()
        found = here.recv() if here.poll(left_s) else {"problem": name, "reason": "out of time"}
        process.kill()
        process.join()
        rows.append(found)
        print(found, flush=True)
        save("truth-memory", {"rows": rows})


if __name__ == "__main__":
    main()
