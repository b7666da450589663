"""What each mechanism of the oracle is worth: alarms and faults caught with one of them off.

    python benchmarks/oracle_without.py [--off NAME ...] [--processes N] [--held] [--out FILE]

Runs the calibration (`calibrate.py`), and with --held the held-out kernels (`heldout.py`), once
with everything and once without each mechanism of docs/oracle.md. Each finished run is written
at once; a run that the file holds already is not made again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import heldout
import torch
from calibrate import Tally, environment, study_one
from calibration_operators import OPERATORS
from torch import Tensor

from cuassay.model.device import CPU
from cuassay.oracle.truth import composite, random_errors, reductions, scale, yardstick
from cuassay.oracle.truth.centred import Centred
from cuassay.oracle.truth.random_errors import Noise
from cuassay.oracle.truth.shared import Shared

_SEED = 90_001


def _no_copies(flat: Any, kinds: Any, shape: Any, hits: Any) -> Shared:
    groups = 0
    for kind in kinds:
        if kind.kind == "hits":
            groups += 4
        elif kind.axis is not None:
            groups += shape[kind.axis]
        else:
            groups += flat.value.numel() // shape[-1] if kind.kind == "rows" else 1
    zero = torch.zeros(groups, dtype=torch.float64, device=flat.value.device)
    return Shared(pairs=zero, gain=zero, weight=zero, size=zero)


def _no_drift() -> None:
    nothing: Callable[..., None] = lambda *given: None  # noqa: E731
    for module in (reductions, composite):
        module.drift = nothing  # type: ignore[attr-defined]
    reductions.block_drift = nothing  # type: ignore[attr-defined]
    reductions.equal_drift = lambda total, *rest: torch.zeros_like(total)  # type: ignore[attr-defined]


def _ones(squares: Tensor, terms: Tensor, *rest: Any) -> Tensor:
    return torch.ones_like(terms)


def _set(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


def _independent(self: Noise, values: Tensor) -> Tensor:
    return self.normal(values.shape, values.device)


# Name of a mechanism -> what switches it off in a process of its own.
MECHANISMS: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "drift of repeated addends": _no_drift,
    "equal values err alike": _set(Noise, "of", _independent),
    "sums of centred terms": _set(Centred, "deviation", lambda self, values, found, **how: found),
    "leave-one-out (elements)": _set(scale, "element_room", lambda *given, **how: 1.0),
    "leave-one-out (groups)": _set(
        yardstick, "by_the_others", lambda values, *rest: torch.ones((), dtype=torch.float64)
    ),
    "largest score of a draw": _set(yardstick, "_common", _ones),
    "independent errors in a group": _set(yardstick, "shared", _no_copies),
    "relative model of variances": _set(
        scale, "_likely", lambda value, rows, columns, *, mean, prior: rows * (columns / mean)
    ),
    "even scale of rows": _set(scale, "_even_rows", lambda matrix, rows, columns: rows),
    "relative error of short rows": _set(scale, "_shared_by_row", lambda noise, value: noise),
    "floor": _set(scale, "floor_square", lambda *given, **how: 0.0),
    "one-sided errors of operations": _set(random_errors, "_LEAN", 0.0),
}


def _calibrated(mechanism: str, operator: str) -> Tally:
    MECHANISMS[mechanism]()
    return study_one(operator, device=CPU, seeds=1)


def _held(mechanism: str, shape: tuple[int, int], part: str) -> dict[str, Any]:
    MECHANISMS[mechanism]()
    heldout.SHAPES = (shape,)
    return heldout.study(_SEED + shape[0], part)


def _row(mechanism: str, pool: ProcessPoolExecutor, *, held: bool) -> dict[str, Any]:
    """Return counts of one mechanism; each operator and part in a process of its own."""
    started = time.perf_counter()
    parts = [pool.submit(_calibrated, mechanism, operator.name) for operator in OPERATORS]
    others = [
        pool.submit(_held, mechanism, shape, part)
        for part in ("forms", "operators")
        for shape in heldout.SHAPES
        if held
    ]
    tally = Tally()
    for part in as_completed(parts):
        tally.take(part.result())
    alarms = [
        alarm for other in others for alarm in other.result()["alarms"]
        if not alarm["ill_conditioned"]
    ]  # fmt: skip
    compared = sum(
        count for other in others for name, count in other.result()["counts"].items()
        if name.endswith(": comparisons")
    )  # fmt: skip
    return {
        "mechanism": mechanism,
        "honest": tally.honest["cases"],
        "alarms": tally.alarms,
        "largest_honest": dict(tally.largest),
        "faults": sum(of for _, of in tally.caught.values()),
        "caught": sum(caught for caught, _ in tally.caught.values()),
        "held_out": compared,
        "held_out_alarms": alarms,
        "seconds": round(time.perf_counter() - started, 1),
    }


def main() -> None:
    """Run the mechanisms asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--off", nargs="*", choices=[*MECHANISMS], default=[*MECHANISMS])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/oracle-without.json"))
    given = parser.parse_args()
    kept = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    rows = {row["mechanism"]: row for row in kept}
    context = multiprocessing.get_context("spawn")
    for mechanism in given.off:
        if mechanism in rows:
            continue
        with ProcessPoolExecutor(given.processes, context, max_tasks_per_child=1) as pool:
            rows[mechanism] = _row(mechanism, pool, held=given.held)
        document = {"environment": environment("cpu"), "rows": list(rows.values())}
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(document, indent=1) + "\n")
        row = rows[mechanism]
        worst = {name: round(found[0], 2) for name, found in row["largest_honest"].items()}
        print(
            f"{mechanism}: {len(row['alarms'])} alarms of {row['honest']}, caught "
            f"{row['caught']} of {row['faults']}, held out {len(row['held_out_alarms'])} of "
            f"{row['held_out']}, largest {worst}, {row['seconds']} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
