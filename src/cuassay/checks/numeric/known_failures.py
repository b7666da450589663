"""KNOWN001: inputs on which a kernel for the same problem failed before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.numeric.common import single_call
from cuassay.checks.numeric.listed_sizes import sizes_in_words
from cuassay.checks.one_call import judge_one_call
from cuassay.model.outcome import Finding
from cuassay.model.scenario import Scenario


class Known001(Check):
    """Inputs that failed before

    What it does
        Calls the kernel on the smallest failing inputs that earlier trials kept for the same
        problem: up to eight of the same candidate file, and a few of other candidates.

    Why it matters
        A fault that was found once comes back with the next attempt at a repair, and kernels
        of one operator share their faults. Trying those inputs first costs little.

    How it decides
        As NUM001 does: numbers beyond the achievable error are wrong.

    Can it be wrong?
        The inputs are kept with their seeds, so they are not secret: passing them proves
        little, and all other checks draw fresh ones. A problem whose text changed starts
        with nothing kept.

    Example
        An embedding gradient repaired for one hot row still fails on the two-hot input that
        rejected the previous version.

    Options
        The files are in the folder `failures` of $CUASSAY_HOME; deleting it forgets them.
    """

    code = "KNOWN001"
    title = "Inputs that failed before"
    ranks = True
    classes = ("N4", "O1", "O3", "O7")
    grades = True
    judges_failures = True

    def skip(self, trial: Trial) -> str:
        """Return that nothing is kept for this problem, or an empty string."""
        return "" if trial.cases("known") else "no failure of this problem was kept"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call per kept case."""
        for case in trial.cases("known"):
            yield single_call(case, label=f"known: {case.label}")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge how the call ended, then its numbers."""
        sizes = sizes_in_words(trial.problem, scenario.cases[0])
        lead = f"at {sizes}, where an earlier trial failed"
        yield from judge_one_call(self, trial, scenario, run, answers, lead=lead)
