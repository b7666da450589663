"""Real Ray clusters of this machine alone, whose judges judge nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import python_path

_ROOT = Path(__file__).resolve().parents[2]
_STORE_BYTES = 80 * 2**20  # hardly more than the least that Ray takes
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "error"}


@contextmanager
def nodes(count: int, **settings: object) -> Iterator[Any]:
    """Start a cluster of nodes with room for one actor each; `settings` are Ray's own.

    Yields a `ray.cluster_utils.Cluster`; its `worker_nodes` are those beside the head.
    """
    from ray.cluster_utils import Cluster

    each = {"num_cpus": 1, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", python_path(Path(__file__).parent / "ray_startup", _ROOT, _ROOT / "src")
        )
        for name, value in _QUIET.items():
            patch.setenv(name, value)
        cluster = Cluster(
            initialize_head=True, head_node_args=each | {"_system_config": settings or None}
        )
        try:
            for _ in range(count - 1):
                cluster.add_node(**each)
            cluster.wait_for_nodes()
            yield cluster
        finally:
            cluster.shutdown()


def actors() -> list[int]:
    """Return the processes of the actors on the nodes that this process started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
                started_here = _parent(_parent(int(entry.name))) == os.getpid()
            except OSError:
                continue
            if command.startswith(b"ray::RayWorker") and started_here:
                found.append(int(entry.name))
    return sorted(found)


def judges(actor: int) -> list[int]:
    """Return the processes that an actor started."""
    text = Path(f"/proc/{actor}/task/{actor}/children").read_text()
    return [int(word) for word in text.split()]


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return _fields(process)[0] not in "ZX"
    except OSError:
        return False


def _parent(process: int) -> int:
    return int(_fields(process)[1])


def _fields(process: int) -> list[str]:
    """Return the fields of proc(5) behind the name of a process: its state, its parent, ..."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
