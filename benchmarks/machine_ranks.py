"""What the PTX machine finds in kernels that span devices: planted faults and their twins.

Every twin of ptxsan_corpus/rank_kernels.py must be clean and right in every order of the devices,
every fault of rank_faults.py found by a kind that it is expected to show, at two and three ranks.
Seconds are of the processor, of one process, compilation of the kernel included. Needs no GPU.
Writes benchmarks/results/machine-ranks-cpu.json. Exit code 1 where a fault is missed or a twin is
not clean.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import numpy as np
from common import save

from ptxsan import ranks
from ptxsan_corpus.rank_faults import FAULTS
from ptxsan_corpus.rank_kernels import TWINS, Work

_COUNTS = (2, 3)


def main() -> int:
    """Run the corpus and save what was found."""
    rows: list[dict[str, Any]] = []
    for count in _COUNTS:
        for name, (source, work) in TWINS.items():
            kinds, right, seconds = _run(source, work(count))
            result = "clean" if not kinds and right else "alarm"
            rows.append(_row("twin", name, count, result, kinds, seconds))
        for fault in FAULTS:
            source, work = TWINS[fault.twin]
            edited = source.replace(fault.old, fault.new)
            kinds, _, seconds = _run(edited, work(count))
            result = "found" if kinds & fault.kinds else "missed"
            row = _row("fault", fault.name, count, result, kinds, seconds)
            rows.append(row | {"pattern": fault.pattern.value, "twin": fault.twin})
    for row in rows:
        print(f"{row['result']:7s} {row['ranks']} {row['cpu_s']:6.2f} s  {row['name']}")
    summary = {
        str(count): {
            result: sum(row["result"] == result and row["ranks"] == count for row in rows)
            for result in ("found", "missed", "clean", "alarm")
        }
        | {
            "median_cpu_s": statistics.median(r["cpu_s"] for r in rows if r["ranks"] == count),
            "most_cpu_s": max(row["cpu_s"] for row in rows if row["ranks"] == count),
        }
        for count in _COUNTS
    }
    print(summary)
    save("machine-ranks", {"ranks": summary, "rows": rows})
    return int(any(row["result"] in ("missed", "alarm") for row in rows))


def _run(source: str, work: Work) -> tuple[set[str], bool, float]:
    """Return the kinds of what is wrong, whether results are right in all orders, CPU seconds."""
    wrong: list[ranks.Order] = []

    def after(order: ranks.Order) -> None:
        if not all(np.array_equal(got, wanted) for got, wanted in work.results):
            wrong.append(order)

    started = time.process_time()
    report = ranks.check(source, work.steps, strict_order=True, after=after)
    kinds = {one.kind.value for one in report.wrong}
    if report.inconclusive:
        kinds.add("inconclusive")
    return kinds, not wrong, time.process_time() - started


def _row(
    what: str, name: str, count: int, result: str, kinds: set[str], seconds: float
) -> dict[str, Any]:
    return {
        "what": what, "name": name, "ranks": count, "result": result, "kinds": sorted(kinds),
        "cpu_s": round(seconds, 2),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
