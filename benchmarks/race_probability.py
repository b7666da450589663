"""How often RACE001 meets each planted race in one verdict: 100 trials a race, on a GPU.

A trial is what a verdict at `quick` does: fresh secret seeds, fresh inputs, RACE001's own
scenarios (all loads but the second process), judged against truth. They run in this process,
one kernel after another, so that 100 trials take a minute and not an hour. Counted for every
load alone, for the loads without pauses together, and for all. Each correct twin goes through
ten trials: every finding on it is a false alarm.

    PYTHONPATH=src:. python benchmarks/race_probability.py [--trials 100] [--seconds 400]
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from common import ROOT, save

sys.path.insert(0, str(ROOT))

from tests.zoo.manifest import PAIRS, Pair, load

from cuassay import build
from cuassay.checks.gpu.chances import wilson
from cuassay.checks.gpu.load import Race001
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.formats import load_candidate
from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CUDA
from cuassay.model.problem import Problem
from cuassay.model.reports import Repeats
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Load, Repeat
from cuassay.model.trace import StepDone
from cuassay.model.verdict import Profile
from cuassay.sandbox.local import LocalRunner

TWIN_TRIALS = 10
HANGS = "cuda_grid_barrier"  # never returns: judged by RUN004 in a process that can be killed
WITHOUT = (Load.NONE, Load.BANDWIDTH, Load.MULTIPROCESSORS)


@dataclass(slots=True)
class Count:
    """What the trials of one candidate gave."""

    trials: int = 0
    plain_wrong_scenarios: int = 0
    undecided: int = 0
    seconds: float = 0.0
    launches: dict[str, int] = field(default_factory=dict)
    wrong: dict[str, int] = field(default_factory=dict)
    caught: dict[str, int] = field(default_factory=dict)
    axes: dict[str, int] = field(default_factory=dict)
    pauses: str = ""

    def add(self, what: str, hit: bool) -> None:
        """Count one trial of an arm."""
        self.caught[what] = self.caught.get(what, 0) + hit


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One compiled candidate with its problem and reference."""

    name: str
    problem: Problem
    reference: LoadedReference
    runner: LocalRunner


def subject(pair: Pair, path: Path, folder: Path) -> Subject:
    """Build a candidate for this GPU."""
    problem = load(pair.problem)
    candidate = load_candidate(str(path), problem)
    place = folder / f"{path.parent.name}-{pair.name}"
    built = build.load(candidate, problem, device=CUDA, folder=place)
    runner = LocalRunner(built.call, problem, device=CUDA, convention=candidate.convention)
    return Subject(
        name=f"{path.parent.name}/{pair.name}",
        problem=problem,
        reference=load_reference(problem),
        runner=runner,
    )


def one_trial(on: Subject, count: Count) -> None:
    """Judge one candidate with fresh seeds by every load; add what was seen."""
    started = time.perf_counter()
    trial = open_trial(
        on.problem,
        on.reference,
        profile=Profile.QUICK,
        device=CUDA,
        root_seed=secrets.randbits(62),
    )
    hits: dict[Load, bool] = {}
    before = count.plain_wrong_scenarios
    for scenario in Race001().propose(trial):
        step = scenario.steps[-1]
        if isinstance(step, Repeat) and not scenario.busy:
            hits[step.load] = _hit(on, trial, scenario, count)
            count.axes = dict(scenario.cases[0].axes)
    count.trials += 1
    for load_, hit in hits.items():
        count.add(load_.value, hit)
    count.add("without pauses", any(hits.get(name, False) for name in WITHOUT))
    count.add("all", any(hits.values()))
    numbers = count.plain_wrong_scenarios > before
    count.add("the plain call (NUM001)", numbers)
    count.add("any of them", numbers or any(hits.values()))
    count.seconds += time.perf_counter() - started


def _hit(on: Subject, trial: JudgeTrial, scenario: Scenario, count: Count) -> bool:
    run = on.runner.run(scenario, trial.inputs, None)
    load_ = scenario.steps[-1].load.value  # type: ignore[union-attr]
    for step, record in zip(scenario.steps, run.result.records, strict=True):
        if isinstance(step, Repeat) and isinstance(record, StepDone):
            assert isinstance(record.report, Repeats)
            count.launches[load_] = count.launches.get(load_, 0) + record.report.calls
            named = record.report.pauses.items()
            count.pauses = " ".join(f"{n}={places}" for n, places in named) or count.pauses
    try:
        found = Race001().judge(trial, scenario, run).findings
    except NothingToCheckError:
        return False
    except CannotJudgeError:
        count.undecided += 1
        return False
    plain = run.result.records[2]
    if isinstance(plain, StepDone):
        compared = trial.compare(scenario.cases[0], run, plain.items)
        count.plain_wrong_scenarios += any(not c.passed for c in compared)
    if found:
        number = int(found[0].message.split(" ", 1)[0])
        count.wrong[load_] = count.wrong.get(load_, 0) + number
    return bool(found)


def rows(name: str, count: Count) -> dict[str, Any]:
    """Return one candidate's counts with Wilson intervals."""
    arms = {}
    for arm, caught in count.caught.items():
        low, high = wilson(caught, max(count.trials, 1))
        arms[arm] = {"caught": caught, "low": round(low, 4), "high": round(high, 4)}
        if arm in count.launches:
            launches, wrong = count.launches[arm], count.wrong.get(arm, 0)
            arms[arm] |= {"launches": launches, "wrong_launches": wrong}
    return {
        "name": name,
        "trials": count.trials,
        "plain_wrong_scenarios": count.plain_wrong_scenarios,
        "undecided": count.undecided,
        "seconds": round(count.seconds, 1),
        "axes": count.axes,
        "pauses": count.pauses,
        "arms": arms,
    }


def measured(
    on: Subject, trials: int, *, seconds: float, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run trials of one candidate until there are enough or the time is up."""
    count, started = Count(), time.perf_counter()
    while count.trials < trials and time.perf_counter() - started < seconds:
        one_trial(on, count)
    row = rows(on.name, count)
    shown = {arm: found["caught"] for arm, found in row["arms"].items()}
    say(f"{on.name}: {count.trials} trials in {count.seconds:.0f} s, caught {shown}")
    return row


def main() -> int:
    """Measure every race pair; 1 where a twin was accused, 3 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=400.0)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        print("needs an NVIDIA GPU")
        return 3
    races = [p for p in PAIRS if "RACE001" in p.codes and p.name != HANGS]
    each = asked.seconds / max(len(races), 1)
    found, alarms = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for pair in races:
            for path, trials, share in (
                (pair.bug, asked.trials, 0.9),
                (pair.twin, TWIN_TRIALS, 0.1),
            ):
                on = subject(pair, path, Path(folder))
                row = measured(on, trials, seconds=share * each, say=_say)
                found.append(row)
                alarms += row["arms"].get("all", {}).get("caught", 0) if path is pair.twin else 0
    note = f"{HANGS} is left out: it never returns, and RUN004 judges it in a worker"
    print(f"results: {save('race-probability', {'note': note, 'races': found})}")
    print(f"{alarms} false alarms on the twins")
    return 1 if alarms else 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
