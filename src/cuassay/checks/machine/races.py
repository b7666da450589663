"""RACE101: every two conflicting accesses of a launch are ordered, executed in PTX."""

from __future__ import annotations

from collections.abc import Iterable

from cuassay.checks.base import Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.machine.faults import MachineCheck, recorded_evidence
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Scenario

_SHOWN = 3
_UNORDERED = ("unordered", "missing-acquire-fence")
_ORDER = (
    "order: its results may depend on which of two strong accesses (volatile, relaxed, atomic) "
    "comes first: no fence, acquire or release orders them"
)
_FENCE_LEFT_OUT = (  # in what Triton compiles
    "order: it reaches tensor memory after a wait without tcgen05.fence::after_thread_sync, which "
    "the PTX manual asks for"
)
_WAIT_LEFT_OUT = (  # in what NVIDIA's CuTe DSL compiles
    "order: it reads registers of a tcgen05.ld without a tcgen05.wait::ld before, which the PTX "
    "manual asks for"
)
# What of tensor memory the manual asks for, and who leaves it out: no GPU has shown it to matter.
_OF_TENSOR_MEMORY = {
    "missing-tensor-fence": _FENCE_LEFT_OUT,
    "missing-tensor-wait": _WAIT_LEFT_OUT,
}


class Race101(MachineCheck):
    """conflicting accesses of different threads are ordered

    What it does
        Executes the candidate's launches in cuassay's PTX machine and keeps, for every byte of
        shared and global memory, who wrote it and who has read it since. Two accesses of different
        threads of which one writes must be ordered: by a barrier, by a warp synchronisation that
        names both lanes, by atomics of a scope that reaches both with the fences that publish what
        was written before, by an mbarrier, or by the wait of an asynchronous copy, whose bytes
        nobody may touch before; a bulk copy reads what threads wrote behind a proxy fence only.
        From `standard` on the launches also run under other schedules of blocks and warps, and
        their results are compared.

    Why it matters
        A missing barrier gives right answers thousands of times. Lanes of a warp do not run in
        lockstep since Volta, a partial sum without `__threadfence` may reach the last block late,
        and racecheck looks at shared memory alone.

    How it decides
        An unordered pair rejects, with both lines, threads and blocks. Lanes that store the same
        value to one place are advice: Triton does so by design. So is a load that races with a
        store where the launch, run again without what it loads, does the same: a copy that
        nobody uses. A result that differs between two schedules without a race, as sums by
        floating atomics do, is advice with both schedules. Volatile, relaxed and atomic accesses
        that nothing orders, though data depends on who comes first, and a read of such a value
        without a fence behind it make the condition `order`: no data race by the PTX memory
        model. `--require order` makes it binding.

    Can it be wrong?
        The order is that of happens-before in one execution: a race on a path that these inputs do
        not take is not seen, unless the outcome says that it holds for all data. Weak-memory
        reorderings are not executed; a missing fence is found as a missing order.

    Example
        "row_sum (row_sum.cu:21): write by thread (3, 0, 0) of block (0, 0, 0) and read by thread
        (35, 0, 0) of block (0, 0, 0) of the same bytes of part with nothing that orders them".

    Options
        --profile: quick runs one schedule, standard two, deep four.
    """

    code = "RACE101"
    title = "conflicting accesses of different threads are ordered"
    cause = Cause.RACE
    classes = ("C1", "C2", "C3", "C7")
    kinds = frozenset(
        {
            "race",
            "same-value-race",
            "missing-proxy-fence",
            "unordered",
            "missing-acquire-fence",
            *_OF_TENSOR_MEMORY,
        }
    )
    clean_words = "no unordered conflicting accesses"

    def condition_of(self, fault: MachineFault) -> str:
        """Return the condition of order that only fences, acquire and release would give."""
        if fault.severity == "wrong":
            return ""
        if fault.kind in _OF_TENSOR_MEMORY:
            return _OF_TENSOR_MEMORY[fault.kind]
        return _ORDER if fault.kind in _UNORDERED else ""

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report races, then memory that depends on the schedule without one."""
        found = list(super().findings(trial, scenario, run, answers))
        yield from found
        if any(finding.finding_class is FindingClass.WRONG for finding in found):
            return
        evidence = recorded_evidence(trial, scenario, run)
        for one in evidence.order[:_SHOWN]:
            yield self.finding(
                f"{one.allocation} depends on the order of blocks and warps: {one.nbytes} bytes "
                f"differ between the schedules {one.first} and {one.second}, as sums by floating "
                "atomics do",
                scenario=scenario,
                where=Where(axes=dict(scenario.cases[0].axes), output=one.allocation),
                finding_class=FindingClass.ADVICE,
                severity=Severity.LOW,
            )
