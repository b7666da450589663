"""BIG002: addresses at the declared sizes, where those are too large to execute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cuassay.checks.base import Run, Trial
from cuassay.checks.endings.findings import exception_text, first_raised
from cuassay.checks.judgement import Answers
from cuassay.checks.machine.faults import MachineCheck, machine_cases
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, NothingToCheckError, ProblemError
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import MachineFault
from cuassay.model.outcome import Finding
from cuassay.model.problem import TensorSpec
from cuassay.model.scenario import Allocate, Scenario
from cuassay.model.steps import Outline
from cuassay.model.trace import ScenarioResult, done_steps
from cuassay.model.verdict import Profile

_LARGE_ELEMENTS = 1 << 26  # of a workload's tensors: more than any case that runs on a CPU
_SIZES = {Profile.QUICK: 1, Profile.STANDARD: 3, Profile.DEEP: 8}


class Big002(MachineCheck):
    """Addresses at the declared sizes

    What it does
        Calls the kernel's host code at the largest sizes that the problem declares, on tensors
        that have a shape and an address and take no memory. Of each launch that it makes there
        the PTX machine runs some 20 blocks: the first and the last, those where a count of
        elements passes a power of two, and some between. It does so for sizes that no CPU runs,
        and where constant sizes leave no launch that the machine can execute as a whole.

    Why it matters
        `i += stride` in an int passes 2^31 only where the tensor is large: every small size is
        right. A CPU has neither the time nor the memory for such a size, and a benchmark's own
        size is where the kernel is used.

    How it decides
        An access outside of the tensor that its pointer was made from rejects, with its line,
        thread and distance. Only launches count in which no branch and no address depends on
        tensor data, for there is none.

    Can it be wrong?
        Blocks that do not run may be wrong. What a wrapped index does inside of its own tensor
        is not seen. Host code that asks for a number out of a tensor ends there. Tensors of more
        than 8 GiB, and problems whose inputs are indices, are not judged.

    Example
        "gelu (gelu.cu:6): ld.global.f32 reads 4 bytes at byte -8589934592 of buffer 'x'".

    Options
        --profile: quick tries one size, standard 3, deep 8. On a GPU the declared sizes run.
    """

    code = "BIG002"
    title = "Addresses at the declared sizes"
    cause = Cause.LARGE_SIZES
    classes = ("M1", "M2", "M3", "M4")
    judges_failures = True  # no call is meant for tensors without memory
    kinds = frozenset({"out-of-bounds", "misaligned", "address-overflow"})
    clean_words = "no access out of bounds or misaligned in the blocks that ran"

    def skip(self, trial: Trial) -> str:
        """Only where declared sizes are too large to execute, and data is not what indexes."""
        if trial.device.startswith("cuda"):
            return "a GPU runs the declared sizes themselves"
        tensors = [one for one in trial.problem.inputs if isinstance(one, TensorSpec)]
        if not all(one.dtype.is_floating for one in tensors):
            return "its inputs hold indices or masks, which a call without data has none of"
        if not _sizes(trial):
            return "no declared size is too large to execute"
        return super().skip(trial)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call a size; its cases are a small one and the declared one."""
        small = trial.cases("small")[0]
        for sizes in _sizes(trial)[: _SIZES[trial.profile]]:
            yield without_memory(small, placed(small, sizes))

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report the distinct faults of memory."""
        machine = trial.machine
        items = [record.items for _, record in done_steps(scenario, run.result, Outline)]
        if machine is None or not items or not items[0]:
            raised = first_raised(run)
            why = f": {exception_text(raised)}" if raised is not None else ""
            raise CannotJudgeError(f"the call without memory did not end{why}")
        evidence = machine.sampled(run.tensor(items[0][0]), scenario)
        faults = [(launch, one) for launch, one in evidence.faults if self.reports(one)]
        yield from self.found(machine, scenario, faults, case=scenario.cases[1])
        if faults:
            return
        if evidence.refused or (evidence.notes and not evidence.launches):
            raise CannotJudgeError(evidence.refused or evidence.notes[0])
        if not evidence.launches:
            raise NothingToCheckError("the candidate launched no kernel of its own")
        if not evidence.judged:
            raise CannotJudgeError(evidence.gap)

    def reports(self, fault: MachineFault) -> bool:
        """Whether a fault is this check's business."""
        return fault.kind in self.kinds and fault.severity == "wrong"

    def said(self, trial: Trial, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Say how many launches were judged, of how many, at which sizes."""
        machine, scenarios = trial.machine, [scenario for scenario, _ in seen]
        if machine is None or not scenarios:
            return ""
        judged, made, why = machine.launches(scenarios)
        gap = f" ({why})" if why else ""
        return f"{self.clean_words}; {judged} of {made} launches judged{gap}"


def without_memory(small: Case, large: Case) -> Scenario:
    """Return a call at a large size on tensors that take no memory, after one at a small size."""
    return Scenario(
        label=f"without memory: {', '.join(f'{k} = {v}' for k, v in large.axes.items())}",
        cases=(small, large),
        steps=(Allocate(slot="a", case=0), Outline(slot="a", case=1)),
        timeout_s=120.0,
    )


def _sizes(trial: Trial) -> list[dict[str, int]]:
    """Return the sizes of workloads that are too large to execute, the largest first.

    Those are the ones that no CPU runs, and any where other checks execute no size at all.
    """
    least = _LARGE_ELEMENTS if machine_cases(trial) else 0
    found: list[dict[str, int]] = []
    for workload in trial.problem.workloads:
        try:
            sizes = resolve(trial.problem.axes, workload.axes)
        except ProblemError:
            continue
        if elements_of(trial.problem, sizes) >= least and sizes not in found:
            found.append(sizes)
    return sorted(found, key=lambda sizes: elements_of(trial.problem, sizes), reverse=True)
