"""Small cases: cheap, every axis at least 2, so that faults of row 0 and of batches show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cuassay.inputs.geometry import least, legal, step_to, try_sizes, within
from cuassay.inputs.planner import Planner
from cuassay.inputs.regimes import NUMERIC
from cuassay.model.case import Case

_PRIMES = (13, 11, 17, 7, 19, 23, 5, 29)
_OTHER = (7, 19, 5, 23, 11, 13, 17, 31)


def small(planner: Planner) -> tuple[Case, ...]:
    """Return A, A with other values, A with each axis alone shorter, B, and A of one sign.

    A and its refill share every size, so one can be copied into the other's storage. A
    buffer that is kept under a key which lacks one size shows only between two shapes that
    share all the others, hence the shorter ones. B differs from A in every axis.
    """
    first, second = small_sizes(planner, _PRIMES), small_sizes(planner, _OTHER)
    regime, other = NUMERIC[0], NUMERIC[3]
    workload = planner.first_workload
    return (
        planner.case("small A", first, regime, workload=workload),
        planner.case("small A refilled", first, regime, workload=workload),
        *(
            planner.case(f"small A shorter {name}", sizes, regime, workload=workload)
            for name, sizes in _shorter(planner, first)
        ),
        planner.case("small B", second, regime, workload=workload),
        planner.case("small A same sign", first, other, workload=workload),
    )


def _shorter(planner: Planner, sizes: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    for axis in planner.problem.var_axes():
        size = max(step_to(axis, sizes[axis.name] // 2), least(axis, 2))
        changed = try_sizes(planner.problem, sizes, {axis.name: size})
        if size < sizes[axis.name] and changed is not None and legal(planner.problem, changed):
            yield axis.name, changed


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
