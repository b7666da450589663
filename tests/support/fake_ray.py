"""Just enough of Ray to test what the executor does when actors and nodes are lost.

Actors are objects of this process. `Cluster.losses` says which calls of `judge` lose their
actor, counted from 1; `Cluster.room` how many actors the cluster can hold at a time.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest


class RayError(Exception):
    """Stands for every error of Ray's own."""


class Cluster:
    """A cluster made up for one test."""

    def __init__(
        self,
        *,
        losses: frozenset[int] = frozenset(),
        room: int = 8,
        gpus: int = 0,
        version: str = "",
    ) -> None:
        self.losses, self.room, self.gpus, self.version = losses, room, gpus, version
        self.calls, self.actors = 0, 0
        self.options: dict[str, Any] = {}
        self.started: dict[str, Any] = {}

    def module(self) -> types.ModuleType:
        """Return a module to be found as `ray`."""
        module = types.ModuleType("ray")
        ray: Any = module
        ray.exceptions = types.SimpleNamespace(RayError=RayError)
        ray.is_initialized = lambda: False
        ray.init = lambda **given: self.started.update(given)
        ray.shutdown = lambda: None
        ray.cluster_resources = lambda: {"CPU": 16.0} | ({"GPU": self.gpus} if self.gpus else {})
        ray.remote = lambda kind: _Kind(self, kind)
        ray.get = self._get
        ray.kill = self._kill
        return module

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put the module where an import finds it."""
        import sys

        monkeypatch.setitem(sys.modules, "ray", self.module())

    def _get(self, value: Any, timeout: float | None = None) -> Any:
        if isinstance(value, RayError):
            raise value
        return value

    def _kill(self, actor: Any, no_restart: bool = True) -> None:
        self.actors -= 1


class _Kind:
    def __init__(self, cluster: Cluster, kind: type) -> None:
        self._cluster, self._kind = cluster, kind

    def options(self, **given: Any) -> _Kind:
        self._cluster.options = given
        return self

    def remote(self, *arguments: Any) -> _Actor:
        self._cluster.actors += 1
        return _Actor(self._cluster, self._kind(*arguments))


class _Actor:
    def __init__(self, cluster: Cluster, made: Any) -> None:
        self._cluster, self._made = cluster, made
        self.alive = cluster.actors <= cluster.room

    @property
    def ready(self) -> Any:
        version, host, gpu = self._made.ready()
        answer: Any = (self._cluster.version or version, host, gpu)
        return _Method(lambda: answer if self.alive else RayError("no room"))

    @property
    def close(self) -> Any:
        return _Method(self._made.close)

    @property
    def judge(self) -> Any:
        return _Method(self._judge)

    def _judge(self, *arguments: Any) -> Iterator[Any]:
        self._cluster.calls += 1
        lost = self._cluster.calls in self._cluster.losses
        for number, line in enumerate(self._made.judge(*arguments)):
            if lost and number == 1:  # after the first event
                self._made.close()
                yield RayError("the actor died")
                return
            yield line


class _Method:
    def __init__(self, call: Any) -> None:
        self._call = call

    def options(self, **given: Any) -> _Method:
        return self

    def remote(self, *arguments: Any) -> Any:
        return self._call(*arguments)
