"""How near to their limits honest kernels come: every recipe of a trial is drawn many times over.

A trial compares each recipe once. Here the recipes of NUM001 and NUM002 are drawn again under other
seeds and each answer is held against a truth of its own, in this process: of the models' kernels
(`tests/zoo/models`), with `--faults` of those with planted faults too. For each kernel and kind of
statistic the largest share of a limit is told; for each kernel the rate at which comparisons would
fail, from the mean excess of the highest tenth (an exponential tail), and its bound at 95 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import math
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import ROOT, save

sys.path.insert(0, str(ROOT))

import torch
from tests.zoo.local_gate import LocalGate
from tests.zoo.manifest import load
from tests.zoo.manifest_models import MODELS, Model

from cuassay.judge.comparing import Comparing
from cuassay.model.case import Case
from cuassay.model.policy import policy_of
from cuassay.oracle.compare.outputs import Comparison, compare

TAIL = 0.1  # of the comparisons
NEAR = 0.8
CODES = ("NUM001", "NUM002")


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", nargs="*", help="only those whose names contain one of these")
    parser.add_argument("--redraws", type=int, default=6)
    parser.add_argument("--elements", type=int, default=40_000, help="the most in a case's inputs")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--faults", action="store_true")
    return parser.parse_args(arguments)


def shares_of(found: Comparison) -> dict[str, float]:
    """Return the largest share of each kind of statistic: W, G, Z, gain, bias or a mismatch."""
    if found.mismatch:
        return {"mismatch": math.inf}
    most: dict[str, float] = defaultdict(float)
    for one in found.statistics:
        way = "gain" if "(gain)" in one.group else "bias" if "(bias)" in one.group else one.name
        most[way] = max(most[way], one.share)
    return most


def tail(shares: Sequence[float]) -> dict[str, float]:
    """Return the rate of shares above 1 that the highest tenth makes likely, and its bound."""
    ordered = sorted(shares, reverse=True)
    highest = ordered[: max(8, round(len(ordered) * TAIL))]
    start = highest[-1]
    excess = sum(one - start for one in highest) / len(highest)
    fitted = math.exp((start - 1.0) / excess) * len(highest) / len(ordered) if excess else 0.0
    bound = 1.0 - 0.05 ** (1.0 / len(ordered)) if ordered[0] <= 1.0 else 1.0
    return {"fitted": fitted, "bound at 95 %": bound}


class Redraws:
    """Draws each recipe that a kernel is compared on again, and keeps the shares."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._end: float = time.monotonic() + 60.0 * given.minutes
        self.runs: dict[str, Callable[..., Any]] = {}
        self._seen: set[str] = set()
        self.found: dict[str, list[tuple[str, dict[str, float]]]] = defaultdict(list)

    def begin(self, runs: dict[str, Callable[..., Any]]) -> bool:
        """Take the runs of another kernel and its faults; whether there is time."""
        self.runs, self._seen = runs, set()
        self.found.clear()
        return time.monotonic() < self._end

    def look(self, comparing: Comparing, case: Case) -> None:
        """Draw the recipe of a case again, once."""
        if case.label in self._seen or time.monotonic() > self._end:
            return
        self._seen.add(case.label)
        truths, seeds = comparing._truths, random.Random(case.label)
        family = policy_of(comparing._knowledge.problem).families[-1]
        for _ in range(self._given.redraws):
            again = dataclasses.replace(case, seed=seeds.getrandbits(60))
            values = list(truths.inputs(again).values())
            tensors = [one for one in values if isinstance(one, torch.Tensor)]
            if sum(map(torch.numel, tensors)) > self._given.elements:
                return
            truth = truths._drawn(again, family, None)
            for kind, run in self.runs.items():
                copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in values]
                got = run(*copies)
                outputs = got if isinstance(got, tuple) else (got,)
                for one, right in zip(outputs, truth.outputs, strict=True):
                    held = compare(one, right)
                    if not held.undecided:
                        self.found[kind].append((case.label, shares_of(held)))


def runs_of(model: Model, folder: Path, *, faults: bool) -> dict[str, Callable[..., Any]]:
    """Return the functions of a model and, if wished, of its planted faults."""
    places = {"honest": model.path}
    if faults:
        places |= {fault: model.planted(fault, folder) for fault in model.faults}
    runs = {}
    for kind, place in places.items():
        spec = importlib.util.spec_from_file_location(f"near_{model.name}_{kind}", place)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        runs[kind] = module.run
    return runs


def row_of(found: Sequence[tuple[str, dict[str, float]]]) -> dict[str, Any]:
    """Return what the comparisons of an honest kernel showed."""
    shares = [max(one.values(), default=0.0) for _, one in found]
    largest: dict[str, float] = {}
    for _, each in found:
        for way, share in each.items():
            largest[way] = round(max(largest.get(way, 0.0), share), 3)
    near = sorted({label for label, each in found if max(each.values(), default=0.0) > NEAR})
    return {
        "comparisons": len(shares),
        "above 1": sum(share > 1.0 for share in shares),
        f"above {NEAR}": sum(share > NEAR for share in shares),
        "largest": largest,
        "recipes near": near,
        **tail(shares),
    }


def main(arguments: Sequence[str]) -> int:
    """Draw, print and save; return 1 where an honest comparison fails."""
    given = options(arguments)
    torch.set_num_threads(1)
    redraws = Redraws(given)
    rows: dict[str, dict[str, Any]] = {}
    plain = Comparing.compare

    def watched(self: Comparing, case: Case, *others: Any, **more: Any) -> Any:
        redraws.look(self, case)
        return plain(self, case, *others, **more)

    Comparing.compare = watched  # type: ignore[method-assign]
    names = given.kernels or [""]
    with tempfile.TemporaryDirectory() as folder, LocalGate("cpu") as gate:
        for model in MODELS:
            if not any(name in model.name for name in names):
                continue
            if not redraws.begin(runs_of(model, Path(folder), faults=given.faults)):
                break
            gate.judge(load(model.problem), model.path, seed=1, only=CODES)
            honest = redraws.found.pop("honest", [])
            if not honest:
                continue
            failed = {
                fault: [sum(max(each.values()) > 1.0 for _, each in found), len(found)]
                for fault, found in redraws.found.items()
            }
            rows[model.name] = row_of(honest) | ({"faults found": failed} if failed else {})
            print(model.name, rows[model.name], flush=True)
    save("near-limits", {"redraws": given.redraws, "elements": given.elements, "kernels": rows})
    return int(any(row["above 1"] for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
