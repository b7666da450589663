"""What one check has seen so far of a candidate, and how it ends by that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cuassay.model.outcome import (
    Failed,
    Finding,
    FindingClass,
    Inconclusive,
    Outcome,
    Passed,
    Skipped,
)
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ScenarioResult
from cuassay.oracle.compare.outputs import Comparison
from cuassay.oracle.truth.outputs import AMBIGUOUS_CAP


@dataclass(slots=True)
class Tally:
    """What one check has seen so far."""

    wrong: list[Finding] = field(default_factory=list)
    unsafe: list[Finding] = field(default_factory=list)
    advice: list[Finding] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)  # not completed; the reference does
    least_decided: float = 1.0
    shared: list[str] = field(default_factory=list)
    ran: int = 0
    clean: int = 0
    aside: dict[str, str] = field(default_factory=dict)  # outputs set aside in some case, and why
    alone: set[str] = field(default_factory=set)  # those of a scenario of one case
    ambiguous: set[str] = field(default_factory=set)  # those whose elements flip in some case
    judged: set[str] = field(default_factory=set)
    seen: list[tuple[Scenario, ScenarioResult]] = field(default_factory=list)  # what passed
    declined: list[str] = field(default_factory=list)  # cases of ours that cannot be judged
    comparisons: list[Comparison] = field(default_factory=list)  # of the runs that count
    remark: str = ""
    inapplicable: str = ""  # why a run showed that the check does not apply
    cut_short: bool = False  # its allowance was spent before it had proposed everything

    def add(self, finding: Finding) -> None:
        """File a finding by its class."""
        match finding.finding_class:
            case FindingClass.WRONG:
                self.wrong.append(finding)
            case FindingClass.UNSAFE:
                self.unsafe.append(finding)
            case FindingClass.ADVICE:
                self.advice.append(finding)

    def take(self, other: Tally) -> None:
        """Add what was seen of another scenario; its findings are added by themselves."""
        self.undecided += other.undecided
        self.withheld += other.withheld
        self.shared += other.shared
        self.declined += other.declined
        self.seen += other.seen
        self.ran += other.ran
        self.clean += other.clean
        self.aside = other.aside | self.aside
        self.alone |= other.alone
        self.ambiguous |= other.ambiguous
        self.judged |= other.judged
        self.comparisons += other.comparisons
        self.inapplicable = self.inapplicable or other.inapplicable

    def weigh(self, comparisons: Sequence[Comparison], *, cases: int) -> None:
        """Note which outputs a scenario judged and which it set aside as ill-conditioned.

        Several cases set none aside for good: each of them says only part of it.
        """
        self.comparisons += comparisons
        for comparison in comparisons:
            if not comparison.undecided:
                self.judged.add(comparison.output)
                continue
            self.aside.setdefault(comparison.output, comparison.undecided)
            if cases == 1:
                self.alone.add(comparison.output)
            if comparison.ambiguous_share > AMBIGUOUS_CAP:
                self.ambiguous.add(comparison.output)

    @property
    def too_little(self) -> str:
        """Why the candidate let too little be decided for a pass, or an empty string."""
        decided = max(0, self.ran - len(self.withheld))
        if not self.withheld or decided >= self.least_decided * self.ran:
            return ""
        count = f"{len(self.withheld)} of {self.ran} scenarios that the reference completes"
        return f"the candidate did not complete {count}: {self.withheld[0]}"

    @property
    def never_judged(self) -> dict[str, str]:
        """The outputs that were set aside in every case, and why."""
        return {o: why for o, why in self.aside.items() if o in self.alone - self.judged}

    def outcome(self) -> Outcome:
        """Return how the check ended."""
        if self.wrong or self.unsafe:
            return Failed(findings=(*self.wrong, *self.unsafe))
        if self.too_little:
            return Inconclusive(reason=self.too_little)
        # What is rounding alone was held to an error beyond reason: a condition, beside outputs
        # that were judged. Of elements that flip not even that is known.
        never = [w for o, w in self.never_judged.items() if not self.judged or o in self.ambiguous]
        if never and self.clean:
            return Inconclusive(reason=f"an output was set aside in every case: {never[0]}")
        if self.inapplicable and not self.clean and not self.undecided:
            return Skipped(reason=self.inapplicable, applicable=False)
        if self.declined and not self.clean and not self.undecided and not self.shared:
            reason = f"the reference takes none of the inputs that were tried: {self.declined[0]}"
            return Skipped(reason=reason, applicable=False)
        notes = [f"the reference fails it too: {text}" for text in self.shared]
        notes += self.undecided + self.withheld
        if self.cut_short and not self.ran:
            return Skipped(reason="the reference takes longer than a check of this profile may")
        if not self.clean:
            return Inconclusive(reason=notes[0] if notes else "no scenario could be judged")
        summary = f"{self.clean} scenario{'s' if self.clean != 1 else ''}"
        if self.remark:
            summary += f"; {self.remark}"
        if self.cut_short:
            summary += "; no time for the others"
        if notes:
            summary += f"; {len(notes)} decided nothing ({notes[0]})"
        for output, why in self.aside.items():
            where = "every case" if output in self.never_judged else "some"
            summary += f"; output '{output}' was set aside in {where} ({why})"
        return Passed(summary=summary)
