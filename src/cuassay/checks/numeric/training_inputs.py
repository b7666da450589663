"""LOOP001: the inputs that a training run makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import comparison_finding, single_call
from cuassay.checks.state.answers import reads_of
from cuassay.errors import missing_extra
from cuassay.model.case import TRAINING
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.parts import Part, is_installed


class Loop001(Check):
    """Numbers on the states of a training run

    What it does
        Trains a small real transformer on the Python standard library's source with trusted
        kernels, and calls the kernel on what its place in the model sees at several steps: real
        token counts, real activations, real upstream gradients. Every output is compared with
        a float64 truth on those very inputs.

    Why it matters
        Text repeats its tokens: one of them is a seventh of all. Gradients of one row keep
        their sign, probabilities come close to 1, gradients become small. Kernels that are
        right on drawn inputs go wrong on these, and the training run goes wrong with them.

    How it decides
        As NUM001 does: four statistics of error over achievable error, over the whole tensor,
        every slice, and rows by how often they are hit. What a kernel does to a whole run, the
        losses beside trusted ones, is told by `cuassay loop train`.

    Can it be wrong?
        The reference goes through the same states first. A small model on two thousand
        lines of text is no large model on the web; what needs a hundred steps to build up
        is left to `cuassay loop train`.

    Example
        An embedding gradient that sums frequent tokens in bfloat16.

    Options
        --profile standard looks at 3 steps, deep at 16 over two kinds of data, quick at none.
    """

    code = "LOOP001"
    title = "Numbers on the states of a training run"
    cause = Cause.TRAINING
    classes = ("L1", "L4", "N1")
    needs = Needs(group=Group.LOOPS)
    purpose: ClassVar[str] = TRAINING

    def skip(self, trial: Trial) -> str:
        """Return why there are no states to look at, or an empty string."""
        if trial.profile is Profile.QUICK:
            return "runs from the standard profile on"
        if not is_installed(Part.LOOP_STATES):
            return f"{missing_extra('cuassay-loops', Part.LOOP_STATES.extra)}"
        if not trial.cases(self.purpose):
            return f"the operator has no place in the model's {self.purpose} loop at its sizes"
        return ""

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call a state."""
        for case in trial.cases(self.purpose):
            yield single_call(case, label=case.label)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare the outputs of one call with truth."""
        for read in reads_of(scenario, run):
            for comparison in answers.compare(read.case, read.items):
                if not comparison.passed:
                    yield comparison_finding(
                        self, trial, scenario, read.case, comparison, lead=f"in {read.case.label}"
                    )
