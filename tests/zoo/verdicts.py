"""The zoo's pairs as trials of the gate: two halves for two processes, a problem at a time.

One after another, the candidates of a problem share its truths: twins make them; bugs, whose
trial ends with their first finding, find them made. A bug goes through the checks that must
report it, its twin through every check of their families: those that stand in the same folder of
`cuassay.checks` and have a failure class of the same letter as the bug. Of the PTX machine's there
are none: it executes kernels in Triton here, seconds for each check, so that their twins meet the
checks of their bugs alone.
Where these look at values of calls alone, the candidate runs in this process, which a wrong
number cannot harm: two or three processes a trial take as long as the rest of it.
What repeats calls until a clock ends it has a tenth of its time for a twin: what it looks for is in
bugs, for which it has all of it. `make power` judges every bug and twin by all checks, in
processes of their own, for as long as a trial does.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from cuassay.checks.base import Check
from cuassay.checks.needs import Group
from cuassay.checks.registry import all_checks
from cuassay.model.effort import Effort
from cuassay.model.verdict import Profile
from tests.support.few_calls import give_little_time
from tests.zoo.judging import Gate
from tests.zoo.local_gate import InProcess
from tests.zoo.manifest import PAIRS, Pair, load

# What only `deep` can show takes too long here: `make power` with --profile deep has it.
TWINS = [pair for pair in PAIRS if not pair.needs_gpu]
BUGS = [pair for pair in TWINS if pair.since is not Profile.DEEP]
# Checks that hold what plain calls return against truth, and nothing else: those of two families,
# and two of a third. Others lay read-only pages and guard zones, which can end a process.
_OF_VALUES = frozenset(("numeric", "gradients", "API003", "LAYOUT001"))
_ENDING = frozenset(("hard_exit",))  # for some shapes it ends its process


def family(check: Check) -> str:
    """Return the name of the folder that a check stands in."""
    return type(check).__module__.rsplit(".", 2)[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A pair's planted bug, or its correct twin."""

    pair: Pair
    planted: bool

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks that judge it, in running order.

        NUM001 is one for a twin, and where policies of precision decide on what it saw. It is one
        for a bug that shows where no check has its code: as it is built or ends its process.
        """
        codes, known = {*self.pair.codes}, {check.code for check in all_checks()}
        if not self.planted or "NUM003" in codes or codes.isdisjoint(known):
            codes.add("NUM001")
        if not self.planted and not self.pair.triton:
            folders = {family(check) for check in all_checks() if check.code in self.pair.codes}
            letters = {of[0] for of in self.pair.classes}
            codes |= {
                check.code
                for check in all_checks()
                if family(check) in folders
                and not letters.isdisjoint(of[0] for of in check.classes)
                and check.needs.group is not Group.MACHINE
            }
        return tuple(check.code for check in all_checks() if check.code in codes)

    @property
    def here(self) -> bool:
        """Whether it is judged in this process."""
        if self.pair.triton or self.pair.name in _ENDING or "BUILD001" in self.pair.codes:
            return False
        judging = [check for check in all_checks() if check.code in self.checks]
        return all(not _OF_VALUES.isdisjoint((check.code, family(check))) for check in judging)

    def __str__(self) -> str:
        return f"{self.pair.name}-{'bug' if self.planted else 'twin'}"


def program(pair: Pair) -> tuple[str, ...]:
    """Return what makes the trial of a pair's twin: the problem, and its code without comments."""
    module = ast.parse(pair.twin.read_text(encoding="utf-8"))
    return pair.problem, pair.since, ast.dump(ast.Module(module.body[1:], []))  # no docstring


def one_a_program(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs whose twins are different programs: pairs of one program as one, with all codes
    and failure classes.

    Under one seed a check asks a program the same twice: once is as good.
    """
    found: dict[tuple[str, ...], Pair] = {}
    for pair in pairs:
        first = found.setdefault(program(pair), pair)
        found[program(pair)] = replace(
            first,
            codes=tuple(dict.fromkeys(first.codes + pair.codes)),
            classes=tuple(dict.fromkeys(first.classes + pair.classes)),
            require=tuple(dict.fromkeys(first.require + pair.require)),
        )
    return list(found.values())


def half(number: int) -> list[Trial]:
    """Return half 0 or 1 of all trials, those of one problem together, twins before bugs.

    Twins that are one program are one trial.
    """
    by_problem: defaultdict[str, list[Trial]] = defaultdict(list)
    for planted, pairs in ((False, one_a_program(TWINS)), (True, BUGS)):
        for pair in sorted(pairs, key=lambda pair: (pair.since, pair.name)):
            by_problem[pair.problem].append(Trial(pair=pair, planted=planted))
    halves: tuple[list[Trial], list[Trial]] = ([], [])
    work = [0, 0]
    for trials in sorted(by_problem.values(), key=lambda trials: (-len(trials), str(trials[0]))):
        lighter = work.index(min(work))
        halves[lighter].extend(trials)
        work[lighter] += sum(4 if trial.pair.triton else 1 for trial in trials)
    return halves[number]


@contextmanager
def few_calls() -> Iterator[None]:
    """Give little time to what only a clock ends, and none to parts that do nothing.

    These are a condition of a verdict, and no twin here is asked for its conditions.
    """
    with pytest.MonkeyPatch.context() as patch:
        give_little_time(patch)
        patch.setattr(Effort, "exchange_s", type(Effort.exchange_s)(0.0, 0.0, 0.0))
        yield


def judged_rightly(trial: Trial, gate: Gate, seed: int) -> None:
    """Assert that the gate rejects a bug, for one of its reasons, and accepts a twin."""
    pair = trial.pair
    if pair.triton:
        pytest.importorskip("triton")
    problem = load(pair.problem)
    start: Any = InProcess if trial.here else None
    if trial.planted:
        finding = gate.first_finding(
            problem,
            pair.bug,
            codes=pair.codes,
            seed=seed,
            profile=pair.since,
            require=pair.require,
            only=trial.checks,
            start=start,
        )
        assert finding is not None, f"accepted at {pair.since}: CUASSAY_ZOO_SEED={seed}"
    else:
        # What only a later profile decides is not required at `quick`: nothing decides it there.
        require = pair.require if pair.since is Profile.QUICK else ()
        with few_calls():
            found = gate.judge(
                problem, pair.twin, seed=seed, require=require, only=trial.checks, start=start
            )
        assert found.accepted, str(found)
