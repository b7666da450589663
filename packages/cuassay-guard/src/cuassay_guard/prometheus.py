"""Export guards to Prometheus: pulled by a collector, or pushed where processes share a folder.

prometheus_client's multiprocess mode, which preforking servers use, drops custom collectors.
With PROMETHEUS_MULTIPROC_DIR set, `install` makes plain Counter, Gauge and Histogram objects
instead and adds to them about once a second, from the checker's thread.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator
from typing import Any

from cuassay.errors import missing_extra
from cuassay_guard.fleet import metrics
from cuassay_guard.fleet.metrics import PREFIX, GuardMetric, Labels
from cuassay_guard.sampled.checker import CHECKER

try:
    import prometheus_client
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry
except ImportError:
    raise missing_extra("prometheus-client", "metrics") from None

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


class GuardCollector(Collector):
    """Reads every guard's counters when it is scraped; costs the hot path nothing."""

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        for family in metrics.families():
            yield _metric(family)
        found = metrics.histogram()
        made = HistogramMetricFamily(
            f"{PREFIX}_{found.name}", found.help, labels=["kernel", "digest"]
        )
        edges = (*map(str, found.edges), "+Inf")
        for labels, (counts, total) in found.values.items():
            reached = itertools.accumulate(map(float, counts))
            made.add_metric(_values(labels), list(zip(edges, reached, strict=True)), total)
        yield made


def _metric(family: GuardMetric) -> Metric:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    made = kind(f"{PREFIX}_{family.name}", family.help, labels=list(family.labels))
    for labels, value in family.values.items():
        made.add_metric(_values(labels), value)
    return made


def _values(labels: Labels) -> list[str]:
    return [value for _, value in labels]


class Pusher:
    """Brings shared-memory metrics up to date; for multiprocess mode."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._made: dict[str, Any] = {}
        self._sent: dict[tuple[str, Labels], float] = {}
        self._buckets: dict[Labels, tuple[int, ...]] = {}
        self._lock = threading.Lock()

    def push(self) -> None:
        """Add what was counted since the last time."""
        with self._lock:
            for family in metrics.families():
                for labels, value in family.values.items():
                    child = self._metric(family).labels(*_values(labels))
                    if family.kind == "gauge":
                        child.set(value)
                    else:
                        before = self._sent.get((family.name, labels), 0.0)
                        self._sent[family.name, labels] = value
                        child.inc(max(0.0, value - before))
            self._observe()

    def _metric(self, family: GuardMetric) -> Any:
        if family.name not in self._made:
            name = f"{PREFIX}_{family.name}"
            labels = list(family.labels)
            if family.kind == "counter":
                made: Any = prometheus_client.Counter(
                    name, family.help, labels, registry=self._registry
                )
            else:
                how: Any = "livemax" if family.name == "breaker_state" else "livesum"
                made = prometheus_client.Gauge(
                    name, family.help, labels, registry=self._registry, multiprocess_mode=how
                )
            self._made[family.name] = made
        return self._made[family.name]

    def _observe(self) -> None:
        """Observe each new share at its bucket's edge: counts are exact, the sum is rounded up."""
        found = metrics.histogram()
        if found.name not in self._made:
            self._made[found.name] = prometheus_client.Histogram(
                f"{PREFIX}_{found.name}",
                found.help,
                ["kernel", "digest"],
                buckets=found.edges,
                registry=self._registry,
            )
        for labels, (counts, _) in found.values.items():
            before = self._buckets.get(labels, (0,) * len(counts))
            self._buckets[labels] = counts
            child = self._made[found.name].labels(*_values(labels))
            edges = (*found.edges, 2 * found.edges[-1])
            for edge, now, then in zip(edges, counts, before, strict=True):
                for _ in range(max(0, now - then)):
                    child.observe(edge)


def install(registry: CollectorRegistry = REGISTRY) -> GuardCollector | Pusher:
    """Export every guard of this process, present and future, through `registry`.

    Returns what does it: a collector, or in multiprocess mode a Pusher whose `push()` may be
    called before a process ends.
    """
    if os.environ.get(MULTIPROCESS):
        pusher = Pusher(registry)
        CHECKER.every_tick(pusher.push)
        CHECKER.start()
        return pusher
    collector = GuardCollector()
    registry.register(collector)
    return collector
