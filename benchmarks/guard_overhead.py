"""What a guard costs: an unsampled call on the CPU; on a GPU also throughput and synchronisation.

    PYTHONPATH=src:. python benchmarks/guard_overhead.py
    PYTHONPATH=src:. python benchmarks/guard_overhead.py --parts decode --turns 60

Bare and guarded are measured in one run, in turns, by the CPU time of the thread. The GPU part
times a training step and a decoding step of the small transformer (benchmarks/guard_model.py),
guarded at sample 1e-3, and proves with the profiler that the caller's thread never waits for
the device. Each part is kept as soon as it ends, in
benchmarks/results/guard-overhead-<device>.json, and in $OUT where that is set.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from benchmarks.common import save
from benchmarks.guard_model import Model, Size, guarded

import cuassay

QUIET: dict[str, Any] = {"capsules": None}
_CALLS, _ROUNDS = 10_000, 30


def _signatures() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    x, w = torch.randn(64, 256), torch.randn(256)
    return {
        "one tensor": ((x,), {}),
        "two tensors and a number": ((x, w, 1e-6), {}),
        "four tensors": ((x, w, x.half(), w.double()), {}),
        "keyword arguments": ((x,), {"weight": w, "eps": 1e-6}),
    }


def hot_path() -> dict[str, Any]:
    """Return nanoseconds of bare and unsampled guarded calls of a kernel that does nothing."""

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        return arguments[0]

    found = {}
    for name, (arguments, keywords) in _signatures().items():
        made = cuassay.guard(kernel, trusted=kernel, sample=0.0, oracle="local", **QUIET)
        with made:
            made(*arguments, **keywords)
        bare, watched = [], []
        for _ in range(_ROUNDS):
            for call, times in ((kernel, bare), (made, watched)):
                run = functools.partial(call, *arguments, **keywords)
                took = timeit.timeit(run, number=_CALLS, timer=time.thread_time)
                times.append(took / _CALLS * 1e9)
        assert made.stats().sampled == 1
        found[name] = {
            "bare_ns": min(bare),
            "guarded_ns": min(watched),
            "added_ns": min(watched) - min(bare),
            "added_median_ns": statistics.median(watched) - statistics.median(bare),
            "ratio": min(watched) / min(bare),
        }
    return found


def real_kernel() -> dict[str, float]:
    """Return microseconds of a small RMSNorm of PyTorch, bare and guarded, unsampled."""
    from benchmarks.guard_model import rms_norm

    x, w = torch.randn(64, 256), torch.randn(256)

    def kernel(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)

    made = cuassay.guard(kernel, trusted=rms_norm, sample=0.0, oracle="local", **QUIET)
    with made:
        made(x, w, 1e-6)
    bare, watched = [], []
    for _ in range(_ROUNDS):
        for call, times in ((kernel, bare), (made, watched)):
            took = timeit.timeit(functools.partial(call, x, w, 1e-6), number=2000)
            times.append(took / 2000 * 1e6)
    return {"bare_us": min(bare), "guarded_us": min(watched), "ratio": min(watched) / min(bare)}


def _training(model: Model, batch: tuple[int, int]) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, model.size.vocab, (batch[0], batch[1] + 1), generator=generator).cuda()

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _decoding(model: Model, batch: int, context: int) -> Callable[[], None]:
    size = model.size
    shape = (batch, size.heads, context, size.hidden // size.heads)
    caches = [
        [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
        for _ in range(size.layers)
    ]
    ids = torch.zeros(batch, 1, dtype=torch.long, device="cuda")

    def step() -> None:
        with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
            model(ids, caches)

    return step


def _turns(
    bare: Callable[[], None],
    watched: Callable[[], None],
    *,
    steps: int,
    turns: int,
    guard: Callable[[bool], None],
) -> dict[str, Any]:
    """Return milliseconds a step of both, in short turns, and the fall of throughput.

    A turn times `steps` of each, one right after the other, in an order that changes from turn
    to turn: what the computer does besides hits both. The fall is the median over the turns of
    1 - bare/guarded; its interval holds the true median in 95 of 100 runs (order statistics).
    The mean, which the rare sampled calls weigh on in full, is given with its standard error.
    """
    order = (("bare", bare), ("guarded", watched))
    for name, step in order * 2:
        guard(name == "guarded")
        for _ in range(20):
            step()
    times: dict[str, list[float]] = {"bare": [], "guarded": []}
    for turn in range(turns):
        for name, step in order if turn % 2 else reversed(order):
            guard(name == "guarded")
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) / steps)
    falls = sorted(1 - a / b for a, b in zip(times["bare"], times["guarded"], strict=True))
    reach = round(0.98 * turns**0.5)  # 1.96 standard deviations of a binomial of one half
    return {
        "bare_ms": statistics.median(times["bare"]) * 1e3,
        "guarded_ms": statistics.median(times["guarded"]) * 1e3,
        "throughput_fall": statistics.median(falls),
        "interval_95": [falls[turns // 2 - reach], falls[turns // 2 + reach]],
        "mean_fall": 1 - sum(times["bare"]) / sum(times["guarded"]),
        "standard_error": statistics.stdev(falls) / turns**0.5,
        "steps": steps * turns,
    }


def _graphed(step: Callable[[], None], guards: tuple[Any, ...]) -> tuple[Callable[[], None], Any]:
    """Return a step as a CUDA graph; under guard where guards are given."""
    from cuassay_guard import graphs

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    watched = graphs.watch(graph, *guards)
    with watched.capturing(), torch.cuda.graph(graph):
        step()
    return (watched.replay if guards else graph.replay), watched


def throughput(part: str, turns: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield how much slower a guarded model is, at sample 1e-3, as each is measured.

    `part`: training, decode (eager) or graph (decode as a CUDA graph).
    """
    torch.manual_seed(0)
    model = Model(Size()).cuda()
    bare = model.gradient
    guards = guarded(model, **{**QUIET, "sample": 1e-3})
    forwards = {one: one.forward for one in model.modules() if "forward" in one.__dict__}
    watched = model.gradient

    def guard(on: bool) -> None:
        """Put the guards on, or take them off: the same model, the same places in memory."""
        model.gradient = watched if on else bare
        for one, forward in forwards.items():
            if on:
                one.forward = forward
            else:
                one.__dict__.pop("forward", None)

    if part == "training":
        step = _training(model, (8, 512))
        yield "training step, 8 x 512 tokens", _turns(step, step, steps=8, turns=turns, guard=guard)
    for name, batch in (("batch 1", 1), ("batch 64", 64)):
        if part == "training":
            break
        step = _decoding(model, batch, 1024)
        if part == "decode":
            label = f"decode, eager, {name}"
            yield label, _turns(step, step, steps=20, turns=turns, guard=guard)
            continue
        guard(False)
        plain, _ = _graphed(step, ())
        guard(True)
        replayed, graph = _graphed(step, tuple(guards.values()))
        found = _turns(plain, replayed, steps=40, turns=turns, guard=lambda on: None)
        yield f"decode, CUDA graph, {name}", found | {"trusted": graph.trusted}
    for one in guards.values():
        one.flush(60)
    said = ("calls", "sampled", "checked", "judged", "violations", "errors", "dropped", "skipped",
            "undecided", "state")  # fmt: skip
    yield (
        f"guards, {part}",
        {name: {key: getattr(one.stats(), key) for key in said} for name, one in guards.items()},
    )


