"""Many trials for the price of few: problems in forms that other people would have written.

    python benchmarks/form_trials.py --minutes 60 --part 1/2          # honest forms
    python benchmarks/form_trials.py --minutes 60 --wrong             # wrong ones
    python benchmarks/form_trials.py --packages DIR                   # the world's kernels as well

One process draws a seed, plans a problem's cases once and judges several forms of its reference
(`written_forms.py`) and the world's kernels of it (`world.py`) by every check whose answer needs no
process of its own. Truths are made once for all of a seed. A row is a trial: its verdict, the
largest share of a limit, findings and what could not be judged. An honest form that is not
ACCEPTED is an alarm, a wrong one that is not REJECTED a miss; rows of `--wrong` say whether any
rewrite was reached.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from common import ROOT, save

sys.path.insert(0, str(ROOT))

import torch
from gate_trials import Trial, load_problem
from tests.zoo.local_gate import LocalGate
from world import kernels, part
from written_forms import HITS, HONEST, IN_16_BITS, WRONG

from cuassay.catalog import registry
from cuassay.model.outcome import Errored, Inconclusive
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.verdict import Verdict

# What rejects an honest kernel, but for what needs processes, launches or sources.
CODES = """
    API001 API002 API003 STATE001 MEM004 NUM001 NUM002 NUM003 NUM004 NUM005 META001 SHP001 SHP002
    GRAD001 LAYOUT001 DET002
"""
NEAR = 0.8
DTYPES = ("bfloat16", "float16", "float32")
_CANDIDATE = """from written_forms import formed

_CALL = formed({name!r}, {dtype!r}, {rewrites!r}, {seed})


def run({given}):
    return _CALL({given})
"""


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--part", type=part, default=(1, 1), metavar="K/N")
    parser.add_argument("--problems", nargs="*", help="only those whose names contain one of these")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES)
    parser.add_argument("--forms", nargs="*", help="these rewrites, joined by +, and no others")
    parser.add_argument("--seed", type=int, help="in place of a drawn one")
    parser.add_argument("--wrong", action="store_true")
    parser.add_argument("--packages", type=Path, help="a folder of installed packages")
    parser.add_argument("--budget-s", type=float, default=60.0)
    parser.add_argument("--journal", type=Path, default=ROOT / "build" / "form-trials.ndjson")
    return parser.parse_args(arguments)


def problems(given: argparse.Namespace) -> list[tuple[str, str]]:
    """Return names and working dtypes: the catalogue's, and those of the world."""
    import world_problems

    world = [
        f"world:{name}"
        for name, value in vars(world_problems).items()
        if hasattr(value, "__cuassay_problem__")
    ]
    found = []
    for name in [*registry.names(), *world]:
        known = DTYPES if name in world else [one.value for one in registry.dtypes(name)]
        if not given.problems or any(one in name for one in given.problems):
            found += [(name, dtype) for dtype in known if dtype in given.dtypes]
    return sorted(found)[given.part[0] - 1 :: given.part[1]]


def forms(given: argparse.Namespace, stores: bool, draw: random.Random) -> list[tuple[str, ...]]:
    """Return the forms of one seed: of honest ones those that a draw of rewrites gives."""
    if given.forms:
        return [tuple(one.split("+")) for one in given.forms]
    if given.wrong:
        return [(one,) for one in WRONG]
    formulas = [one for one in HONEST if one not in IN_16_BITS]

    def some(*always: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*always, *(f for f in formulas if draw.random() < 0.4))))

    found = [some("written_out"), some("lanes"), some("folded")]
    if stores:
        found += [("stored",), some("stored"), some("stored_some", "sides")]
    return found


def seen(verdict: Verdict) -> dict[str, Any]:
    """Return what a row keeps of findings, and of checks that could not tell."""
    return {
        "findings": [
            {"code": one.code, "message": one.message[:500], "where": repr(one.where)[:300]}
            for report in verdict.checks
            for one in report.wrong
        ][:4],
        "undecided": {
            report.code: str(report.outcome)[:200]
            for report in verdict.checks
            if isinstance(report.outcome, Inconclusive | Errored)
        },
    }


