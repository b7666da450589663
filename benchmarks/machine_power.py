"""What the PTX machine finds: every planted fault of tests/machine, and every correct kernel.

Per class of fault: found, missed, and correct kernels in which something was found (false
alarms). A fault counts as found where the machine reports a fault of an expected kind; a
correct kernel must run to its end, give the right answer, and show no finding of severity
wrong. Needs no GPU. Writes benchmarks/results/machine-power-cpu.json. Exit code 1 where a fault
is missed or a correct kernel is not clean.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from common import save
from tests.machine.triton_corpus import CASES
from tests.machine.triton_running import executed_triton

from ptxsan_corpus.corpus import FAULTS, KERNELS, PRECISION_FAULTS, planted
from ptxsan_corpus.running import Outcome, executed, expected_kinds


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names that contain one of these")
    parser.add_argument("--schedule", default="forward")
    return parser.parse_args(arguments)


def wanted(name: str, only: Sequence[str]) -> bool:
    """Whether a kernel is to be run."""
    return not only or any(part in name for part in only)


def main(arguments: Sequence[str]) -> int:
    """Run the corpus and save what was found."""
    chosen = options(arguments)
    rows = [*clean_rows(chosen), *fault_rows(chosen)]
    table: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        table[row["class"]][row["result"]] += 1
    for name, counts in sorted(table.items()):
        print(f"{name:28s} " + "  ".join(f"{k} {v}" for k, v in sorted(counts.items())))
    bad = [row for row in rows if row["result"] in ("missed", "false alarm", "not run", "wrong")]
    for row in bad:
        print(f"{row['result']:12s} {row['name']}: {row['seen'][:160]}")
    if not chosen.only:
        document = {
            "schedule": chosen.schedule,
            "classes": {name: dict(counts) for name, counts in sorted(table.items())},
            "rows": rows,
            "seconds": sum(row["seconds"] for row in rows),
        }
        save("machine-power", document)
    return 1 if bad else 0


def clean_rows(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Run every correct kernel."""
    rows = []
    for kernel in KERNELS.values():
        if wanted(kernel.name, chosen.only):
            started = time.perf_counter()
            outcome = executed(kernel, schedule=chosen.schedule)
            rows.append(clean_row(kernel.name, kernel.family, outcome, started))
    for case in CASES:
        if wanted(case.name, chosen.only):
            started = time.perf_counter()
            rows.append(clean_row(case.name, "triton", executed_triton(case), started))
    return rows


def clean_row(name: str, family: str, outcome: Outcome, started: float) -> dict[str, Any]:
    """Return the row of a correct kernel."""
    if outcome.refused:
        result = "not run"
    elif outcome.found:
        result = "false alarm"
    else:
        result = "wrong" if outcome.mistakes else "clean"
    seen = outcome.refused or "; ".join([*outcome.texts, *outcome.mistakes])
    return {
        "name": name,
        "class": f"correct: {family}",
        "result": result,
        "seen": seen,
        "oblivious": outcome.oblivious,
        "lane_instructions": outcome.lane_instructions,
        "seconds": round(time.perf_counter() - started, 4),
    }


def fault_rows(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Run every planted fault."""
    rows = []
    for fault in (*FAULTS, *PRECISION_FAULTS):
        if not wanted(fault.name, chosen.only):
            continue
        started = time.perf_counter()
        outcome = executed(replace(planted(fault)), schedule=chosen.schedule)
        hit = bool(outcome.kinds & expected_kinds(fault))
        seen = outcome.refused or "; ".join(outcome.texts)
        result = "found" if hit else "not run" if outcome.refused else "missed"
        rows.append(
            {
                "name": fault.name,
                "class": f"fault: {fault.kind}",
                "result": result,
                "seen": seen,
                "seconds": round(time.perf_counter() - started, 4),
            }
        )
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
