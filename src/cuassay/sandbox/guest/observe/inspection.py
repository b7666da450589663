"""Which kernels one call runs, by the profiler, and what the candidate's own need of the GPU.

Everything here is seen in the candidate's process and is its word: evidence for a report, and
never a reason to reject by itself.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler

from cuassay.build.cuda import binaries
from cuassay.build.recording.ledger import LEDGER
from cuassay.errors import MissingToolError
from cuassay.model.scenario import Poison
from cuassay.model.steps import Inspect
from cuassay.sandbox.guest.interface import Around, Host, Made

# Names of facts: `ran KERNEL`, `code KERNEL` and `own KERNEL` are followed by a kernel's name.
RAN, CODE, OWN, BLIND, UNREAD = "ran", "code", "own", "profiler", "binaries"
_MOST, _NAME = 40, 160
_MARK = 1237  # elements of the tensor whose making shows that the profiler sees kernels


def inspect(host: Host, step: Inspect, around: Around) -> Made:
    """Execute an Inspect.

    Facts: `ran NAME` is "count us registers threads shared_bytes occupancy"; `code NAME` is
    "registers stack_bytes local_accesses widest_bytes wide_accesses"; `own NAME` names what
    the sources define; `profiler` and `binaries` say why there is nothing of that kind.
    """
    facts = [(f"{OWN} {name[:_NAME]}", "defined") for name in around.kernels[:_MOST]]
    if not host.device.on_gpu:
        return Made(facts=(*facts, (BLIND, "no GPU")))
    facts += _profiled(host, step)
    facts += _code()
    return Made(facts=tuple(facts))


def _profiled(host: Host, step: Inspect) -> list[tuple[str, str]]:
    """Call once under torch's profiler; a fact a kernel, those that took longest first.

    torch.profiler's own class would load torch's compiler on the way: seconds of every trial.
    """
    outputs = host.destinations(step.slot, Poison.NAN)
    torch.cuda.synchronize()
    seen: Any = profiler.profile(use_device="cuda", use_cpu=False, use_kineto=True)
    try:
        seen.__enter__()
    except (RuntimeError, AssertionError) as error:
        host.invoke(step.slot, outputs)
        return [(BLIND, f"it cannot start: {error}"[:200])]
    try:
        host.invoke(step.slot, outputs)
        torch.cuda.synchronize()
        torch.arange(_MARK, device=host.device)
        torch.cuda.synchronize()
    finally:
        seen.__exit__(None, None, None)
    try:
        return ran(_trace(seen))
    except (OSError, RuntimeError, ValueError) as error:
        return [(BLIND, f"it tells nothing: {error}"[:200])]


def _trace(seen: Any) -> dict[str, Any]:
    """Return a profiler's trace as data."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(file))
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8", errors="replace"))
        return found


def ran(trace: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts of a trace whose last kernel is the mark that follows the call."""
    events = [e for e in trace.get("traceEvents", ()) if e.get("cat") == "kernel"]
    if not events:
        return [(BLIND, "it saw no kernel, not even one that certainly ran")]
    events.sort(key=lambda event: float(event.get("ts", 0.0)))
    kernels: dict[str, list[dict[str, Any]]] = {}
    for event in events[:-1]:
        kernels.setdefault(str(event.get("name", ""))[:_NAME], []).append(event)
    rows = sorted(kernels.items(), key=lambda row: -sum(_took(e) for e in row[1]))
    return [(f"{RAN} {name}", _row(found)) for name, found in rows[:_MOST]]


def _row(events: list[dict[str, Any]]) -> str:
    arguments = events[0].get("args", {})
    threads = 1
    for length in arguments.get("block", ()):
        threads *= int(length)
    took = sum(_took(event) for event in events)
    numbers = (
        arguments.get("registers per thread", 0),
        threads,
        arguments.get("shared memory", 0),
        arguments.get("est. achieved occupancy %", 0),
    )
    return f"{len(events)} {took:.3f} " + " ".join(str(int(number)) for number in numbers)


def _took(event: dict[str, Any]) -> float:
    return float(event.get("dur", 0.0))


def _code() -> list[tuple[str, str]]:
    """Return a fact for every kernel in the binaries that the candidate was built into."""
    try:
        found = {kernel.name: kernel for kernel in _kernels()}
    except MissingToolError as error:
        return [(UNREAD, str(error)[:200])]
    return [
        (
            f"{CODE} {name[:_NAME]}",
            f"{k.registers} {k.stack_bytes} {k.local_accesses} {k.widest_bytes} {k.wide_accesses}",
        )
        for name, k in list(found.items())[:_MOST]
    ]


def _kernels() -> Iterator[binaries.KernelCode]:
    with tempfile.TemporaryDirectory() as folder:
        for number, binary in enumerate(LEDGER.binaries()):
            file = Path(folder) / f"{number}.cubin"
            if isinstance(binary, bytes):
                file.write_bytes(binary)
            yield from binaries.kernels_in(binary if isinstance(binary, Path) else file)
