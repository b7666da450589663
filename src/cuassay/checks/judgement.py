"""What a check says of one run: its findings, and what it held against truth to come to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.model.precision import Precision

if TYPE_CHECKING:
    from cuassay.checks.base import Run, Trial
    from cuassay.checks.state.answers import Read
    from cuassay.model.case import Case
    from cuassay.model.outcome import Finding
    from cuassay.model.trace import ResultItem
    from cuassay.oracle.compare.outputs import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The findings of one run, and the comparisons with truth by which it was judged.

    `lowered` are the cases in the domain on which an output passed by a family of trusted kernels
    that is wider than `strict`.
    """

    findings: tuple[Finding, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    lowered: tuple[Case, ...] = ()

    @property
    def undecided(self) -> str:
        """Why no output decides anything, or an empty string: nothing is wrong, nothing right."""
        if self.findings or not all(one.undecided for one in self.comparisons):
            return ""
        return next((one.undecided for one in self.comparisons), "")


class Answers:
    """The answers of one run, held against truth; what is compared becomes part of the judgement.

    It lives for one call of `Check.judge`. With `grade` the first failure is held against families
    that the policy does not accept as well: what explains it is the kernel's grade.
    """

    def __init__(self, trial: Trial, run: Run, *, grade: bool = False) -> None:
        self._trial, self._run, self._grade = trial, run, grade
        self._compared: list[Comparison] = []
        self._lowered: list[Case] = []

    def compare(self, case: Case, items: Iterable[ResultItem]) -> tuple[Comparison, ...]:
        """Compare what a call on `case` returned with truth, one Comparison per output."""
        found = self._trial.compare(case, self._run, items, grade=self._grade)
        self._grade = self._grade and not any(map(is_wrong, found))
        if case.in_domain and any(
            one.passed and one.precision is not Precision.STRICT for one in found
        ):
            self._lowered.append(case)
        self._compared += found
        return found

    def wrong(self, read: Read, *, closely: bool = False) -> list[Comparison]:
        """Return the failed comparisons of a read; none where its case cannot decide.

        What the reference's own error or a rough truth explains is right, unless the error is to
        be seen `closely`.
        """
        if not closely:
            explained = self._trial.explains(read.case, self._run, read.items)
            if explained is not None:
                self._compared += explained
                return []
        if not self._trial.decides(read.case):
            return []
        return [one for one in self.compare(read.case, read.items) if not one.passed]

    def first_wrong(self, read: Read) -> Comparison | None:
        """Return the first failed comparison of a read, None where it is right or cannot decide."""
        return next(iter(self.wrong(read)), None)

    def is_right_for(self, case: Case, read: Read) -> bool:
        """Whether what was read is a right answer for `case`, perhaps not the one called on.

        False where any output of the case cannot decide.
        """
        if self._trial.truth(case).ill_conditioned:
            return False
        compared = self.compare(case, read.items)
        return all(comparison.passed and not comparison.undecided for comparison in compared)

    def answer_to(self, read: Read, cases: Sequence[Case]) -> Case | None:
        """Return which other case's answer a wrong read is, if it is any."""
        return next((c for c in cases if c != read.case and self.is_right_for(c, read)), None)

    def judgement(self, findings: Iterable[Finding]) -> Judgement:
        """Return the findings with all that was compared until the last of them was made."""
        made = tuple(findings)
        return Judgement(
            findings=made, comparisons=tuple(self._compared), lowered=tuple(self._lowered)
        )


def is_wrong(found: Comparison) -> bool:
    """Whether an output is wrong: neither right nor such that nothing decides it."""
    return not found.passed and not found.undecided
