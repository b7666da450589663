"""What one GPU costs the processes that share it: microseconds a call, and whose time it is.

    python benchmarks/device_sharing.py --counts 1 3 6 --each-s 0.6

So many processes at once, each with a context of its own, do one thing over and over: a small
kernel and a wait for it, a launch without a wait, memory from the driver and back, a look at how
much is free, a handle for another process, a copy of 1 MiB to the host. Printed for each: the
median of the processes' microseconds a call, and how many processors they kept busy in their own
code and in the kernel's. Each row is saved as it comes.

    python benchmarks/device_sharing.py --lives 1 8

So many forks of one process at once, each of which makes a context, adds and multiplies once, and
ends: seconds a process, with the driver's own number of hardware queues and with one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from common import save

_DO = (
    "launch and wait",
    "launch",
    "allocate and free",
    "look at free",
    "handle",
    "copy",
    "context",
)


def _work(kind: str) -> Callable[[], object]:
    """Return what a process repeats. `context` makes and destroys one beside its own."""
    import torch

    driver = ctypes.CDLL("libcuda.so.1")
    x = torch.zeros(1 << 10, device="cuda")
    large = torch.zeros(1 << 18, device="cuda")
    pointer, context, handle = ctypes.c_uint64(), ctypes.c_void_p(), (ctypes.c_byte * 64)()
    device = ctypes.c_int()
    driver.cuDeviceGet(ctypes.byref(device), 0)
    driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(2 << 20))
    other = ctypes.c_uint64()

    def launch_and_wait() -> None:
        x.add_(1)
        torch.cuda.synchronize()

    def allocate_and_free() -> None:
        driver.cuMemAlloc_v2(ctypes.byref(other), ctypes.c_size_t(2 << 20))
        driver.cuMemFree_v2(other)

    def make_context() -> None:
        driver.cuCtxCreate_v2(ctypes.byref(context), 0, device)
        driver.cuCtxDestroy_v2(context)

    doing: dict[str, Callable[[], object]] = {
        "launch and wait": launch_and_wait,
        "launch": lambda: x.add_(1),
        "allocate and free": allocate_and_free,
        "look at free": torch.cuda.mem_get_info,
        "handle": lambda: driver.cuIpcGetMemHandle(handle, pointer),
        "copy": large.cpu,
        "context": make_context,
    }
    return doing[kind]


def _one(start: Any, done: Any, each_s: float) -> None:
    """Do each thing for `each_s` seconds together with the others; tell calls and times."""
    import torch

    for kind in _DO:
        work = _work(kind)
        work()
        torch.cuda.synchronize()
        start.wait()
        before, began, calls = os.times(), time.perf_counter(), 0
        while time.perf_counter() - began < each_s:
            work()
            calls += 1
        torch.cuda.synchronize()
        took_s, after = time.perf_counter() - began, os.times()
        done.put((kind, 1e6 * took_s / calls, (after.user - before.user) / took_s,
                  (after.system - before.system) / took_s))  # fmt: skip
        start.wait()


def measured(count: int, each_s: float) -> dict[str, Any]:
    """Return for each thing what `count` processes at once take."""
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(count), context.Queue()
    workers = [
        context.Process(target=_one, args=(start, done, each_s), daemon=True) for _ in range(count)
    ]
    for worker in workers:
        worker.start()
    rows = [done.get(timeout=90) for _ in range(count * len(_DO))]
    for worker in workers:
        worker.join(20)
    found = {}
    for kind in _DO:
        of_kind = [row[1:] for row in rows if row[0] == kind]
        found[kind] = {
            "us_a_call": round(statistics.median(row[0] for row in of_kind), 2),
            "user_processors": round(sum(row[1] for row in of_kind), 2),
            "kernel_processors": round(sum(row[2] for row in of_kind), 2),
        }
    return found


def live(queues: int | None) -> None:
    """Make a context in a fork, with so many hardware queues; use it, and end the process."""
    import torch

    if queues is not None:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = str(queues)
    x = torch.ones(64, 64, dtype=torch.bfloat16, device="cuda")
    (x @ x + x).sum().item()
    os._exit(0)


def lives(count: int, queues: int | None, turns: int = 4) -> float:
    """Return the seconds a process from fork to end, with `count` of them at once.

    Called before anything here uses the GPU: a fork of a process that does cannot. Raises
    RuntimeError where one failed.
    """
    began = time.perf_counter()
    for _ in range(turns):
        forks = []
        for _ in range(count):
            forks.append(os.fork())
            if not forks[-1]:
                try:
                    live(queues)
                finally:  # whatever is raised, a fork forks no other
                    os._exit(1)
        if sum(os.waitpid(fork, 0)[1] != 0 for fork in forks):
            raise RuntimeError("a fork could not use the GPU")
    return (time.perf_counter() - began) / (turns * count)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--counts", nargs="*", type=int, default=[1, 3, 6])
    parser.add_argument("--each-s", type=float, default=0.6)
    parser.add_argument("--name", default="device-sharing")
    parser.add_argument("--lives", nargs="*", type=int, default=[])
    given = parser.parse_args(arguments)
    results: dict[str, Any] = {}
    for count in given.lives:
        import torch  # noqa: F401  # before the forks, which begin with it

        results[str(count)] = {
            "s_a_process": round(lives(count, None), 3),
            "s_a_process_with_one_queue": round(lives(count, 1), 3),
        }
        print(count, results[str(count)], flush=True)
    if given.lives:
        save(f"{given.name}-lives", {"processes": results})
        return
    for count in given.counts:
        results[str(count)] = measured(count, given.each_s)
        print(count, json.dumps(results[str(count)], indent=1), flush=True)
        save(given.name, {"processes": results})


if __name__ == "__main__":
    main()