class Trials:
    """Judges candidates in this process and keeps their rows."""

    def __init__(self, given: argparse.Namespace, folder: Path) -> None:
        self._given, self._folder = given, folder
        self.end = time.monotonic() + 60.0 * given.minutes
        self.rows: list[dict[str, Any]] = []
        given.journal.parent.mkdir(parents=True, exist_ok=True)

    def judge(
        self, gate: LocalGate, of: tuple[str, str], path: Path, title: str, seed: int
    ) -> None:
        """Judge one candidate and write its row."""
        started, HITS[0] = time.process_time(), 0
        row: dict[str, Any] = {"problem": of[0], "dtype": of[1], "form": title, "seed": seed}
        try:
            found = gate.judge(
                load_problem(*of),
                path,
                seed=seed,
                only=CODES.split(),
                budget_s=self._given.budget_s,
            )
            row |= {"decision": found.verdict.decision.value, "codes": found.codes}
            row |= {"share": min(found.share, 1e30), "reason": found.verdict.reason[:300]}
            row |= seen(found.verdict)
        except Exception as error:
            row |= {"decision": "ERROR", "codes": (), "share": 0.0, "reason": repr(error)[:500]}
        row["hits"] = HITS[0]
        row["seconds"] = round(time.process_time() - started, 2)
        self.rows.append(row)
        with open(self._given.journal, "a", encoding="utf-8") as out:
            out.write(json.dumps(row, default=str) + "\n")
        wanted = "REJECTED" if self._given.wrong else "ACCEPTED"
        if row["decision"] != wanted or (not self._given.wrong and row["share"] > NEAR):
            print(json.dumps(row, default=str)[:900], flush=True)

    def written(self, of: tuple[str, str], rewrites: tuple[str, ...], seed: int) -> Path:
        """Write a form of a problem's reference as a candidate's file."""
        given = ", ".join(one.name for one in load_problem(*of).inputs)
        path = self._folder / f"form_{len(self.rows)}.py"
        path.write_text(
            _CANDIDATE.format(name=of[0], dtype=of[1], rewrites=rewrites, seed=seed, given=given)
        )
        return path


def world_kernels(packages: Path | None) -> Iterator[Trial]:
    """Yield the honest kernels of the packages in a folder."""
    for name in ("transformers", "vision") if packages else ():
        yield from (one for one in kernels(name, packages) if one.kind == "world")


def summary(rows: Sequence[dict[str, Any]], *, wrong: bool) -> dict[str, Any]:
    """Return counts: decisions, comparisons near a limit, alarms or misses with their causes."""
    wanted = "REJECTED" if wrong else "ACCEPTED"
    return {
        "trials": len(rows),
        "problems": len({(row["problem"], row["dtype"]) for row in rows}),
        "decisions": dict(Counter(row["decision"] for row in rows)),
        f"share above {NEAR}": sum(NEAR < row["share"] <= 1.0 for row in rows),
        "processor seconds": round(sum(row["seconds"] for row in rows), 1),
        "others": [row for row in rows if row["decision"] != wanted],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge until the time is up; print and save what was seen."""
    given = options(arguments)
    torch.set_num_threads(1)
    world = list(world_kernels(given.packages))
    draw = random.Random(secrets.randbits(60) if given.seed is None else given.seed)
    left: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder, LocalGate("cpu") as gate:
        trials = Trials(given, Path(folder))
        while time.monotonic() < trials.end:
            if not left:
                left = problems(given)
                draw.shuffle(left)
            of = left.pop()
            seed = draw.getrandbits(60) if given.seed is None else given.seed
            problem = load_problem(*of)
            stores = Precision.MIXED in policy_of(problem).families
            kept = (
                []
                if given.wrong or given.forms
                else [one for one in world if (one.problem, one.dtype) == of]
            )
            for one in draw.sample(kept, min(2, len(kept))):
                trials.judge(gate, of, Path(one.path), one.name, seed)
            for rewrites in forms(given, stores, draw):
                path = trials.written(of, rewrites, seed)
                trials.judge(gate, of, path, "+".join(rewrites), seed)
                path.unlink()
            if given.seed is not None and not left:
                break
    found = summary(trials.rows, wrong=given.wrong)
    print({key: value for key, value in found.items() if key != "others"})
    if not given.problems and os.environ.get("CUASSAY_RESULTS"):
        print(save("form-trials-wrong" if given.wrong else "form-trials", found))
    return int(any(row["decision"] == "REJECTED" for row in found["others"]) and not given.wrong)


if __name__ == "__main__":
    sys.exit(main())
