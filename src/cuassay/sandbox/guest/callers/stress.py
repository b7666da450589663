"""Many calls on the same inputs, in bursts and under load: which results there are."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch

from cuassay.build.cuda.perturbation import perturbed
from cuassay.model.reports import Repeats
from cuassay.model.scenario import Poison
from cuassay.model.steps import Load, Repeat
from cuassay.model.trace import ResultItem
from cuassay.sandbox.guest import items
from cuassay.sandbox.guest.callers import hog
from cuassay.sandbox.guest.callers.streams import copies, settle
from cuassay.sandbox.guest.interface import Host, Made

_BURST = 32
_BURST_BYTES = 1 << 30
_BURST_S = 5.0  # a burst is not interrupted
_FEW = 8  # calls without load, by which it is known how long those under load take
_LEAST_MS, _MOST_MS = 10.0, 400.0  # of load a burst
_COVER = 4.0  # times what the burst takes alone: under load it takes longer
_LOADS = (Load.BANDWIDTH, Load.MULTIPROCESSORS)
_KERNELS, _REFUSED = 24, 2000  # kernels named; characters of a refusal
_NONE: Mapping[str, int] = {}
_Held = list[tuple[str, object]]


def repeat(host: Host, step: Repeat) -> Made:
    """Execute a Repeat; items are those of each result that is kept, the most frequent first."""
    if step.load is not Load.DELAYS:
        return _made(*_bursts(host, step))
    if not host.device.on_gpu:
        return _made(Counter(), {})
    with perturbed(step.seed) as perturbation:
        first = _digest(_burst(host, step, 1))  # compiles: it shows which kernels have pauses
        settle(host)
        slowed = perturbation.kernels and not perturbation.refused
        seen, kept = _bursts(host, step) if slowed else (Counter[str](), {})
        if slowed:
            _count(first, seen, kept, step.kept)
    kernels = [*perturbation.kernels.items()][:_KERNELS]
    pauses = {name[:80]: places for name, places in kernels}
    return _made(seen, kept, pauses=pauses, refused=perturbation.refused[:_REFUSED])


def _bursts(host: Host, step: Repeat) -> tuple[Counter[str], dict[str, _Held]]:
    """Make the calls; return how often each result came, and the results that are kept."""
    begun = time.perf_counter()
    held = _burst(host, step, 1)
    settle(host)
    each_ms = 1e3 * (time.perf_counter() - begun)
    size = max(1, sum(_bytes(value) for _, value in held[0]))
    seen: Counter[str] = Counter()
    kept: dict[str, _Held] = {}
    _count(_digest(held), seen, kept, step.kept)
    longest = max(1, min(_BURST, _BURST_BYTES // size, int(1e3 * _BURST_S / each_ms)))
    wanted, few = step.count, min(_FEW, longest, step.count - 1)
    loads = step.load in _LOADS and host.device.on_gpu
    if loads and few > 1:
        # A call alone is mostly the wait for it, and the first may do what no other does. Measured
        # without load: a load that lengthens the burst must not lengthen the next load.
        started = time.perf_counter()
        held = _burst(host, step, few)
        settle(host)
        each_ms = min(each_ms, 1e3 * (time.perf_counter() - started) / few)
        _count(_digest(held), seen, kept, step.kept)
        wanted += few
    while seen.total() < wanted and time.perf_counter() - begun < step.budget_s:
        burst = min(longest, wanted - seen.total())
        if loads:
            hog.start_load(step.load, min(_MOST_MS, max(_LEAST_MS, _COVER * each_ms * burst)))
        held = _burst(host, step, burst)
        settle(host)
        _count(_digest(held), seen, kept, step.kept)
    return seen, kept


def _burst(host: Host, step: Repeat, count: int) -> list[_Held]:
    """Call `count` times without waiting; what is returned is copied behind each call."""
    made = []
    for _ in range(count):
        outputs = host.destinations(step.slot, Poison.NAN)
        made.append(copies(host.invoke(step.slot, outputs)))
    return made


def _digest(burst: list[_Held]) -> list[tuple[str, _Held]]:
    found = []
    for held in burst:
        tensors = [items.plain_tensor(v) for _, v in held if isinstance(v, torch.Tensor)]
        found.append((items.digest(tensors), held))
    return found


def _count(
    found: list[tuple[str, _Held]], seen: Counter[str], kept: dict[str, _Held], most: int
) -> None:
    for digest, held in found:
        seen[digest] += 1
        if digest not in kept and len(kept) < most:
            kept[digest] = held


def _made(
    seen: Counter[str],
    kept: dict[str, _Held],
    *,
    pauses: Mapping[str, int] = _NONE,
    refused: str = "",
) -> Made:
    order = sorted(kept, key=lambda digest: -seen[digest])
    found: list[ResultItem] = []
    tensors: list[torch.Tensor] = []
    for digest in order:
        for name, value in kept[digest]:
            item = items.describe(value, name=name, inputs={})
            if item.kind == "tensor" and isinstance(value, torch.Tensor):
                item = replace(item, buffer=len(tensors))
                tensors.append(items.plain_tensor(value))
            found.append(item)
    counts = tuple(seen[digest] for digest in order)
    report = Repeats(calls=seen.total(), counts=counts, pauses=pauses, refused=refused)
    return Made(items=tuple(found), tensors=tuple(tensors), report=report)


def _bytes(value: object) -> int:
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
