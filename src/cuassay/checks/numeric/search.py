"""FUZZ001: a search for failing inputs beside the planned ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator

from cuassay.checks.base import Run, SearchingCheck, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import sizes_in_words
from cuassay.checks.one_call import judge_one_call
from cuassay.model.case import Case
from cuassay.model.outcome import Finding
from cuassay.model.scenario import Scenario

INSTALL = "Hypothesis is not installed: pip install 'cuassay[fuzz]'"


class Fuzz001(SearchingCheck):
    """Search for a failing input

    What it does
        Lets Hypothesis draw recipes: axis sizes within the domain (tile sizes, their
        multiples and neighbours often), a fill with its parameters for every input, scalars.
        It climbs toward inputs on which the kernel uses a larger share of its error budget.
        200 recipes or 15 s at `standard`, 1200 or 90 s at `deep`.

    Why it matters
        Planned cases meet the faults that somebody thought of. A kernel that is wrong only
        where the length is 64 modulo 128, or only above a magnitude, falls between them.

    How it decides
        Each recipe is one call with fresh secret seeds, judged as NUM001 judges: numbers
        beyond the achievable error are wrong at every legal size. Crashes, hangs and memory
        faults are wrong too; a size that the kernel refuses is left to SHP001. The search
        ends at the first failure, which is then shrunk; what was searched is no part of it.

    Can it be wrong?
        Every failing recipe is run on the reference too, and dropped if the reference earns
        the same finding. A search that finds nothing proves nothing about what it did not
        draw. It does not run on a kernel that fails planned cases already.

    Example
        A row sum whose last tile of 64 is skipped where the length is 64 modulo 128: found,
        and shrunk to one row of 64 with the law "only when cols mod 128 = 64".

    Options
        --profile standard|deep sets the time; `quick` does not search. --seed N searches the
        same recipes again. Needs Hypothesis: pip install 'cuassay[fuzz]'.
    """

    # The judge drives the search (judge/plan/search.py), since a generator of scenarios learns
    # nothing of what came back. All that this check adds is how one case is tried and judged,
    # so that a finding is a plain one-case scenario and replays without any search.
    code = "FUZZ001"
    title = "Search for a failing input"
    classes = ("N4", "N11", "O1", "O3", "O7", "O8")
    ranks = True
    needs = Needs(split=Split.ANY_SIDE, group=Group.SHAPES)
    grades = True
    judges_failures = True
    asks_right = True

    def skip(self, trial: Trial) -> str:
        """Return that `quick` does not search, or an empty string."""
        return "" if trial.effort.search_rounds else "the search runs at standard and deep"

    def missing(self) -> str:
        """Return how to install Hypothesis where it is absent."""
        return "" if importlib.util.find_spec("hypothesis") else INSTALL

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield nothing: the judge searches."""
        yield from ()

    def on_case(self, case: Case) -> Scenario:
        """Return one call on a searched case."""
        return single_call(case, label=f"search: {case.label}")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge how the call ended, then its numbers."""
        lead = f"at {sizes_in_words(trial.problem, scenario.cases[0])}"
        yield from judge_one_call(self, trial, scenario, run, answers, lead=lead)
