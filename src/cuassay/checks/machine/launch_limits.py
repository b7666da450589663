"""LAUNCH101: what a kernel launches at the declared sizes is what CUDA accepts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.machine.declared_sizes import without_memory
from cuassay.checks.machine.faults import MachineCheck
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.state.answers import placed
from cuassay.errors import NothingToCheckError, ProblemError
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault
from cuassay.model.outcome import Finding, Severity, Where
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Outline
from cuassay.model.trace import ScenarioResult, done_steps


class Launch101(MachineCheck):
    """Launches fit CUDA at the declared sizes

    What it does
        Calls the kernel's host code at the sizes that the workloads list, and with each axis at the
        largest size that the problem declares while the others are small, on tensors that have a
        shape and an address and take no memory. Nothing is executed: the extents of the
        launches are held against CUDA's limits.

    Why it matters
        Rows on `blockIdx.y` are right up to 65,535 of them. One more and CUDA refuses the launch,
        which nobody may look at: the result is what the memory held before.

    How it decides
        A grid, a block or shared memory that no GPU accepts rejects: 2^31 - 1, 65,535 and 65,535
        blocks, 1,024 threads, 1,024 x 1,024 x 64 of them, 227 KiB.

    Can it be wrong?
        Host code that asks for a number out of a tensor ends there. Only sizes that are listed or
        declared are asked, one axis at a time. What a kernel's registers or its launch bounds
        refuse is found where it runs.

    Example
        "row_scale: a grid of (1, 1048576, 1), at rows = 1048576, cols = 1".

    Options
        --profile: quick tries 4 sizes, standard 8, deep 16. On a GPU the declared sizes run.
    """

    code = "LAUNCH101"
    title = "Launches fit CUDA at the declared sizes"
    cause = Cause.LAUNCH_FAILED
    classes = ("M6",)
    severity = Severity.CRITICAL
    judges_failures = True  # no call is meant for tensors without memory
    kinds = frozenset()
    clean_words = "every launch is one that CUDA accepts"

    def skip(self, trial: Trial) -> str:
        """Only without a GPU, which refuses by itself."""
        if trial.device.on_gpu:
            return "a GPU refuses launches itself"
        return super().skip(trial)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call a size; its cases are a small one and the declared one."""
        small = trial.cases("small")[0]
        for sizes in _sizes(trial, small)[: trial.effort.launch_sizes]:
            yield without_memory(small, placed(small, sizes))

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report the first refused launch of each kernel."""
        items = [record.items for _, record in done_steps(scenario, run.result, Outline)]
        if not items or not items[0]:
            raise NothingToCheckError("the call without memory did not end")
        machine = trial.machine
        if machine is None:
            raise NothingToCheckError("no PTX machine here")
        found = machine.limits(run.tensor(items[0][0]))
        if not found.launches:
            why = f": {found.notes[0]}" if found.notes else ""
            raise NothingToCheckError(f"the call without memory launches nothing{why}")
        for kernel, why in found.refused:
            case = scenario.cases[1]
            yield self.finding(
                f"CUDA refuses a launch at {_named(case)}: {why}",
                scenario=scenario,
                where=Where(axes=dict(case.axes), group=kernel),
                statistic="launch",
            )

    def reports(self, fault: MachineFault) -> bool:
        """No fault of a launch that runs is this check's business."""
        return False

    def said(self, trial: Trial, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Say at which sizes launches were looked at."""
        places = "; ".join(_named(scenario.cases[1]) for scenario, _ in seen)
        return f"{self.clean_words} at {places}"


def _named(case: Case) -> str:
    return ", ".join(f"{name} = {size}" for name, size in case.axes.items())


def _sizes(trial: Trial, small: Case) -> list[dict[str, int]]:
    """Return the largest workload, then each axis at its largest, then the other workloads."""
    listed: list[dict[str, int]] = []
    bound = [workload.axes for workload in trial.problem.workloads]
    own = {axis.name: small.axes[axis.name] for axis in trial.problem.var_axes()}
    extremes = [
        {**own, axis.name: axis.maximum // axis.multiple_of * axis.multiple_of}
        for axis in trial.problem.var_axes()
        if axis.declared and axis.maximum is not None and not axis.derived and not axis.sizes
    ]
    for axes in (*bound, *extremes):
        try:
            sizes = resolve(trial.problem.axes, axes)
        except ProblemError:
            continue
        if sizes not in listed:
            listed.append(sizes)
    workloads = [sizes for sizes in listed if sizes not in extremes]
    workloads.sort(key=lambda sizes: elements_of(trial.problem, sizes), reverse=True)
    beyond = [sizes for sizes in listed if sizes not in workloads]
    return [*workloads[:1], *beyond, *workloads[1:]]
