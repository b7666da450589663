"""False alarms of LOOP001 and LOOP002: every correct candidate of the zoo that has a site.

    python benchmarks/loops_states.py --limit-s 540
    python benchmarks/loops_states.py --faults    # milder faults of the embedding gradient

Candidates that the result file holds are kept, so that repeated calls cover all; `--fresh` begins
anew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import RESULTS, machine, save
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, HONEST, PAIRS, load
from tests.zoo.manifest_catalog import HONEST_CATALOG

from cuassay.model.verdict import Profile
from cuassay_loops.states import site_of

CODES = ("LOOP001", "LOOP002")


def _todo() -> list[tuple[str, Path, str]]:
    """Return name, file and problem of every correct candidate."""
    todo = [(h.name, h.path, h.problem) for h in HONEST if not h.triton]
    for problem, styles in HONEST_CATALOG.items():
        for style in styles.split():
            path = HERE / "honest" / f"{problem}_{style}.py"
            todo.append((path.stem, path, problem))
    todo += [
        (f"{p.name} (twin)", p.twin, p.problem)
        for p in PAIRS
        if p.plain and not p.needs_gpu and not p.triton and not p.problem.startswith("zoo:")
    ]
    return [each for each in todo if site_of(load(each[2])) is not None]


def _held() -> list[dict[str, Any]]:
    """Return what an earlier call kept; files without outcomes by check are passed over."""
    folder = Path(os.environ.get("CUASSAY_RESULTS", RESULTS))
    with contextlib.suppress(OSError, ValueError, KeyError):
        found = json.loads((folder / "loops-states-cpu.json").read_text())["results"]["candidates"]
        return [each for each in found if "date" in each]
    return []


def _faults() -> int:
    """Judge milder faults and their twins at `standard` and `deep`; 1 where one is missed."""
    names = ("bf16_embedding_grad", "tile128_embedding_grad", "tree_embedding_grad")
    found, problem = [], load("embedding_grad")
    with Gate() as gate:
        for profile in (Profile.STANDARD, Profile.DEEP):
            for name in names:
                for folder in ("bugs", "twins"):
                    path = HERE / folder / f"{name}.py"
                    started = time.perf_counter()
                    told = gate.judge(problem, path, profile=profile, only=CODES)
                    outcomes = {c.code: type(c.outcome).__name__ for c in told.verdict.checks}
                    line = {"profile": profile.value, "candidate": name, "folder": folder}
                    seconds = round(time.perf_counter() - started, 1)
                    found.append(line | outcomes | {"s": seconds})
                    print(found[-1])
    print(save("loops-faults", found))
    return int(any((each["folder"] == "bugs") != ("Failed" in each.values()) for each in found))


def main() -> int:
    """Judge them all at `standard` by the two checks; 1 where one is rejected."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit-s", type=float, default=2300.0)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--faults", action="store_true")
    asked = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    if asked.faults:
        return _faults()
    todo, began = _todo(), time.perf_counter()
    found = [] if asked.fresh else _held()
    met = {(each["candidate"], each["problem"]) for each in found}
    with Gate() as gate:
        for name, path, where in todo:
            if (name, where) in met or time.perf_counter() - began > asked.limit_s:
                continue
            started = time.perf_counter()
            told = gate.judge(load(where), path, profile=Profile.STANDARD, only=CODES)
            outcomes = {c.code: type(c.outcome).__name__ for c in told.verdict.checks}
            seconds = round(time.perf_counter() - started, 2)
            date = machine()["date"]
            found.append(
                {"candidate": name, "problem": where, "s": seconds, "date": date, **outcomes}
            )
            if told.rejected:
                print(name, told)
    failed = [each for each in found if "Failed" in each.values()]
    passed = [each for each in found if "Passed" in each.values()]
    print(f"{len(found)} of {len(todo)}: {len(passed)} passed, {len(failed)} rejected")
    print(save("loops-states", {"candidates": found, "rejected": failed, "of": len(todo)}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
