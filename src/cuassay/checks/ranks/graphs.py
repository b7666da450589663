"""RANK003: calls of several ranks captured in CUDA graphs, and replayed on other values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import exception_text, first_raised, termination_finding
from cuassay.checks.gpu.devices import gpu_count
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import message, worst_statistic
from cuassay.checks.plain_first import measured
from cuassay.checks.ranks.cases import of_each_count
from cuassay.checks.state.answers import reads_of, reseeded
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.ranks import AXIS
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.model.steps import CallRanks, Issued

_SLOTS = "abcd"  # replays in a row, each with other values
_BUSY_MS = 20.0  # of other work on the GPU before a late replay
_CONDITION = "graphs: not captured in CUDA graphs"


class Rank003(Check):
    """Captured in a CUDA graph on every rank

    What it does
        Each rank captures a call in a CUDA graph on a side stream, and replays it four times in a
        row. Before each replay it writes other values into the inputs. No rank waits for another
        one between replays. Then one rank is late. The collectives are NCCL's.

    Why it matters
        Servers capture whole steps, with their all-reduces. A counter of calls on the host, which
        chooses a buffer or the value of a flag, stays as it was at the capture: a rank that is
        ahead writes where others still read.

    How it decides
        Every replay must be right for its own values. A wrong replay, a call that cannot be
        captured, and ranks that wait for one another are a condition of use. A plain call comes
        first and must be right.

    Can it be wrong?
        Each rank needs a GPU of its own: numbers of ranks beyond the GPUs are not tried. Delays
        bring orders about, and may miss one.

    Example
        A buffer that is chosen by a counter: "wrong in replay 3 of 4: 2 ranks, rank 1 late".

    Options
        --profile: quick tries the fewest ranks, standard and deep every declared number.
        --require graphs makes the condition binding.
    """

    code = "RANK003"
    title = "Captured in a CUDA graph on every rank"
    cause = Cause.GRAPH
    classes = ("S7", "C3")
    ranks = True
    needs = Needs(group=Group.RANKS)
    finding_class = FindingClass.UNSAFE
    severity = Severity.HIGH
    judges_failures = True

    def skip(self, trial: Trial) -> str:
        """Return that one process makes a call, where it does, or that there are too few GPUs."""
        if trial.problem.ranks is None:
            return "a call has one rank"
        if not trial.device.on_gpu:
            return "ranks without a GPU have no CUDA graphs"
        counts = next(axis.sizes for axis in trial.problem.var_axes() if axis.name == AXIS)
        apart = any(one <= gpu_count() for one in counts)
        return "" if apart else "ranks that share a GPU have no CUDA graphs"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield replays in a row: nobody late, then the last rank."""
        some = None if trial.effort.late_ranks else 1
        for base in islice(of_each_count(trial), some):
            if base.axes[AXIS] > gpu_count():
                break
            for late in (None, base.axes[AXIS] - 1):
                yield _replays(trial, base, late)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame the first replay that is wrong, or the capture that failed."""
        refused = first_raised(run)
        reads = reads_of(scenario, run)
        if refused is None:
            ended = termination_finding(scenario, run, problem=trial.problem)
            if ended is not None:
                yield ended
                return
        elif not isinstance(scenario.steps[refused.index], CallRanks):
            return  # a plain call that raises is RUN001's
        if not reads or answers.first_wrong(reads[0]):
            return
        if refused is not None:
            yield self.finding(
                f"cannot be captured in a CUDA graph: {exception_text(refused)}",
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes)),
                condition=_CONDITION,
                evidence=refused.traceback[-4000:],
            )
            return
        for number, read in enumerate(reads[1:], start=1):
            found = answers.first_wrong(read)
            if found is not None:
                yield self.finding(
                    f"wrong in replay {number} of {len(_SLOTS)}: {scenario.label}; "
                    f"{message(found, worst_statistic(found))}",
                    scenario=scenario,
                    condition=_CONDITION,
                    **measured(found, read.case),
                )
                return


def _replays(trial: Trial, base: Case, late: int | None) -> Scenario:
    cases = tuple(
        reseeded(base, label=f"replay {n + 1}", seed=trial.seed("RANK003", base.label, n))
        for n in range(len(_SLOTS))
    )
    who = "no rank late" if late is None else f"rank {late} late"
    step = CallRanks(
        slots=(tuple(_SLOTS),),
        results=(tuple(f"r{slot}" for slot in _SLOTS),),
        late=late,
        busy_ms=0.0 if late is None else _BUSY_MS,
        refill=True,
        issued=Issued.BY_GRAPH,
    )
    return Scenario(
        label=f"{base.axes[AXIS]} ranks, {who}",
        cases=cases,
        steps=(
            *(Allocate(slot=slot, case=number) for number, slot in enumerate(_SLOTS)),
            Call(slot="a", result="plain"),
            ReadResult(result="plain"),
            step,
            *(ReadResult(result=f"r{slot}") for slot in _SLOTS),
        ),
    )
