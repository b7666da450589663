"""Calibrate the judgement rule: false alarms on honest variants, detection of faulty ones.

    python benchmarks/calibrate.py [--device cpu|cuda] [--seeds N] [--out FILE] [--only TEXT]

Operators and fills are not those that shaped the rule. Every honest variant must pass; per
fault the share of cases caught is printed (many cases cannot reveal a fault: an eps that is
negligible, a tail that is short). Results go to benchmarks/results/calibration-<device>.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch
from calibration_arithmetic import FAULTY, HONEST, Arithmetic
from calibration_growth import growth_study, seeds_study
from calibration_operators import FILLS, OPERATORS, Operator
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.compare.groups import LIMIT_G, LIMIT_P, LIMIT_W, LIMIT_Z
from cuassay.oracle.compare.outputs import Comparison, measure
from cuassay.oracle.truth.make import Truth, hit_counts, make_truth

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SHAPES = ((24, 512), (96, 128), (5, 4100), (260, 40))


def _none_of_none() -> list[int]:
    return [0, 0]


class Tally:
    """Counts and extremes of one calibration."""

    def __init__(self) -> None:
        self.honest: Counter[str] = Counter()
        self.alarms: list[dict[str, object]] = []
        self.caught: dict[str, list[int]] = defaultdict(_none_of_none)
        self.largest: dict[str, tuple[float, str]] = {}
        self.by_statistic: Counter[str] = Counter()
        self.alone: Counter[str] = Counter()
        self.runs: list[float] = []
        self.set_aside = 0
        self.set_aside_alarms = 0

    def add_honest(self, place: str, comparison: Comparison) -> None:
        self.honest["cases"] += 1
        for found in comparison.statistics:
            self._keep_largest(found.name, (found.value, f"{place} / {found.group}"))
        if not comparison.passed:
            worst = comparison.worst
            self.alarms.append(
                {
                    "where": place,
                    "share": comparison.share,
                    "statistic": worst.name if worst else comparison.mismatch,
                    "group": worst.group if worst else "",
                    "got": comparison.got,
                    "expected": comparison.expected,
                }
            )

    def _keep_largest(self, name: str, found: tuple[float, str]) -> None:
        if found[0] > self.largest.get(name, (0.0, ""))[0]:
            self.largest[name] = found

    def take(self, other: Tally) -> None:
        """Add what another process counted."""
        self.honest += other.honest
        self.alarms += other.alarms
        for fault, (caught, of) in other.caught.items():
            self.caught[fault] = [self.caught[fault][0] + caught, self.caught[fault][1] + of]
        for name, found in other.largest.items():
            self._keep_largest(name, found)
        self.by_statistic += other.by_statistic
        self.alone += other.alone
        self.runs += other.runs
        self.set_aside += other.set_aside
        self.set_aside_alarms += other.set_aside_alarms

    def add_faulty(self, fault: str, comparison: Comparison) -> None:
        entry = self.caught[fault]
        entry[1] += 1
        if comparison.passed:
            return
        entry[0] += 1
        broken = {s.name for s in comparison.statistics if s.share > 1}
        self.by_statistic.update(broken)
        if len(broken) == 1:
            self.alone.update(broken)


def spec_of(output: Tensor) -> TensorSpec:
    dtype = DType(str(output.dtype).removeprefix("torch."))
    return TensorSpec(name="y", dtype=dtype, shape=(), domain=Real())


def damaged(output: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield faults that are applied to an exact answer before its cast."""
    if output.dim() < 2:
        return
    matrix = output.reshape(-1, output.shape[-1])
    row = int(matrix.abs().sum(1).argmax()) if matrix.shape[0] < 2 else matrix.shape[0] // 2
    for name, part, factor in (
        ("one row 0.4 %", (row, slice(None)), 1.004),
        ("one column 1.6 %", (slice(None), matrix.shape[1] // 3), 1.016),
        ("one element 3 %", (row, matrix.shape[1] // 3), 1.03),
    ):
        broken = matrix.clone()
        broken[part] *= factor
        yield name, broken.reshape(output.shape)


def wide(inputs: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)


def run_variant(
    operator: Operator, arithmetic: Arithmetic, inputs: tuple[Tensor, ...], dtype: torch.dtype
) -> Tensor:
    return operator.kernel(arithmetic, *wide(inputs, arithmetic.wide)).to(dtype)


def judge_case(tally: Tally, operator: Operator, truth: Truth, place: str, inputs: object) -> None:
    """Compare every variant of one case."""
    assert isinstance(inputs, tuple)
    output = truth.outputs[0]
    dtype = next(x.dtype for x in inputs if x.is_floating_point())
    tally.runs.append(truth.runs)
    if truth.ill_conditioned:
        tally.set_aside += 1
    for name, (piece, arithmetic) in HONEST.items():
        if piece in operator.uses or not piece:
            comparison = measure(run_variant(operator, arithmetic, inputs, dtype), output)
            if truth.ill_conditioned:
                tally.set_aside_alarms += not comparison.passed
            else:
                tally.add_honest(f"{place} / {name}", comparison)
    if truth.ill_conditioned:
        return
    reference = measure(operator.reference(*inputs), output)
    tally.add_honest(f"{place} / reference", reference)
    short = str(dtype).removeprefix("torch.")
    for name, (piece, arithmetic) in FAULTY.items():
        same_inputs = "product" in name and "tile" not in name and dtype != torch.float32
        if piece in operator.uses and not same_inputs:
            result = run_variant(operator, arithmetic, inputs, dtype)
            tally.add_faulty(f"{name} [{short}]", measure(result, output))
    for name, broken in damaged(output.value):
        tally.add_faulty(f"{name} [{short}]", measure(broken.to(dtype), output))


def study(device: str, seeds: int, only: str, processes: int) -> Tally:
    """Return what all operators showed, one process an operator."""
    tally = Tally()
    names = [operator.name for operator in OPERATORS if only in operator.name]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context) as pool:
        for part in pool.map(partial(study_one, device=device, seeds=seeds), names):
            tally.take(part)
    return tally


def study_one(name: str, *, device: str, seeds: int) -> Tally:
    """Return what the operator of this name showed."""
    tally = Tally()
    for operator in OPERATORS:
        if operator.name != name:
            continue
        for seed in range(seeds):
            for shape in SHAPES:
                for fill, make in FILLS.items():
                    torch.manual_seed(1000 * seed + shape[1])
                    drawn = operator.inputs(shape, make)
                    for dtype in DTYPES:
                        inputs = wide(tuple(x.to(device) for x in drawn), dtype)
                        place = f"{operator.name} / {fill} / {dtype} / {shape}"
                        judge_case(tally, operator, truth_of(operator, inputs, seed), place, inputs)
    return tally


def truth_of(operator: Operator, inputs: tuple[Tensor, ...], seed: int) -> Truth:
    reference: Callable[..., Tensor] = operator.reference
    result = reference(*inputs)
    hits = {"y": hit_counts(inputs[1], result.shape[0])} if operator.indexed else None
    return make_truth(reference, inputs, [spec_of(result)], seed=seed, index_hits=hits)


def environment(device: str) -> dict[str, str]:
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    return {
        "device": device,
        "machine": name,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="operators whose name contains this text")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    start = time.perf_counter()
    tally = study(options.device, options.seeds, options.only, options.processes)
    document: dict[str, object] = {
        "environment": environment(options.device),
        "honest_cases": tally.honest["cases"],
        "false_alarms": tally.alarms,
        "largest_honest": dict(tally.largest),
        "caught": {name: tuple(pair) for name, pair in sorted(tally.caught.items())},
        "caught_by": dict(tally.by_statistic),
        "caught_by_alone": dict(tally.alone),
        "ill_conditioned_cases": tally.set_aside,
        "ill_conditioned_alarms": tally.set_aside_alarms,
        "cost_runs_median": statistics.median(tally.runs) if tally.runs else None,
        "cost_runs_95_percent": sorted(tally.runs)[int(len(tally.runs) * 0.95)]
        if tally.runs
        else None,
        "cost_runs_maximum": max(tally.runs, default=None),
        "seeds": options.seeds,
        "limits": {"W": LIMIT_W, "G": LIMIT_G, "Z": LIMIT_Z, "P": LIMIT_P},
    }
    if not options.only:
        document["growth"] = growth_study(options.device)
        document["seeds"] = seeds_study(options.device)
        if options.device == "cuda":
            from calibration_gpu import gpu_study

            document["hardware"] = gpu_study()
    document["seconds"] = round(time.perf_counter() - start, 1)
    print(json.dumps(document, indent=1))
    out = options.out
    if out is None and not options.only:
        out = Path(__file__).parent / "results" / f"calibration-{options.device}.json"
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
