"""Numbers of Triton kernels on a CPU: from the PTX machine, or from Triton's repaired interpreter.

    python benchmarks/triton_numbers.py [--only NAME...] [--twins]

Judges every Triton pair of the zoo (and the honest Triton rewrites) at `quick` both ways, with the
same seed, one process a candidate, and writes benchmarks/results/triton-numbers-cpu.json: seconds,
verdicts, checks that rejected, and what executed the kernels. Checks of the machine's findings
(MEM101...) are left out: they run the machine in either case.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import RESULTS, machine
from tests.zoo.judging import Gate
from tests.zoo.manifest import HONEST, PAIRS, load

from cuassay.model.verdict import Profile

WAYS = ("interpreter", "machine")


def _jobs(only: list[str], *, twins: bool) -> list[tuple[str, str, Path, bool]]:
    """Return (name, problem, file, whether it must be accepted) of every candidate."""
    found = []
    for pair in PAIRS:
        if pair.triton and (not only or pair.name in only):
            found.append((pair.name, pair.problem, pair.twin, True))
            if not twins and pair.since is Profile.QUICK:
                found.append((pair.name, pair.problem, pair.bug, False))
    for honest in HONEST:
        if honest.triton and (not only or honest.name in only):
            found.append((honest.name, honest.problem, honest.path, True))
    return found


def _cpu_s() -> float:
    """Return the processor time of this process and of the workers that have ended."""
    own, ended = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def _judge(problem: str, path: Path, way: str, seed: int) -> dict[str, Any]:
    os.environ["CUASSAY_TRITON"] = way
    started, cpu_s = time.perf_counter(), _cpu_s()
    with Gate("cpu", without=("machine",), machine=way == "machine") as gate:
        found = gate.judge(load(problem), path, profile=Profile.QUICK, seed=seed)
    by = [text for text in found.verdict.conditions if text.startswith("device:")]
    return {
        "decision": found.verdict.decision.value.lower(),
        "codes": list(found.codes),
        "reason": found.verdict.reason[:300],
        "executed": by[0][:120] if by else "",
        "share": round(found.share, 4),
        "seconds": round(time.perf_counter() - started, 2),
        "cpu_s": round(_cpu_s() - cpu_s, 2),
        "load_average": os.getloadavg()[0],
    }


def _summary(rows: list[dict[str, Any]], way: str) -> dict[str, Any]:
    twins = [row[way] for row in rows if row["correct"]]
    bugs = [row[way] for row in rows if not row["correct"]]
    seconds = sorted(row[way]["seconds"] for row in rows)
    return {
        "correct": len(twins),
        "accepted": sum(one["decision"] == "accepted" for one in twins),
        "correct_but_rejected": sum(one["decision"] == "rejected" for one in twins),
        "faulty": len(bugs),
        "rejected": sum(one["decision"] == "rejected" for one in bugs),
        "inconclusive": sum(row[way]["decision"] == "inconclusive" for row in rows),
        "median_s": seconds[len(seconds) // 2],
        "longest_s": seconds[-1],
        "cpu_s": round(sum(row[way]["cpu_s"] for row in rows), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--twins", action="store_true", help="leave the faulty ones out")
    parser.add_argument("--out", type=Path, default=RESULTS / "triton-numbers-cpu.json")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for number, (name, problem, path, correct) in enumerate(
        _jobs(arguments.only, twins=arguments.twins)
    ):
        row: dict[str, Any] = {"name": name, "problem": problem, "correct": correct}
        for way in WAYS:
            row[way] = _judge(problem, path, way, 1000 + number)
            one = row[way]
            print(
                f"{name:28s} {'twin' if correct else 'bug':5s} {way:12s} {one['decision']:12s} "
                f"{one['seconds']:7.1f} s {one['cpu_s']:7.1f} CPU s "
                f"{' '.join(one['codes'])} {one['reason'][:100]}",
                flush=True,
            )
        rows.append(row)
        summary = {way: _summary(rows, way) for way in WAYS}
        found = {"machine": machine(), "summary": summary, "candidates": rows}
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
