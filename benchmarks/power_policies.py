"""What each precision policy can still tell apart: mutants of the catalogue, and bugs of the zoo.

A policy accepts what any of its families explains, so that a wider one rejects less. For every
operator the mutants that its planned inputs reject are counted under `strict`, and those of them
that `tf32`, `mixed` and `fp8` still reject. For every planted bug that a comparison of plain calls
shows, NUM001 and NUM002 judge it under each policy, and its twin under its problem's own.

    python benchmarks/power_policies.py --processes 8 --time-limit 480

Rows are written as they come; `--resume` runs the rest.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from common import ROOT, save
from gate_trials import Row as GateRow
from gate_trials import Trial, cuda_or_cpu, run_trials, say
from tests.zoo.manifest import PAIRS, load
from trials import Journal

from cuassay.catalog import registry
from cuassay.errors import CuassayError
from cuassay.model.device import Device
from cuassay.model.policy import policy_of
from cuassay.model.precision import Precision
from cuassay.model.verdict import Profile

_ELEMENTS = 1 << 16  # of inputs and outputs of a case that runs once a mutant
_SEED = 400
_PLAIN = ("NUM001", "NUM002")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One operator: `killed` counts mutants by policy, `spared` those that `strict` alone rejects.

    `own` is the policy that its types say; `spared` names mutants by the first policy that
    accepts them.
    """

    operator: str
    own: str
    mutants: int = 0
    cases: int = 0
    killed: dict[str, int]
    spared: dict[str, list[str]]
    seconds: float = 0.0
    error: str = ""


def row(name: str, profile: Profile) -> Row:
    """Measure one operator's mutants under every policy, the narrowest first."""
    import torch

    from cuassay.formats.execute import load_reference
    from cuassay.judge.measure.kills import all_mutants, try_cases
    from cuassay.judge.measure.power import planned
    from cuassay.judge.trial import open_trial

    torch.set_num_threads(1)
    started = time.monotonic()
    problem = registry.get(name)
    own = policy_of(problem)
    device = Device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        trials = {
            policy: open_trial(
                replace(problem, precision=policy),
                load_reference(problem),
                profile=profile,
                device=device,
                root_seed=_SEED,
            )
            for policy in Precision
        }
        strict = trials[Precision.STRICT]
        cases = planned(strict, limit=_ELEMENTS)
        mutants = dict(enumerate(all_mutants(strict, cases)))
        left, killed, spared = mutants, {}, {}
        for policy, trial in trials.items():
            tried, _ = try_cases(trial, cases, left, until_killed=True)
            told = frozenset().union(*(one.killed for one in tried))
            if policy is not Precision.STRICT:
                spared[policy.value] = [left[n].words for n in left if n not in told]
            left = {number: mutants[number] for number in told}
            killed[policy.value] = len(left)
    except CuassayError as error:
        return Row(operator=name, own=own.value, killed={}, spared={}, error=str(error))
    return Row(
        operator=name,
        own=own.value,
        mutants=len(mutants),
        cases=len(cases),
        killed=killed,
        spared=spared,
        seconds=round(time.monotonic() - started, 1),
    )


def catalogue(given: argparse.Namespace, deadline: float) -> list[Row]:
    """Measure the operators that have no row yet, until the time is up."""
    journal = Journal(
        given.journal.with_suffix(".mutants.ndjson"),
        Row,
        lambda one: one.operator,
        resume=given.resume,
    )
    left = [name for name in given.operators or registry.names() if name not in journal.rows]
    pool = ProcessPoolExecutor(given.processes, get_context("spawn"))
    tasks = {pool.submit(row, name, Profile(given.profile)): name for name in left}
    try:
        for done in as_completed(tasks, timeout=max(1.0, deadline - time.monotonic())):
            one = done.result()
            counts = " ".join(f"{key} {count}" for key, count in one.killed.items())
            journal.keep(one, f"{one.operator:36s}{one.own:8s}{counts} {one.error[:80]}")
    except TimeoutError:
        print("the time is up: run again with --resume")
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(wait=True, cancel_futures=True)
    return list(journal.rows.values())


def zoo(given: argparse.Namespace, limit_s: float) -> list[GateRow]:
    """Judge the pairs that a comparison of plain calls shows, by that alone."""
    pairs = [
        pair
        for pair in PAIRS
        if set(_PLAIN) & set(pair.codes) and not (pair.needs_gpu or pair.require or pair.triton)
    ]
    if given.sample and given.sample < len(pairs):
        pairs = random.Random(_SEED).sample(pairs, given.sample)
    trials = [
        Trial(
            kind=kind,
            name=pair.name,
            path=str(getattr(pair, kind)),
            problem=pair.problem,
            profile="quick",
            only=_PLAIN,
            precision=policy.value,
        )
        for pair in pairs
        for policy in Precision
        for kind in ("bug", "twin")
        if kind == "bug" or policy is policy_of(load(pair.problem))
    ]
    return run_trials(
        trials,
        device=given.device,
        processes=given.processes,
        journal=given.journal.with_suffix(".zoo.ndjson"),
        resume=given.resume,
        say=say,
        limit_s=limit_s,
        isolated=False,  # they are our own, and truths are made once for all of a problem
    )


def summary(mutants: Sequence[Row], pairs: Sequence[GateRow]) -> dict[str, Any]:
    """Return the counts by policy: of mutants by what the operator's types say, of pairs."""
    by_own: dict[str, Counter[str]] = {}
    for one in mutants:
        if not one.error:
            cell = by_own.setdefault(one.own, Counter())
            cell.update({"operators": 1, "mutants": one.mutants, **one.killed})
    planted: dict[str, dict[str, int]] = {}
    for pair in pairs:
        cell = Counter(planted.get(pair.precision, {}))
        cell.update({pair.kind: 1, f"{pair.kind} rejected": pair.decision == "REJECTED"})
        planted[pair.precision] = dict(cell)
    return {
        "mutants": {own: dict(counts) for own, counts in by_own.items()},
        "zoo": planted,
        "operators": [asdict(one) for one in mutants],
        "pairs": [asdict(one) for one in pairs],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the counts and save them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--profile", default="quick", choices=[p.value for p in Profile])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--device", default=cuda_or_cpu())
    parser.add_argument("--time-limit", type=float, default=0.0, help="seconds for all; 0: none")
    parser.add_argument("--resume", action="store_true", help="keep what the last run finished")
    parser.add_argument("--sample", type=int, default=0, help="so many pairs at random; 0: all")
    parser.add_argument("--parts", nargs="*", default=["catalogue", "zoo"])
    parser.add_argument("--journal", type=Path, default=ROOT / "build" / "power-policies")
    given = parser.parse_args(arguments)
    os.environ["CUASSAY_HOME"] = tempfile.mkdtemp(prefix="cuassay-power-")
    deadline = time.monotonic() + (given.time_limit or 1e9)
    share = 0.6 if len(given.parts) > 1 else 1.0  # of the time, for the catalogue
    half = time.monotonic() + share * (given.time_limit or 1e9)
    mutants = catalogue(given, half) if "catalogue" in given.parts else []
    left_s = deadline - time.monotonic()
    pairs = zoo(given, left_s) if "zoo" in given.parts else []
    found = summary(mutants, pairs)
    print(found["mutants"], found["zoo"])
    print(save("power-policies", found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
