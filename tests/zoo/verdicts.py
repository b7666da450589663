"""The zoo's pairs as trials of the gate: two halves for two processes, a problem at a time.

One after another, the candidates of a problem share its truths: twins, which go through every
check, make them; bugs, whose trial ends with their first finding, find them made.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import pytest

from cuassay.model.verdict import Profile
from tests.zoo.judging import Gate
from tests.zoo.manifest import PAIRS, Pair, load

# What only `deep` can show takes too long here: `make power` with --profile deep has it.
TWINS = [pair for pair in PAIRS if not pair.needs_gpu]
BUGS = [pair for pair in TWINS if pair.since is not Profile.DEEP]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A pair's planted bug, or its correct twin."""

    pair: Pair
    planted: bool

    def __str__(self) -> str:
        return f"{self.pair.name}-{'bug' if self.planted else 'twin'}"


def half(number: int) -> list[Trial]:
    """Return half 0 or 1 of all trials, those of one problem together, twins before bugs."""
    by_problem: defaultdict[str, list[Trial]] = defaultdict(list)
    for planted, pairs in ((False, TWINS), (True, BUGS)):
        for pair in sorted(pairs, key=lambda pair: (pair.since, pair.name)):
            by_problem[pair.problem].append(Trial(pair=pair, planted=planted))
    halves: tuple[list[Trial], list[Trial]] = ([], [])
    work = [0, 0]
    for trials in sorted(by_problem.values(), key=lambda trials: (-len(trials), str(trials[0]))):
        lighter = work.index(min(work))
        halves[lighter].extend(trials)
        work[lighter] += sum(4 if trial.pair.triton else 1 for trial in trials)
    return halves[number]


def judged_rightly(trial: Trial, gate: Gate, seed: int) -> None:
    """Assert that the gate rejects a bug, for one of its reasons, and accepts a twin."""
    pair = trial.pair
    if pair.triton:
        pytest.importorskip("triton")
    problem = load(pair.problem)
    if trial.planted:
        finding = gate.first_finding(
            problem,
            pair.bug,
            codes=pair.codes,
            seed=seed,
            profile=pair.since,
            require=pair.require,
            only=pair.checks,
        )
        assert finding is not None, f"accepted at {pair.since}: CUASSAY_ZOO_SEED={seed}"
    else:
        found = gate.judge(problem, pair.twin, seed=seed, require=pair.require, only=pair.checks)
        assert found.accepted, str(found)
