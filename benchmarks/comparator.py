"""Comparator: bandwidth of the fused kernel against device copy, speed against eager torch.

    python benchmarks/comparator.py [--elements N ...] [--device cuda] [--out FILE]

Prints, with the device named: copy bandwidth (bytes read plus written), bytes that the
comparator reads per second with every group score on, their ratio, and how much faster it is
than the same metrics written as plain eager torch on whole tensors. On the CPU (smaller
default) the chunked path takes the kernel's place.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.oracle.compare import groups as compare_groups
from cuassay.oracle.compare.outputs import compare, measure_groups, output_sums
from cuassay.oracle.special import half_spacing
from cuassay.oracle.truth.scale import Runs, Scale
from cuassay.oracle.truth.types import OutputTruth
from cuassay.oracle.truth.yardstick import yardsticks

COLUMNS = 4096
_BYTES = 2 + 8 + 4  # candidate bfloat16, truth float64, scale float32


def synthetic(rows: int, device: str) -> tuple[Tensor, OutputTruth]:
    """Return a candidate that rounds correctly and its truth, hit groups included."""
    generator = torch.Generator(device=device).manual_seed(1)
    shape = (rows, COLUMNS)
    narrow = torch.randn(shape, generator=generator, device=device)
    candidate = narrow.to(torch.bfloat16)
    value = narrow.double()
    del narrow
    scale = half_spacing(value, DType.BFLOAT16).mul_(0.8)
    hits = torch.randint(0, 400, (rows,), generator=generator, device=device)
    runs = Runs(
        value=value,
        deviations=[],
        errors=[],
        dtype=DType.BFLOAT16,
        roundoff=2.0**-24,
        rounded=False,
        discontinuous=False,
    )
    given = Scale(full=scale, noise=scale)
    truth = OutputTruth(
        name="y",
        dtype=DType.BFLOAT16,
        value=value,
        scale=scale,
        least=float(scale.amin()),
        unit=1e-3,
        yardsticks=yardsticks(runs, given, ("rows", "columns"), hits, unit=1e-3),
        hits=hits,
    )
    return candidate, truth


def eager(candidate: Tensor, truth: OutputTruth) -> list[Tensor]:
    """The same metrics on whole tensors, as one would write them first."""
    assert truth.scale is not None
    assert truth.hits is not None
    t, s, c = truth.value, truth.scale.double(), candidate.double()
    both = torch.isfinite(c) & torch.isfinite(t)
    same = both | (torch.isnan(c) & torch.isnan(t)) | (c == t)
    e = torch.where(both, c - t, 0.0)
    e = torch.where(e.abs() <= torch.finfo(torch.bfloat16).tiny, 0.0, e)
    z = torch.where(s.abs() > 0, e / s.abs(), 0.0)
    keep = both & (s > 0)
    zk = torch.where(keep, z, 0.0)
    w = torch.where(keep, t / s, 0.0)
    parts = ((e / truth.unit).square(), zk.abs().clamp_max(12.0).square(), zk * w, zk)
    member = compare_groups.hit_membership(truth.hits)
    found = [z.abs().max(), z.abs().argmax(), (~same).sum()]
    for part in parts:
        rows = part.sum(1)
        found += [part.sum(), rows, part.sum(0), rows @ member]
    return found


def seconds(work: Callable[[], object], device: str, repeats: int) -> float:
    """Return the median time of one call after a warm-up."""
    times = []
    for turn in range(repeats + 2):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        if turn >= 2:
            times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def copy_rate(elements: int, device: str, repeats: int) -> float:
    """Return bytes read plus written per second by a device copy of bfloat16 elements."""
    source = torch.empty(elements, dtype=torch.bfloat16, device=device)
    target = torch.empty_like(source)
    return 4 * elements / seconds(lambda: target.copy_(source), device, repeats)


def measure(elements: int, device: str, repeats: int) -> dict[str, object]:
    copy_bandwidth = copy_rate(elements * 2, device, repeats)
    candidate, truth = synthetic(elements // COLUMNS, device)
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    passed = compare(candidate, truth)
    extra = torch.cuda.max_memory_allocated() - before if device == "cuda" else None

    def fused() -> object:
        sums, _ = output_sums(candidate, truth)
        measure_groups(sums, truth, truth.yardsticks)
        return float(sums.peak.max())

    kernel_s = seconds(lambda: output_sums(candidate, truth), device, repeats)
    fused_s = seconds(fused, device, repeats)
    whole_s = seconds(lambda: compare(candidate, truth), device, repeats)
    eager_s = None  # on larger outputs it lacks the memory
    if elements <= 1 << 28:
        eager_s = seconds(lambda: eager(candidate, truth), device, max(1, repeats // 4))
    count = truth.value.numel()
    candidate[: max(1, len(candidate) // 100)] *= 1.05
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    failed = compare(candidate, truth)
    failing_extra = torch.cuda.max_memory_allocated() - before if device == "cuda" else None
    failing_s = seconds(lambda: compare(candidate, truth), device, max(1, repeats // 4))
    return {
        "elements": count,
        "passed": passed.passed,
        "share": passed.share,
        "copy_bandwidth_gb_s": copy_bandwidth / 1e9,
        "sums_ms": kernel_s * 1e3,
        "sums_of_copy_bandwidth": count * _BYTES / kernel_s / copy_bandwidth,
        "scores_ms": fused_s * 1e3,
        "scores_of_copy_bandwidth": count * _BYTES / fused_s / copy_bandwidth,
        "compare_ms": whole_s * 1e3,
        "compare_of_copy_bandwidth": count * _BYTES / whole_s / copy_bandwidth,
        "eager_ms": None if eager_s is None else eager_s * 1e3,
        "times_faster_than_eager": None if eager_s is None else eager_s / whole_s,
        "failing_passed": failed.passed,
        "failing_compare_ms": failing_s * 1e3,
        "extra_memory_bytes": extra,
        "failing_extra_memory_bytes": failing_extra,
        "extra_memory_of_float32_output": None if extra is None else extra / (4 * count),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    cuda = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if cuda else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--elements", type=int, nargs="*", default=None)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    sizes = options.elements or ([1 << 28, 1 << 30] if options.device == "cuda" else [1 << 21])
    device = options.device
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    document: dict[str, object] = {
        "device": name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "date": datetime.now(UTC).date().isoformat(),
        **measure(sizes[0], device, options.repeats),
        "larger": [measure(elements, device, options.repeats) for elements in sizes[1:]],
    }
    try:
        import triton

        document["triton"] = triton.__version__
    except ImportError:
        document["triton"] = None
    print(json.dumps(document, indent=1))
    out = options.out or Path(__file__).parent / "results" / f"comparator-{device}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
