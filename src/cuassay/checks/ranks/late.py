"""RANK001: ranks that are late, payloads that change, groups at once: right whoever waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.gpu.chances import unseen_bound
from cuassay.checks.gpu.devices import gpu_count
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.common import message, worst_statistic
from cuassay.checks.plain_first import measured
from cuassay.checks.ranks.cases import of_each_count
from cuassay.checks.state.answers import placed, reads_of, reseeded
from cuassay.inputs.geometry import legal, try_sizes
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.ranks import AXIS
from cuassay.model.reports import Grouped
from cuassay.model.scenario import Allocate, ReadResult, Scenario, call_steps
from cuassay.model.steps import CallRanks, Issued, Moments
from cuassay.model.trace import ScenarioResult, done_steps

_BUSY_MS = 20.0  # of other work on the GPU before a late call
_IN_TURN = "groups: two groups of ranks at once were not tried: the kernel takes no `group`"


class Rank001(Check):
    """Right whichever rank is late

    What it does
        Lets each rank make several calls in a row. No rank waits for another between its calls,
        and each writes new values into its inputs as soon as its own call returns. One rank
        after the other is late: it goes on when the others wait for it, or after a delay. On a
        CPU, or a GPU that ranks share, asynchronous collectives work at once, or as late as they
        may, or fill their tensors before others read them. Results are read when all calls are
        over. Then two groups make calls at the same time. On a GPU each rank works on a side stream
        at last: other work, the writing of its inputs, the call and a copy of the result.

    Why it matters
        A missing wait, a buffer that is written again before all have read it, and a flag of
        the call before are right as long as all ranks arrive together. One rank that loads
        data shows them in production.

    How it decides
        Every result must be right for its own call. A number that is as wrong where the call is
        alone is not blamed on late ranks. Ranks that wait for one another reject, with who waits
        for whom. A kernel without a parameter `group` makes the calls of two
        groups one after another, which is a condition.

    Can it be wrong?
        On a CPU the ranks have cuassay's own process group: its collectives read their tensors
        and fill them at the first or the last moment that torch.distributed allows. A kernel
        that needs another order stays unseen. So it is where ranks share a GPU. Where each has
        its own they have NCCL, and delays alone bring an order about: the report says which
        faults so many calls can miss.

    Example
        A part that is used before `wait()`: "wrong in call 1 where rank 0 is late".

    Options
        --profile: quick lets the first and the last rank be late, standard and deep each one.
        --require groups makes two groups at once binding.
    """

    code = "RANK001"
    title = "Right whichever rank is late"
    cause = Cause.RANKS
    classes = ("C3", "C6", "S1")
    ranks = True
    worth = 2.0  # of a call that ranks share it decides what no other check does
    needs = Needs(when=When.DECISIVE, group=Group.RANKS)

    def skip(self, trial: Trial) -> str:
        """Return that one process makes a call, where it does."""
        return "" if trial.problem.ranks is not None else "a call has one rank"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the calls in a row: nobody late, each rank late, two groups."""
        for base in of_each_count(trial):
            count = base.axes[AXIS]
            cases = _calls(trial, base)
            lates = range(count) if trial.effort.late_ranks else (0, count - 1)
            yield _in_a_row(cases, refill=False, late=None, moments=Moments.LATE)
            for moments in Moments:
                for late in lates:
                    yield _in_a_row(cases, refill=True, late=late, moments=moments)
        for base in of_each_count(trial):
            yield _two_groups(_calls(trial, base))
        if trial.device.on_gpu:
            for base in of_each_count(trial):
                cases = _calls(trial, base)
                slots = tuple(chr(ord("a") + number) for number in range(len(cases)))
                step = CallRanks(
                    slots=(slots,),
                    results=(tuple(f"r{slot}" for slot in slots),),
                    busy_ms=_BUSY_MS,
                    issued=Issued.ON_SIDE_STREAM,
                )
                yield _scenario(f"{cases[0].axes[AXIS]} ranks, each on a side stream", cases, step)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame the first call that is wrong."""
        judged = [(read, answers.first_wrong(read)) for read in reads_of(scenario, run)]
        wrong = [(read, one) for read, one in judged if one is not None]
        if wrong:
            read, worst = wrong[0]
            yield self.finding(
                f"wrong in call {read.call} of {len(judged)}: {scenario.label}; "
                f"{message(worst, worst_statistic(worst))}",
                scenario=scenario,
                statistic="worst of the calls",
                # Where every call is wrong, the numbers may be so whoever is late.
                **measured(worst, read.case)
                | {"cause": self.cause if len(wrong) < len(judged) else None},
            )
            return
        for step, record in done_steps(scenario, run.result, CallRanks):
            match record.report:
                case Grouped(together=False) if len(step.slots) > 1:
                    yield self.finding(
                        "two groups of ranks cannot be at work at once: the kernel takes no "
                        "`group`; add the parameter group=None and pass it to each collective",
                        scenario=scenario,
                        cause=None,
                        finding_class=FindingClass.UNSAFE,
                        severity=Severity.LOW,
                        condition=_IN_TURN,
                    )

    def controls(self, trial: Trial, scenario: Scenario, finding: Finding) -> Sequence[Scenario]:
        """Return each call alone, with collectives at once; none where NCCL has its own order."""
        if finding.cause is not self.cause or scenario.cases[0].axes[AXIS] <= gpu_count():
            return ()
        return [
            _in_a_row([case], refill=False, late=None, moments=Moments.EARLY)
            for case in scenario.cases
        ]

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Return how many calls were made and what they could have shown."""
        steps = [step for scenario, _ in seen for step in scenario.steps]
        calls = sum(
            len(slots) for step in steps if isinstance(step, CallRanks) for slots in step.slots
        )
        rare = 1 / unseen_bound(calls)
        return f"{calls} calls with a late rank: 99 % sure to meet a fault of one in {rare:.0f}"


