"""Bounds on what a candidate's process may use."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one worker process and its descendants.

    `memory_bytes` bounds private writable memory of each process by RLIMIT_DATA on the CPU,
    and on every device the resident memory of the whole process tree by the judge's watch,
    what processes share counted once.
    `trial_bytes` bounds what all processes of a nursery hold together, by a control group where
    one can be had: memory, memfds, shared memory.
    `folder_bytes` bounds what lies in its own folder, and as much again what it holds without a
    name: memfds, and files that were removed while they are open. `cache_bytes` bounds its build
    cache, which is removed where it grows beyond that; seen as `files` is, up to a second later.
    `files` bounds how many files and folders lie in its own folder, `folder_levels` how deep they
    are nested, both seen after each request and while the judge waits; `processor_s` the processor
    time of each process (RLIMIT_CPU).
    `idle_s` is how long a step on a CPU may leave the processor unused, with all its kin: such a
    step waits for what never comes.
    With `connects` its processes may connect with one another by sockets, as NCCL's ranks do, in a
    network of their own where one can be had.
    `output_kept_bytes` of what is printed are kept, a scenario that prints more than
    `output_bytes` is ended. `results_bytes` bounds the bytes that one Read step may send.
    """

    build_s: float = 300.0
    memory_bytes: int = 16 * GIB
    trial_bytes: int = 64 * GIB
    file_bytes: int = 16 * GIB
    processes: int = 256
    open_files: int = 4096
    folder_bytes: int = 2 * GIB
    cache_bytes: int = 8 * GIB
    files: int = 20_000
    cache_files: int = 100_000
    folder_levels: int = 200
    processor_s: int = 24 * 3600
    output_kept_bytes: int = 64 * 1024
    output_bytes: int = 16 * MIB
    results_bytes: int = 64 * GIB
    watch_s: float = 0.2
    connects: bool = False
    idle_s: float = 10.0
