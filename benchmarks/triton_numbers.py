"""Numbers of Triton kernels on a CPU: from the PTX machine, or from Triton's repaired interpreter.

    python benchmarks/triton_numbers.py [--only NAME...] [--twins] [--ways machine]

Judges every Triton pair of the zoo (and the honest Triton rewrites) at `quick` both ways, with the
same seed, one process a candidate, and writes benchmarks/results/triton-numbers-cpu.json: seconds,
verdicts, checks that rejected, and what executed the kernels. What the file holds of other
candidates stays. Checks of the machine's findings
(MEM101...) are left out: they run the machine in either case.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import RESULTS, machine
from tests.zoo.judging import Gate
from tests.zoo.manifest import HONEST, PAIRS, load

from cuassay.model.verdict import Profile

WAYS = ("interpreter", "machine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A candidate, whether it must be accepted, and the conditions that are binding."""

    name: str
    problem: str
    path: Path
    correct: bool
    require: tuple[str, ...] = ()


def _jobs(only: list[str], *, twins: bool) -> list[Job]:
    """Return every Triton candidate of the zoo: correct ones, and faults that `quick` shows."""
    found = []
    for honest in HONEST:
        if honest.triton:
            job = Job(name=honest.name, problem=honest.problem, path=honest.path, correct=True)
            found.append(job)
    for pair in PAIRS:
        if not pair.triton:
            continue
        each = {"name": pair.name, "problem": pair.problem, "require": pair.require}
        found.append(Job(**each, path=pair.twin, correct=True))
        if not twins and pair.since is Profile.QUICK:
            found.append(Job(**each, path=pair.bug, correct=False))
    return [job for job in found if not only or job.name in only]


def _cpu_s() -> float:
    """Return the processor time of this process and of the workers that have ended."""
    own, ended = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def _judge(job: Job, way: str, seed: int) -> dict[str, Any]:
    os.environ["CUASSAY_TRITON"] = way
    started, cpu_s = time.perf_counter(), _cpu_s()
    with Gate("cpu", without=("machine",), machine=True) as gate:
        found = gate.judge(
            load(job.problem), job.path, profile=Profile.QUICK, seed=seed, require=job.require
        )
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
    cpu_s = sorted(row[way]["cpu_s"] for row in rows)
    return {
        "correct": len(twins),
        "accepted": sum(one["decision"] == "accepted" for one in twins),
        "correct_but_rejected": sum(one["decision"] == "rejected" for one in twins),
        "faulty": len(bugs),
        "rejected": sum(one["decision"] == "rejected" for one in bugs),
        "inconclusive": sum(row[way]["decision"] == "inconclusive" for row in rows),
        "median_cpu_s": cpu_s[len(cpu_s) // 2],
        "most_cpu_s": cpu_s[-1],
        "cpu_s": round(sum(cpu_s), 1),
    }


def _summaries(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the summary of each way, and of both over the candidates judged both ways."""
    found: dict[str, Any] = {}
    for way in WAYS:
        judged = [row for row in rows if way in row]
        found |= {way: _summary(judged, way)} if judged else {}
    both = [row for row in rows if all(way in row for way in WAYS)]
    if both:
        found["both_ways"] = {
            "candidates": len(both),
            "same_decision": sum(len({row[way]["decision"] for way in WAYS}) == 1 for row in both),
            **{f"{way}_cpu_s": round(sum(row[way]["cpu_s"] for row in both), 1) for way in WAYS},
        }
    return found


def _held(file: Path) -> dict[tuple[str, bool], dict[str, Any]]:
    """Return the rows of an earlier run by name and whether the candidate is correct."""
    if not file.is_file():
        return {}
    rows = json.loads(file.read_text())["candidates"]
    return {(row["name"], row["correct"]): row for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--twins", action="store_true", help="leave the faulty ones out")
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS)
    parser.add_argument("--out", type=Path, default=RESULTS / "triton-numbers-cpu.json")
    arguments = parser.parse_args()
    rows = _held(arguments.out)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    for number, job in enumerate(_jobs(arguments.only, twins=arguments.twins)):
        row = rows.setdefault((job.name, job.correct), {})
        row |= {"name": job.name, "problem": job.problem, "correct": job.correct}
        for way in arguments.ways:
            one = row[way] = _judge(job, way, 1000 + number)
            print(
                f"{job.name:28s} {'twin' if job.correct else 'bug':5s} {way:12s} "
                f"{one['decision']:12s} {one['seconds']:7.1f} s {one['cpu_s']:7.1f} CPU s "
                f"{' '.join(one['codes'])} {one['reason'][:100]}",
                flush=True,
            )
        judged = [row for row in rows.values() if len(row) > 3]
        found = {"machine": machine(), "summary": _summaries(judged), "candidates": judged}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(_summaries(judged), indent=1))


if __name__ == "__main__":
    main()