def synchronisation() -> dict[str, Any]:
    """Return which waits for the device the profiler saw, by thread, over sampled calls."""
    from benchmarks.guard_model import rms_norm

    def kernel(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)

    made = cuassay.guard(
        kernel, trusted=rms_norm, sample=0.02, max_overhead=None, oracle="process",
        memory_budget_bytes=1 << 30, **QUIET
    )  # fmt: skip
    x = torch.randn(4096, 1024, device="cuda")
    w = torch.randn(1024, device="cuda")
    with made:
        for _ in range(200):
            made(x, w, 1e-6)
    before = made.stats()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(2000):
            x = made(x, w, 1e-6)
        made.flush()
    after = made.stats()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    mine = threading.get_native_id()
    waits: dict[str, dict[str, int]] = {"caller": {}, "checker": {}}
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "ynchronize" in name:
            who = "caller" if event.get("tid") == mine else "checker"
            waits[who][name] = waits[who].get(name, 0) + 1
    launches = sum(
        event.get("cat") == "cuda_runtime" and event.get("tid") == mine for event in events
    )
    return {
        "waits": waits,
        "calls": after.calls - before.calls,
        "sampled": after.sampled - before.sampled,
        "checked": after.checked - before.checked,
        "violations": after.violations,
        "runtime calls of the caller's thread": launches,
    }


_ON_CPU = ("calls",)
_ON_GPU = ("synchronisation", "decode", "graph", "training")


def measured(part: str, turns: int) -> Iterator[tuple[str, Any]]:
    """Yield what one part of the measurements finds, as it is found."""
    if part == "calls":
        yield "hot path", hot_path()
        yield "real kernel", real_kernel()
    elif part == "synchronisation":
        yield "synchronisation", synchronisation()
    else:
        yield from throughput(part, turns)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and keep."""
    parts = (*_ON_CPU, *(_ON_GPU if torch.cuda.is_available() else ()))
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--parts", nargs="*", default=parts, choices=parts)
    parser.add_argument("--turns", type=int, default=160, help="of bare and guarded steps")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for part in given.parts:
        for name, found in measured(part, given.turns):
            results[name] = found
            print(json.dumps({name: found}, indent=1), flush=True)
            path = save("guard-overhead", results)
            out = os.environ.get("OUT")
            if out and Path(out).resolve() != path.resolve().parent:
                shutil.copy(path, out)


if __name__ == "__main__":
    main()
