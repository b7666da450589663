"""CUDA graphs: calls are seen at capture, and repeated eagerly now and then at replay.

A replay runs no Python, so a guard cannot see its calls. What a capture called is remembered;
`replay()` counts, and at a sampled replay runs each remembered call again eagerly on copies of
its present inputs, in the caller's stream, and has the result checked like any other call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cuassay_guard.calls.breaker import State
from cuassay_guard.calls.signature import key_of
from cuassay_guard.calls.snapshot import take
from cuassay_guard.calls.structure import flatten
from cuassay_guard.sampled.checker import CHECKER
from cuassay_guard.wrap import Guarded

_BLOCK = 256  # replays between two looks at the counters, at most
_MOST = 64  # calls of one guard in one graph that are remembered


class WatchedGraph:
    """A captured graph whose guarded calls are checked at sampled replays.

    The inputs of remembered calls are kept alive, so that the graph's memory pool does not
    reuse them: a guarded call in a graph costs its inputs' memory. Inputs that later calls of
    the graph write to in place are seen as the graph leaves them. A violation opens the
    breaker of the call's signature: `trusted` is then False and the graph should not be
    replayed, since no guard can change what is in it.
    """

    def __init__(self, graph: Any, guards: Sequence[Guarded]) -> None:
        self.graph, self._guards = graph, tuple(guards)
        self._calls: list[tuple[Guarded, tuple[Any, ...], dict[str, Any]]] = []
        self.replays = self._counted = self._left = 0

    def replay(self) -> None:
        """Replay the graph; at a sampled replay, have remembered calls checked.

        Calls are counted in blocks of up to 256 replays: a replay itself costs two additions.
        """
        self.graph.replay()
        self.replays += 1
        self._left -= 1
        if self._left < 0:
            # Count the calls of the replays since the last time, and check those that are due.
            passed, self._counted = self.replays - self._counted, self.replays
            first, nearest = self.replays == passed, _BLOCK
            for guarded, arguments, keywords in self._calls:
                gate = guarded.watch.gate
                left = gate.skip(passed)
                if left < 0 or first:
                    left = guarded.watch.sampler.gap()
                    gate.arm(left)
                    self._check(guarded, arguments, keywords)
                nearest = min(nearest, left)
            self._left = nearest

    @property
    def trusted(self) -> bool:
        """Whether every guarded call in the graph is one that the kernel may serve."""
        return all(self._entry(*call).breaker.state is State.CLOSED for call in self._calls)

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Remember the guarded calls made inside; put the capture itself inside."""
        for guarded in self._guards:
            guarded.watch.recording = []
            guarded.watch.distrust()
        try:
            with CHECKER.paused():
                yield
        finally:
            for guarded in self._guards:
                recorded = (guarded.watch.recording or [])[:_MOST]
                guarded.watch.recording = None
                self._calls += [(guarded, tuple(a), dict(k)) for a, k in recorded]
                for entry in list(guarded.watch.entries.values()):
                    guarded.watch.trust(entry)

    def _entry(self, guarded: Guarded, arguments: Any, keywords: Any) -> Any:
        return guarded.watch.entry(key_of(arguments, keywords), arguments, keywords)[0]

    def _check(
        self, guarded: Guarded, arguments: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        watch = guarded.watch
        if not watch.budget.affordable:
            watch.tally.add("skipped")
            return
        try:
            with torch.no_grad():
                snapshot = take(arguments, keywords, watch.memory)
        except Exception as failure:
            watch.trouble("the snapshot", failure)
            snapshot = None
        if snapshot is None:
            watch.tally.add("dropped")
            return
        watch.tally.add("sampled")
        guarded.probe(self._entry(guarded, arguments, keywords), snapshot)

    def inputs(self) -> list[Tensor]:
        """Return the tensors that remembered calls read, as they are now."""
        return [t for _, a, k in self._calls for t in flatten([a, k])[0]]


def watch(graph: Any, *guards: Guarded) -> WatchedGraph:
    """Return a graph under guard: capture inside `capturing()`, then call `replay()` on it.

    graph = torch.cuda.CUDAGraph()
    watched = graphs.watch(graph, rmsnorm)
    with watched.capturing(), torch.cuda.graph(graph):
        y = step(x)
    watched.replay()
    """
    return WatchedGraph(graph, guards)
