"""How soon a guard finds a fault in a live training run, and what it says of the right kernel.

    PYTHONPATH=src:. python benchmarks/guard_detection.py [SCENARIO ...]

The small transformer of cuassay_loops trains on skewed token ids (Zipf 1.2, bf16, SGD); one
operator's kernel is under guard in `observe`, so that the run goes on. Each fault runs until
it is found or its calls are used up, each correct twin for all of them. Results:
benchmarks/results/guard-detection-<device>.json, and $OUT where that is set.
"""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from benchmarks.common import result_path, save
from torch import Tensor

import cuassay
from cuassay.catalog.embedding import embedding_grad
from cuassay.catalog.norms import rmsnorm
from cuassay.model.device import Device
from cuassay_loops.model.operators import Operators, SiteMode
from cuassay_loops.model.transformer import Transformer
from cuassay_loops.results import Preset
from cuassay_loops.text.corpus import corpus

_CPU = Preset(
    name="guard", vocab=512, hidden=64, layers=1, heads=2, kv_heads=2, ffn=128, batch=4, length=32
)
_GPU = Preset(
    name="guard", vocab=16_384, hidden=512, layers=2, heads=8, kv_heads=8, ffn=1024, batch=8,
    length=512,
)  # fmt: skip


def right_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return RMSNorm by PyTorch's own kernel, in float32."""
    out = torch.nn.functional.rms_norm(x.float(), weight.shape, weight.float(), eps)
    return out.to(x.dtype)


