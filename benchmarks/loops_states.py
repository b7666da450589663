"""False alarms of LOOP001 and LOOP002: every correct candidate of the zoo that has a site."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import save
from tests.zoo.judging import Gate
from tests.zoo.manifest import HERE, HONEST, PAIRS, load
from tests.zoo.manifest_catalog import HONEST_CATALOG

from cuassay.loops.states import site_of
from cuassay.model.verdict import Profile

CODES = ("LOOP001", "LOOP002")


def main() -> int:
    """Judge them all at `standard` by the two checks; 1 where one is rejected."""
    import torch

    torch.set_num_threads(1)
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
    found = []
    with Gate() as gate:
        for name, path, where in todo:
            problem = load(where)
            if site_of(problem) is None:
                continue
            started = time.perf_counter()
            told = gate.judge(problem, path, profile=Profile.STANDARD, only=CODES)
            outcomes = {c.code: type(c.outcome).__name__ for c in told.verdict.checks}
            seconds = round(time.perf_counter() - started, 2)
            found.append({"candidate": name, "problem": where, "s": seconds, **outcomes})
            if told.rejected:
                print(name, told)
    failed = [each for each in found if "Failed" in each.values()]
    passed = [each for each in found if "Passed" in each.values()]
    print(f"{len(found)} correct candidates: {len(passed)} passed, {len(failed)} rejected")
    print(save("loops-states", {"candidates": found, "rejected": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
