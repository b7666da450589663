"""Small cases: cheap, every axis at least 2, so that faults of row 0 and of batches show."""

from __future__ import annotations

from collections.abc import Sequence

from cuassay.inputs.geometry import least, legal, try_sizes, within
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC
from cuassay.model.case import Case

_PRIMES = (13, 11, 17, 7, 19, 23, 5, 29)
_OTHER = (7, 19, 5, 23, 11, 13, 17, 31)


def small(planner: Planner) -> tuple[Case, ...]:
    """Return three cases: A, A with other values (same shapes), B at another shape.

    A and its refill share every size, so one can be copied into the other's storage.
    """
    first, second = small_sizes(planner, _PRIMES), small_sizes(planner, _OTHER)
    regime, other = NUMERIC[0], NUMERIC[3]
    workload = planner.first_workload
    return (
        planner.case("small A", first, regime, workload=workload),
        planner.case("small A refilled", first, regime, workload=workload),
        planner.case("small B", second, regime, workload=workload),
        planner.case("small A same sign", first, other, workload=workload),
    )


def small_sizes(planner: Planner, primes: Sequence[int] = _PRIMES) -> dict[str, int]:
    """Return small, pairwise different sizes of at least 2 within every axis's bounds."""
    _, sizes = planner.workloads()[0]
    for position, axis in enumerate(planner.problem.var_axes()):
        wished = primes[position % len(primes)]
        size = wished if within(axis, wished) else least(axis, wished)
        for candidate in (size, least(axis, 2)):
            changed = try_sizes(planner.problem, sizes, {axis.name: candidate})
            if changed is not None and legal(planner.problem, changed):
                sizes = changed
                break
    return sizes
