"""RANK002: every number of ranks, uneven and empty parts, the same bits where ranks agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.common import comparison_finding, single_call
from cuassay.checks.ranks.cases import of_each_count
from cuassay.checks.state.answers import Read, placed, reads_of
from cuassay.inputs.geometry import legal, try_sizes
from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Cause
from cuassay.model.domain import Index, Lengths
from cuassay.model.outcome import Finding, Severity, Where
from cuassay.model.problem import TensorSpec
from cuassay.model.ranks import AXIS
from cuassay.model.scenario import Scenario


class Rank002(Check):
    """All ranks are right, with parts of any size

    What it does
        Calls the kernel with every number of ranks that the problem declares. Axes that are
        cut in parts have a remainder, fewer elements than ranks, and one element. Where an
        input says which rank gets what, one rank gets all and the others nothing. The results
        of all ranks are held against truth. An output that every rank returns is compared
        among the ranks, bit by bit.

    Why it matters
        Kernels are written for equal parts and two ranks. A rank without rows skips a
        collective and the others wait for ever. Ranks whose sums differ in the last bit choose
        different tokens, and drift apart.

    How it decides
        Every rank's result must be right. An output without the axis `ranks` is one tensor:
        all ranks must hold the same bits of it, as an all_reduce promises.

    Can it be wrong?
        A problem that lets ranks differ in the last bits declares the output as each rank's
        own, with the axis `ranks`. Sizes that the problem does not allow are not tried.

    Example
        A one-shot all_reduce that adds its own part first: "ranks 0 and 1 hold different bits
        of 'y' in 12 of 64 elements".

    Options
        None.
    """

    code = "RANK002"
    title = "All ranks are right, with parts of any size"
    cause = None
    classes = ("C6", "C9")
    ranks = True
    worth = 2.0  # of a call that ranks share it decides what no other check does
    needs = Needs(when=When.DECISIVE, group=Group.RANKS)

    def skip(self, trial: Trial) -> str:
        """Return that one process makes a call, where it does."""
        return "" if trial.problem.ranks is not None else "a call has one rank"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call for each number of ranks and kind of parts."""
        for case in of_each_count(trial):
            for one in (case, *_uneven(trial, case), *_to_one(trial, case)):
                yield single_call(one, label=f"{case.axes[AXIS]} ranks: {one.label}")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare with truth, then the ranks among each other."""
        for read in reads_of(scenario, run):
            wrong = answers.wrong(read)
            for comparison in wrong:
                yield comparison_finding(
                    self, trial, scenario, read.case, comparison, lead=scenario.label
                )
            if not wrong:
                yield from self._apart(trial, scenario, run, read)

    def _apart(self, trial: Trial, scenario: Scenario, run: Run, read: Read) -> Iterator[Finding]:
        """Yield the outputs of which two ranks hold different bits."""
        import torch

        from cuassay.oracle.bits import raw_bytes

        assert trial.problem.ranks is not None
        for spec, item in zip(trial.problem.outputs, read.items, strict=True):
            if spec.name not in trial.problem.ranks.agreed or item.buffer < 0:
                continue
            first, *others = [one.contiguous() for one in run.tensor(item)]
            for rank, other in enumerate(others, start=1):
                if torch.equal(raw_bytes(first), raw_bytes(other)):
                    continue
                differing = int((first != other).sum())
                yield self.finding(
                    f"ranks 0 and {rank} hold different bits of '{spec.name}' in {differing} of "
                    f"{first.numel()} elements; every rank must hold the same result: add in one "
                    "order on all ranks, or declare the output with the axis 'ranks'",
                    scenario=scenario,
                    where=Where(output=spec.name, axes=dict(read.case.axes)),
                    cause=Cause.NOT_DETERMINISTIC,
                    severity=Severity.HIGH,
                )
                break


def _uneven(trial: Trial, case: Case) -> Iterator[Case]:
    """Yield the case with parts that are not equal, of every axis that is cut in parts."""
    problem, count = trial.problem, case.axes[AXIS]
    assert problem.ranks is not None
    specs = [*(one for one in problem.inputs if isinstance(one, TensorSpec)), *problem.outputs]
    cut = {one.shape[0] for one in specs if one.name in problem.ranks.split}
    for axis in problem.var_axes():
        if axis.name not in cut:
            continue
        for size in (2 * count + 1, count - 1, 1):
            sizes = try_sizes(problem, case.axes, {axis.name: size})
            if sizes is None or not legal(problem, sizes):
                continue
            label = f"{axis.name}={size} in parts"
            found = trial.settled(replace(placed(case, sizes), label=label))
            if found is not None:
                yield found


def _to_one(trial: Trial, case: Case) -> Iterator[Case]:
    """Yield the case with all for rank 0, by each input that says which rank gets what."""
    for spec in trial.problem.inputs:
        match spec.domain:
            case Index(axis=axis, unique=False) if axis == AXIS:
                fill = Fill(kind="single_hot", parameters={"row": 0})
            case Lengths(low=0):
                fill = Fill(kind="zeros")
            case _:
                continue
        yield replace(
            case, label=f"'{spec.name}' is {fill.kind}", fills={**case.fills, spec.name: fill}
        )
