"""How often the first diagnosis of a planted bug names its cause, and its line.

Each bug of the zoo that this device can express goes through the checks that find it (with
`--all-checks` through all), with smallest inputs, and is diagnosed. Rows are saved as they come.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from common import ROOT

sys.path.insert(0, str(ROOT))

from tests.zoo.causes import causes_of, planted_lines
from tests.zoo.judging import Gate
from tests.zoo.manifest import PAIRS, Pair, load

from cuassay.model.diagnosis import Diagnosis
from cuassay.model.verdict import Decision, Profile

RESULTS = ROOT / "benchmarks" / "results"
# NUM001 and SHP001 tell a fault of the numbers from one of memory or state; the relations make
# the trial as noisy as a real one.
MACHINE = ("MEM101", "INIT101", "RACE101", "PREC101")
ALWAYS = ("API002", "API001", "API003", "STATE001", "MEM001", "NUM001", "SHP001", "META001")


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="*", help="only these pairs")
    parser.add_argument("--part", default="0/1", help="K/N: every Nth pair from the Kth on")
    parser.add_argument("--all-checks", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, default=RESULTS / "diagnosis-zoo-cpu.json")
    parser.add_argument("--time-limit-s", type=float, default=3600.0)
    return parser.parse_args(arguments)


def row_of(pair: Pair, gate: Gate, *, seed: int, all_checks: bool) -> dict[str, Any]:
    """Return what the first diagnosis says of a bug, beside what was planted."""
    started = time.perf_counter()
    machine = MACHINE if pair.triton else ()
    only = () if all_checks else tuple(dict.fromkeys((*ALWAYS, *machine, *pair.codes)))
    judged = gate.judge(
        load(pair.problem),
        pair.bug,
        profile=pair.since if pair.since is not Profile.DEEP else Profile.STANDARD,
        seed=seed,
        require=pair.require,
        only=only,
    )
    found = judged.verdict.diagnoses
    first = found[0] if found else None
    planted = planted_lines(pair)
    return {
        "pair": pair.name,
        "rejected": judged.verdict.decision is Decision.REJECTED,
        "planted": [cause.value for cause in causes_of(pair)],
        "causes": [one.cause.value for one in found],
        "words": first.words[:300] if first else "",
        "basis": first.basis.value if first else "",
        "line": _line(first),
        "planted_lines": sorted(planted),
        "cause_right": first is not None and first.cause in causes_of(pair),
        "line_right": bool(_line(first)) and any(abs(_line(first) - n) <= 1 for n in planted),
        "example": bool(first and first.example),
        "codes": list(judged.codes),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _line(first: Diagnosis | None) -> int:
    return first.line.line if first is not None and first.line is not None else 0


def summary(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts: of the rejected bugs, how many causes and lines are right."""
    rejected = [row for row in rows if row["rejected"]]
    named = [row for row in rejected if row["line"]]
    return {
        "rejected": len(rejected),
        "cause_right": sum(row["cause_right"] for row in rejected),
        "line_named": len(named),
        "line_right": sum(row["line_right"] for row in rejected),
    }


def main(arguments: Sequence[str]) -> int:
    """Diagnose every chosen bug and save the rows."""
    chosen = options(arguments)
    part, parts = map(int, chosen.part.split("/"))
    pairs = [p for p in PAIRS if not p.needs_gpu or chosen.device.startswith("cuda")]
    pairs = [p for p in pairs if not chosen.pairs or p.name in chosen.pairs][part::parts]
    rows: list[dict[str, Any]] = []
    until = time.monotonic() + chosen.time_limit_s
    with Gate(chosen.device, machine=True, smallest=True, causes=True) as gate:
        for pair in sorted(pairs, key=lambda p: p.problem):
            if time.monotonic() > until:
                break
            try:
                row = row_of(pair, gate, seed=chosen.seed, all_checks=chosen.all_checks)
            except Exception as error:
                row = {"pair": pair.name, "rejected": False, "error": repr(error)[:300]}
            rows.append(row)
            told = [f"{key}={row.get(key)}" for key in ("cause_right", "line_right", "causes")]
            print(
                f"{pair.name:28}",
                *told,
                row.get("line"),
                row.get("planted_lines"),
                row.get("error", ""),
                row.get("seconds"),
                row.get("words", "")[:110],
                flush=True,
            )
            document = {"summary": summary(rows), "rows": rows}
            chosen.out.parent.mkdir(parents=True, exist_ok=True)
            chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(summary(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