def _calls(trial: Trial, base: Case) -> tuple[Case, ...]:
    """Return the cases of calls in a row: other values, other sizes, then the first sizes again."""
    problem = trial.problem
    seeds = [trial.seed("RANK001", base.label, number) for number in range(4)]
    cases = [reseeded(base, label=f"call {n + 1}", seed=seed) for n, seed in enumerate(seeds)]
    for axis in problem.var_axes():
        size = base.axes[axis.name]
        sizes = try_sizes(problem, base.axes, {axis.name: size + axis.multiple_of})
        if axis.name == AXIS or sizes is None or not legal(problem, sizes):
            continue
        larger = trial.settled(placed(cases[2], sizes))
        if larger is not None:
            cases[2] = larger
            break
    return tuple(cases)


def _in_a_row(
    cases: Sequence[Case], *, refill: bool, late: int | None, moments: Moments
) -> Scenario:
    slots = tuple(chr(ord("a") + number) for number in range(len(cases)))
    count = cases[0].axes[AXIS]
    who = "no rank late" if late is None else f"rank {late} late"
    step = CallRanks(
        slots=(slots,),
        results=(tuple(f"r{slot}" for slot in slots),),
        late=late,
        moments=moments,
        refill=refill,
        busy_ms=_BUSY_MS if moments is Moments.LATE and late is not None else 0.0,
    )
    return _scenario(f"{count} ranks, {who}, collectives {moments.value}", cases, step)


def _two_groups(cases: Sequence[Case]) -> Scenario:
    first, second = ("a", "c"), ("b", "d")
    step = CallRanks(slots=(first, second), results=(("ra", "rc"), ("rb", "rd")), late=0)
    # Calls of two groups that run at once have the sizes of the first.
    alike = [replace(one, axes=cases[0].axes) for one in cases]
    made = _scenario(f"two groups of {cases[0].axes[AXIS]} ranks", alike, step)
    # A kernel that is wrong in one group alone is not wrong by the other. Its inputs are new ones:
    # a call before may have written into the others, which is API001's to say.
    return replace(made, steps=(*made.steps, *call_steps("alone", 0, "alone")))


def _scenario(label: str, cases: Sequence[Case], step: CallRanks) -> Scenario:
    slots = tuple(chr(ord("a") + number) for number in range(len(cases)))
    return Scenario(
        label=label,
        cases=tuple(cases),
        steps=(
            *(Allocate(slot=slot, case=number) for number, slot in enumerate(slots)),
            step,
            *(ReadResult(result=f"r{slot}") for slot in slots),
        ),
    )
