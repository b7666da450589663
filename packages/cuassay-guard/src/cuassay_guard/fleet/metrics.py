"""What exporters pull: counters of all living guards, summed by kernel.

Labels are the kernel's name and a short digest of its source, for mismatches also severity and
dtype; never shapes, whose number has no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from cuassay_guard.calls.breaker import State
from cuassay_guard.fleet import registry
from cuassay_guard.watch import RATIOS, Watch

PREFIX = "cuassay_guard"
STATES = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardMetric:
    """One metric: `values` by labels. `name` is without prefix and `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...]
    values: Mapping[Labels, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Shares of the error budget by kernel: counts per bucket (not cumulative) and their sum."""

    name: str
    help: str
    edges: tuple[float, ...]
    values: Mapping[Labels, tuple[tuple[int, ...], float]]


_COUNTERS: tuple[tuple[str, str, Callable[[Watch], float]], ...] = (
    ("calls", "Calls through the guard.", lambda w: w.gate.calls),
    ("sampled", "Calls taken for a check.", lambda w: w.tally["sampled"]),
    ("shadow", "Calls compared with the trusted operator.", lambda w: w.tally["checked"]),
    ("judged", "Calls judged by the oracle.", lambda w: w.tally["judged"]),
    ("fallback", "Calls served by the trusted operator.", lambda w: w.tally["fallbacks"]),
    ("repaired", "Results replaced before they were returned.", lambda w: w.tally["repaired"]),
    ("dropped", "Sampled calls without room for a check.", lambda w: w.tally["dropped"]),
    ("skipped", "Checks that the time budget did not allow.", lambda w: w.tally["skipped"]),
    ("undecided", "Calls that the oracle could not decide.", lambda w: w.tally["undecided"]),
    ("errors", "Failures of the shadow, never the caller's.", lambda w: w.tally["errors"]),
    ("capsules", "Capsules of evidence written.", lambda w: w.tally["capsules"]),
    ("shadow_seconds", "Time spent on checks, in seconds.", lambda w: w.shadow_s),
)


def labels_of(watch: Watch) -> Labels:
    """Return who a guard watches."""
    return ("kernel", watch.name), ("digest", watch.digest)


def families() -> list[GuardMetric]:
    """Return every counter and gauge as of now."""
    watches = registry.watches()
    names = ("kernel", "digest")
    found = [
        GuardMetric(
            name=name, kind="counter", help=text, labels=names, values=_summed(watches, read)
        )
        for name, text, read in _COUNTERS
    ]
    values: dict[Labels, float] = {}
    for watch in watches:
        for severity in ("numeric", "gross"):  # 0 is exported too: a rate needs a start
            values.setdefault((*labels_of(watch), ("severity", severity), ("dtype", "")), 0)
        for (severity, dtype), count in list(watch.mismatches.items()):
            key = (*labels_of(watch), ("severity", severity), ("dtype", dtype))
            values[key] = values.get(key, 0) + count
    mismatches = GuardMetric(
        name="mismatch",
        kind="counter",
        help="Violations by severity and dtype.",
        labels=("kernel", "digest", "severity", "dtype"),
        values=values,
    )
    states: dict[Labels, float] = {}
    for watch in watches:
        key = labels_of(watch)
        states[key] = max(states.get(key, 0), STATES[watch.state])
    pending = _summed(watches, lambda w: w.tally["submitted"] - w.tally["done"])
    signatures = _summed(watches, lambda w: len(w.entries))
    held = _summed(watches, lambda w: w.memory.used_bytes)
    described = (
        ("breaker_state", "Worst breaker: 0 closed, 1 half-open, 2 open.", states),
        ("pending", "Sampled calls that wait for their check.", pending),
        ("signatures", "Signatures known.", signatures),
        ("shadow_bytes", "Memory that snapshots hold, in bytes.", held),
    )
    return [
        *found,
        mismatches,
        *[
            GuardMetric(name=name, kind="gauge", help=text, labels=names, values=values)
            for name, text, values in described
        ],
    ]


def _summed(watches: list[Watch], read: Callable[[Watch], float]) -> dict[Labels, float]:
    values: dict[Labels, float] = {}
    for watch in watches:
        key = labels_of(watch)
        values[key] = values.get(key, 0) + read(watch)
    return values


def histogram() -> Histogram:
    """Return how much of the error budget judged calls used."""
    values: dict[Labels, tuple[tuple[int, ...], float]] = {}
    for watch in registry.watches():
        key = labels_of(watch)
        counts, total = values.get(key, ((0,) * (len(RATIOS) + 1), 0.0))
        summed = tuple(a + b for a, b in zip(counts, watch.ratios, strict=True))
        values[key] = summed, total + watch.ratio_sum
    return Histogram(
        name="error_budget_ratio",
        help="Measured over allowed, worst statistic of a judged call; above 1 is a violation.",
        edges=RATIOS,
        values=values,
    )
