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
import math
import os
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import ROOT, save

sys.path.insert(0, str(ROOT))

import torch
from gate_trials import Trial, load_problem
from tests.zoo.local_gate import LocalGate
from world import kernels, part
from written_forms import HITS, HONEST, IN_16_BITS, WRONG, formed

from cuassay.catalog import registry
from cuassay.dispatch_modes import tensors_in
from cuassay.errors import CuassayError
from cuassay.formats.execute import load_reference
from cuassay.inputs.materialise import materialise
from cuassay.inputs.plan import plan_cases
from cuassay.judge.trial import open_trial
from cuassay.judge.truths import same_bits
from cuassay.model.device import CPU
from cuassay.model.outcome import Errored, Inconclusive
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.verdict import Profile, Verdict
from cuassay.oracle.compare.outputs import Comparison, compare

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
    parser.add_argument("--numbers", action="store_true", help="comparisons alone, of all forms")
    parser.add_argument("--elements", type=int, default=70_000, help="the most of a case's inputs")
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


def is_other(of: tuple[str, str], rewrite: str) -> bool:
    """Whether a rewrite changes an answer of a problem's reference on its first plain cases."""
    problem = load_problem(*of)
    call = load_reference(problem)
    for case in plan_cases(problem, "numeric", profile=Profile.QUICK, root_seed=1)[:3]:
        answers = []
        try:
            for rewrites in ((), (rewrite,)):
                given = materialise(problem, case, device=CPU, generator=call.generator)
                answers.append(tensors_in(formed(*of, rewrites, 1)(*given.values())))
        except Exception:  # a form that raises is told by its trial
            return True
        if not all(torch.equal(a, b) for a, b in zip(*answers, strict=True)):
            return True
    return False


def forms(
    given: argparse.Namespace, of: tuple[str, str], *, stores: bool, draw: random.Random
) -> list[tuple[str, ...]]:
    """Return the forms of one seed: of honest ones those that a draw of rewrites gives."""
    if given.forms:
        return [tuple(one.split("+")) for one in given.forms]
    if given.wrong:
        return [(one,) for one in WRONG if is_other(of, one)]
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
        self.plain: set[tuple[str, str]] = set()  # problems that no formula changes
        given.journal.parent.mkdir(parents=True, exist_ok=True)

    def judge(
        self, gate: LocalGate, of: tuple[str, str], path: Path, title: str, seed: int
    ) -> None:
        """Judge one candidate and write its row."""
        started = time.process_time()
        HITS.update(dict.fromkeys(HITS, 0))
        row: dict[str, Any] = {"problem": of[0], "dtype": of[1], "form": title, "seed": seed}
        try:
            found = gate.judge(
                load_problem(*of),
                path,
                seed=seed,
                only=CODES.split(),
                budget_s=self._given.budget_s,
                fail_fast=self._given.wrong,
            )
            row |= {"decision": found.verdict.decision.value, "codes": found.codes}
            row |= {"share": min(found.share, 1e30), "reason": found.verdict.reason[:300]}
            row |= seen(found.verdict)
        except Exception as error:
            row |= {"decision": "ERROR", "codes": (), "share": 0.0, "reason": repr(error)[:500]}
        row["hits"] = dict(HITS)
        if set(title.split("+")) <= HONEST.keys() - IN_16_BITS and not any(HITS.values()):
            self.plain.add(of)
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


class Numbers:
    """Holds answers of many forms, honest and wrong, against one truth a case, and no more.

    Truth is that of the widest family that the problem's policy accepts.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self.end = time.monotonic() + 60.0 * given.minutes
        self.rows: list[dict[str, Any]] = []

    def look(self, of: tuple[str, str], draw: random.Random) -> None:
        """Judge every form of a problem on the plain cases of one seed, and write its rows."""
        problem, seed, started = load_problem(*of), draw.getrandbits(60), time.process_time()
        family = policy_of(problem).families[-1]
        stores = family in (Precision.MIXED, Precision.FP8)
        trial = open_trial(
            problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=seed
        )
        known = [one for one in HONEST if stores or one not in IN_16_BITS]
        honest = [(one,) for one in known]
        honest += [tuple(f for f in known if draw.random() < 0.5) or ("lanes",) for _ in range(6)]
        wrong = [(one,) for one in WRONG]
        runs = {one: formed(*of, one, seed) for one in (*honest, *wrong)}
        plain = formed(*of, (), seed)
        found: dict[tuple[str, ...], Counted] = {one: Counted() for one in runs}
        planned = {"problem": of[0], "dtype": of[1], "seed": seed, "cases": 0}
        odd: list[str] = []
        for case in (*trial.cases("numeric"), *trial.cases("ends")):
            if time.monotonic() > self.end:
                break
            try:
                values = list(trial.truths.inputs(case).values())
                if sum(v.numel() for v in tensors_in(values)) > self._given.elements:
                    continue
                truth = trial.truths.truth(case, family)
                as_written = tensors_in(plain(*copies(values)))
            except CuassayError as error:
                odd.append(f"{case.label}: {error}"[:200])
                continue
            planned["cases"] += 1
            if not all(bool(one.value.double().isfinite().all()) for one in truth.outputs):
                odd.append(f"{case.label}: truth is not finite")
            for rewrites, run in runs.items():
                try:
                    answers = tensors_in(run(*copies(values)))
                except Exception as error:
                    found[rewrites].worst = f"raises {error!r}"[:200]
                    continue
                if all(same_bits(a, b) for a, b in zip(answers, as_written, strict=True)):
                    continue  # another form of nothing
                for answer, output in zip(answers, truth.outputs, strict=True):
                    found[rewrites].note(case.label, compare(answer, output))
        row = planned | {"odd": odd, "seconds": round(time.process_time() - started, 1)}
        row["forms"] = {
            "+".join(one): asdict(counted)
            for one, counted in found.items()
            if counted.comparisons or counted.worst
        }
        self.rows.append(row)
        with open(self._given.journal, "a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        for name, one in row["forms"].items():
            if (name not in WRONG) == bool(one["above"]):
                print(of, "miss" if name in WRONG else "ALARM", name, one, seed, flush=True)


@dataclass(slots=True)
class Counted:
    """Comparisons of one form: how many, above a limit and near one, and the largest share."""

    comparisons: int = 0
    above: int = 0
    near: int = 0
    undecided: int = 0
    share: float = 0.0
    worst: str = ""

    def note(self, label: str, found: Comparison) -> None:
        """Add one comparison."""
        if found.undecided:
            self.undecided += 1
            return
        share = math.inf if found.mismatch else found.share
        self.comparisons += 1
        self.above += share > 1.0
        self.near += NEAR < share <= 1.0
        if share > self.share:
            statistic = max(found.statistics, key=lambda one: one.share, default=None)
            kind = f"{statistic.name} {statistic.group}" if statistic else found.mismatch
            self.share, self.worst = min(share, 1e30), f"{label}: {found.output} {kind}"


def copies(values: Sequence[Any]) -> list[Any]:
    """Return the arguments of one more call."""
    return [one.clone() if isinstance(one, torch.Tensor) else one for one in values]


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
    if given.numbers:
        numbers = Numbers(given)
        while time.monotonic() < numbers.end:
            if not left:
                left = problems(given)
                draw.shuffle(left)
            numbers.look(left.pop(), draw)
        return 0
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
            for rewrites in forms(given, of, stores=stores, draw=draw):
                if not set(rewrites) & {*IN_16_BITS, *WRONG} and of in trials.plain:
                    continue
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