def right_gradient(grad: Tensor, ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    """Return the gradient of the embedding, summed in float32 by sorted ids."""
    order = torch.argsort(ids, stable=True)
    total = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    total.index_add_(0, ids[order], grad[order].float() * scale)
    return total.to(grad.dtype)


def low_gradient(grad: Tensor, ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    """The same, accumulated in bfloat16: the fault that trains wrong with real text and SGD.

    On a GPU by atomics; torch's own sum on the CPU is in float32, so there one hit at a time.
    """
    total, grad = torch.zeros_like(weight), grad.to(weight.dtype) * scale
    if weight.is_cuda:
        return total.index_add_(0, ids, grad)
    order = torch.argsort(ids, stable=True)
    ids, grad = ids[order], grad[order]
    starts = torch.searchsorted(ids, ids)
    hit = torch.arange(len(ids)) - starts
    for turn in range(int(hit.max()) + 1):
        total[ids[hit == turn]] += grad[hit == turn]
    return total


class Kernel:
    """A kernel with a fault. `calls` counts; `first` is the first call that was wrong."""

    def __init__(self, right: Callable[..., Tensor], fault: Fault | None) -> None:
        self.right, self.fault, self.calls, self.first = right, fault, 0, 0
        self.random = random.Random(1)
        self.wrong_calls = 0
        self.__name__ = right.__name__

    def __call__(self, *arguments: Any) -> Tensor:
        """Return the result, right or wrong."""
        self.calls += 1
        out = self.right(*arguments)
        if self.fault is None or not self.fault.active(self, arguments):
            return out
        self.wrong_calls += 1
        self.first = self.first or self.calls
        return self.fault.spoil(out, arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """When a kernel is wrong, and how."""

    active: Callable[[Kernel, tuple[Any, ...]], bool]
    spoil: Callable[[Tensor, tuple[Any, ...]], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run. `calls` bounds it; `short` gives every so-manyth batch another length."""

    name: str
    site: str
    fault: Fault
    calls: int
    sample: float = 1e-2
    short: int = 0
    deep_every: int = 16


def _one_row(out: Tensor, _: tuple[Any, ...]) -> Tensor:
    out = out.clone()
    out[out.shape[0] // 2] *= 1.05
    return out


def _stale_tile(out: Tensor, _: tuple[Any, ...]) -> Tensor:
    """A tile of 32 elements that was read before it was written: the row above it."""
    out = out.clone()
    out[1, :32] = out[0, :32]
    return out


def _gained(gain: float) -> Callable[[Tensor, tuple[Any, ...]], Tensor]:
    """Return a norm too large by `gain` before it is rounded: afterwards it would round away."""

    def spoil(out: Tensor, arguments: tuple[Any, ...]) -> Tensor:
        x, weight, eps = arguments
        exact = torch.nn.functional.rms_norm(x.float(), weight.shape, weight.float(), eps)
        return (exact * (1 + gain)).to(out.dtype)

    return spoil


def scenarios(preset: Preset, scale: int) -> list[Scenario]:
    """Return the faults of the issue, with the calls that each may take."""
    rare = preset.batch * (preset.length - 1)
    low = Fault(active=lambda k, a: True, spoil=lambda o, a: low_gradient(*a))
    later = Fault(active=lambda k, a: k.calls > 300, spoil=low.spoil)
    aged = Fault(active=lambda k, a: k.calls > 10_000, spoil=_one_row)
    shape = Fault(active=lambda k, a: a[0].shape[0] == rare, spoil=_one_row)
    gain = Fault(active=lambda k, a: True, spoil=_gained(2.0**-9))
    slight = Fault(active=lambda k, a: True, spoil=_gained(2.0**-12))  # inside each call's bound
    race = Fault(active=lambda k, a: k.random.random() < 1e-4, spoil=_stale_tile)
    return [
        Scenario(name="bf16 embedding gradient", site="embedding_grad", fault=low, calls=400),
        Scenario(
            name="bf16 embedding gradient from call 300 on", site="embedding_grad", fault=later,
            calls=1000 * scale,
        ),
        Scenario(
            name="wrong after 10 000 calls", site="rmsnorm", fault=aged, calls=10_000 + 2000 * scale
        ),
        Scenario(
            name="wrong for one rare shape", site="rmsnorm", fault=shape, calls=4000, short=200
        ),
        Scenario(name="constant sign, 2^-9", site="rmsnorm", fault=gain, calls=2000),
        Scenario(
            name="constant sign, 2^-12", site="rmsnorm", fault=slight, calls=2400, sample=0.1,
            deep_every=1,
        ),
        Scenario(
            name="race once in 10^4 calls", site="rmsnorm", fault=race, calls=20_000, sample=1.0
        ),
    ]  # fmt: skip


def run(scenario: Scenario, fault: Fault | None, preset: Preset, device: str) -> dict[str, Any]:
    """Train until the fault is found or the calls are used up; return what happened."""
    torch.manual_seed(0)
    right = right_norm if scenario.site == "rmsnorm" else right_gradient
    trusted = rmsnorm if scenario.site == "rmsnorm" else embedding_grad
    kernel = Kernel(right, fault)
    guarded = cuassay.guard(
        kernel, trusted=trusted, problem=scenario.site, sample=scenario.sample, mode="observe",
        max_overhead=None, capsules=None, name=scenario.name, deep_every=scenario.deep_every,
    )  # fmt: skip
    kernels = {scenario.site: lambda values: (guarded(*values),)}
    ops = Operators(precision="bf16", vocab=preset.vocab, device=Device(device), kernels=kernels)
    ops.mode = SiteMode.CANDIDATE
    model = Transformer(preset, ops).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = corpus("zipf1.2", preset.vocab)
    start, step, loss = time.perf_counter(), 0, torch.zeros(1)
    while kernel.calls < scenario.calls and not guarded.stats().violations:
        step += 1
        short = scenario.short and step % scenario.short == 0
        length = preset.length - 1 if short else preset.length
        ids, targets = data.batch(preset.batch, length, seed=1, step=step)
        loss = model(ids.to(device), targets.to(device)).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if scenario.deep_every == 1:  # every sampled call is judged: let the oracle keep up
            guarded.flush(60)
    seconds = time.perf_counter() - start
    guarded.flush(120)
    found, violation = guarded.stats(), guarded.last_violation
    document = {
        "steps": step, "calls": found.calls, "seconds": seconds, "sampled": found.sampled,
        "checked": found.checked, "judged by the oracle": found.judged,
        "violations": found.violations, "undecided": found.undecided, "errors": found.errors,
        "dropped": found.dropped, "loss": float(loss.detach()),
    }  # fmt: skip
    if fault is not None:
        document |= {
            "first wrong call": kernel.first, "wrong calls": kernel.wrong_calls,
            "calls from the first wrong one to the violation's report":
                kernel.calls - kernel.first + 1 if violation else None,
            "found by": violation.kind if violation else "",
            "statistic": violation.statistic if violation else "",
            "what": violation.message if violation else "",
        }  # fmt: skip
    return document


def _totals(results: dict[str, Any]) -> dict[str, int]:
    twins = [one["twin"] for one in results.values()]
    return {
        "false alarms": sum(twin["violations"] for twin in twins),
        "guarded correct calls": sum(twin["calls"] for twin in twins),
    }


def _earlier(asked: list[str]) -> dict[str, Any]:
    """Return what the result file holds of scenarios that are not asked for; nothing for all."""
    path = result_path("guard-detection")
    if not asked or not path.is_file():
        return {}
    held = json.loads(path.read_text())["results"]
    return {k: v for k, v in held.items() if isinstance(v, dict) and k not in asked}


def main() -> None:
    """Run everything, print, and keep each scenario as soon as it has ended."""
    logging.getLogger("cuassay.guard").setLevel(logging.CRITICAL)
    os.environ["CUASSAY_GUARD_STATUS"] = "off"
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    preset = _GPU if device == "cuda" else _CPU
    planned = scenarios(preset, scale=1 if device == "cpu" else 4)
    unknown = sorted(set(sys.argv[1:]) - {scenario.name for scenario in planned})
    if unknown:
        known = "; ".join(scenario.name for scenario in planned)
        raise SystemExit(f"no such scenario: {'; '.join(unknown)}; they are: {known}")
    results = _earlier(sys.argv[1:])
    with tempfile.TemporaryDirectory() as home:
        os.environ["CUASSAY_HOME"] = home
        for scenario in planned:
            if sys.argv[1:] and scenario.name not in sys.argv[1:]:
                continue
            wrong = run(scenario, scenario.fault, preset, device)
            twin = run(scenario, None, preset, device)
            results[scenario.name] = {"sample": scenario.sample, "fault": wrong, "twin": twin}
            print(scenario.name, json.dumps(results[scenario.name]), flush=True)
            path = save("guard-detection", results | _totals(results))
    print(path)
    if os.environ.get("OUT"):
        shutil.copy(path, os.environ["OUT"])


if __name__ == "__main__":
    main()
