"""BIG002: addresses at the declared sizes, where those are too large to execute."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from cuassay.checks.base import Run, Trial
from cuassay.checks.endings.findings import exception_text, first_raised
from cuassay.checks.judgement import Answers
from cuassay.checks.machine.faults import MachineCheck, machine_cases
from cuassay.checks.numeric.listed_sizes import elements_of, odd_axes, sizes_in_words
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.inputs.geometry import tensor_bytes, tensor_inputs
from cuassay.inputs.growing import Way, ways
from cuassay.model.axes import shape_of
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.machine import REFUSED, WRAPPED, MachineFault
from cuassay.model.outcome import Finding
from cuassay.model.problem import Problem
from cuassay.model.scenario import Allocate, Scenario
from cuassay.model.steps import Outline
from cuassay.model.trace import ScenarioResult, done_steps

_LARGE_ELEMENTS = 1 << 16  # of inputs and outputs: the least that is worth a call
_MOST_BYTES = 1 << 37  # of one tensor: what the machine has addresses for
_COUNTED = (1 << 32) - 1  # elements of one tensor: a thread for each, the machine counts no more


class Big002(MachineCheck):
    """Addresses at the declared sizes

    What it does
        Calls the kernel's host code at the largest sizes that the problem declares or lists, on
        tensors that have a shape and an address and take no memory: the largest listed call, all
        axes at their maxima, each axis alone, and each input once as a part of a tensor three times
        as wide. Inputs of indices get memory, and their largest legal values. Of each launch that
        it makes there the PTX machine runs some 20 blocks: the first and the last, those where a
        count of elements passes a power of two, and some between.

    Why it matters
        `i += stride` in an int passes 2^31 only where the tensor is large: every small size is
        right. A grid has at most 65,535 blocks along y and z. A CPU has neither the time nor the
        memory for such a size, and a benchmark's own size is where the kernel is used.

    How it decides
        An access outside of the tensor that its pointer was made from rejects, with its line,
        thread and distance, and so does a launch that no GPU accepts. For an axis without declared
        bounds that holds at its listed sizes alone. Where only a part of a wider tensor shows it,
        it is the condition `layouts`. Only accesses count on which no tensor's numbers have a say;
        indices are no such numbers.

    Can it be wrong?
        Blocks that do not run may be wrong. What a wrapped index does inside of its own tensor
        is not seen. Host code that asks for a number out of a tensor ends there. Tensors of more
        than 128 GiB are not judged: sizes are smaller then, and the verdict's scope says so.

    Example
        "gelu (gelu.cu:6): ld.global.f32 reads 4 bytes at byte -8589934592 of buffer 'x'".

    Options
        --profile: quick tries sizes for 6 s, standard for 15, deep for 90, at least one each. On a
        GPU the declared sizes run.
    """

    code = "BIG002"
    title = "Addresses at the declared sizes"
    cause = Cause.LARGE_SIZES
    classes = ("M1", "M2", "M3", "M4")
    judges_failures = True  # no call is meant for tensors without memory
    kinds = frozenset({"out-of-bounds", "misaligned", WRAPPED, REFUSED})
    clean_words = "no access out of bounds or misaligned in the blocks that ran"

    def skip(self, trial: Trial) -> str:
        """Only where there is no GPU, which runs the sizes themselves."""
        if trial.device.on_gpu:
            return "a GPU runs the declared sizes themselves"
        if not trial.cases("small"):
            return "no small case could be planned"
        return super().skip(trial) or ("" if _sizes(trial) else "no declared size is a large one")

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one call a size; its cases are a small one and the large one."""
        small, left_s = trial.cases("small")[0], trial.effort.declared_sizes_s
        for sizes in _sizes(trial):
            if left_s <= 0.0:
                break
            started = time.monotonic()
            yield without_memory(small, placed(small, sizes))
            left_s -= time.monotonic() - started
        wide = [s for s in tensor_inputs(trial.problem) if len(s.shape) > 1 and s.dtype.is_floating]
        for number, spec in enumerate(wide):
            if number and left_s <= 0.0:
                return
            started = time.monotonic()
            yield without_memory(small, placed(small, _sizes(trial)[0]), packed=spec.name)
            left_s -= time.monotonic() - started

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
        faults = [
            (launch, one)
            for launch, one in evidence.faults
            # How an input lies in memory has no say in which launches a GPU accepts.
            if self.reports(one) and not (one.kind == REFUSED and _packed(scenario))
        ]
        refused = [pair for pair in faults if pair[1].kind == REFUSED]
        for finding in self.found(machine, scenario, refused, case=scenario.cases[1]):
            cause = dataclasses.replace(finding, cause=Cause.REFUSES_SIZES)
            yield _held_to_contract(trial, scenario, cause)
        others = [pair for pair in faults if pair not in refused]
        for finding in self.found(machine, scenario, others, case=scenario.cases[1]):
            yield _held_to_contract(trial, scenario, finding)
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


def without_memory(small: Case, large: Case, *, packed: str = "") -> Scenario:
    """Return a call at a large size on tensors that take no memory, after one at a small size.

    The input named `packed` is a part of a wider tensor.
    """
    sizes = ", ".join(f"{name} = {size}" for name, size in large.axes.items())
    view = f", '{packed}' a part of a wider tensor" if packed else ""
    # What was recorded is kept by its cases: with this view it is another one.
    large = dataclasses.replace(large, label=large.label + view)
    return Scenario(
        label=f"without memory: {sizes}{view}",
        cases=(small, large),
        steps=(Allocate(slot="a", case=0), Outline(slot="a", case=1, packed=packed)),
        timeout_s=120.0,
    )


def _packed(scenario: Scenario) -> str:
    return next((one.packed for one in scenario.steps if isinstance(one, Outline)), "")


def _held_to_contract(trial: Trial, scenario: Scenario, finding: Finding) -> Finding:
    """Return a finding as what the contract makes of it: a fault, or a condition of use."""
    case = scenario.cases[1]
    at = sizes_in_words(trial.problem, case)
    found = dataclasses.replace(finding, message=f"at {at}: {finding.message}")
    if packed := _packed(scenario):
        return found.as_condition(
            f"layouts: at {at} an input '{packed}' that is a part of a wider tensor is addressed "
            "outside of its memory"
        )
    undeclared = {axis.name for axis in trial.problem.var_axes() if not axis.declared}
    if undeclared.intersection(odd_axes(trial.problem, case)):
        return found.as_condition(f"shapes: no such size as {at}")
    return found


def _sizes(trial: Trial) -> list[dict[str, int]]:
    """Return the sizes at which addresses are judged, the most telling first.

    All axes at their largest sizes, and where tensors have more than 2^31 elements and not yet
    2^32, the largest listed call, each axis alone, the other listed calls.
    """
    problem, small = trial.problem, trial.cases("small")[0]
    least = _LARGE_ELEMENTS if machine_cases(trial) else 0
    every = ways(problem, small.axes, fixed=trial.problem.built)
    listed = sorted((w for w in every if w.workload), key=lambda w: -w.elements)
    grown = sorted((w for w in every if not w.workload), key=lambda w: -w.elements)
    found: list[dict[str, int]] = []
    tried = [(way, False) for way in (*grown[:1], *listed[:1], *grown[1:], *listed[1:])]
    for way, counted in (*tried[:1], *((way, True) for way in grown[:1]), *tried[1:]):
        sizes = _addressable(problem, way, counted=counted)
        if sizes is not None and sizes not in found and elements_of(problem, sizes) >= least:
            found.append(sizes)
    return found


def _addressable(problem: Problem, way: Way, *, counted: bool) -> dict[str, int] | None:
    """Return the largest sizes along a way at which every tensor has addresses in the machine.

    With `counted` each tensor also has as few elements as the machine counts threads.
    """
    most = way.elements
    while most:
        sizes = way.within(most, seed=0)
        if sizes is None:
            return None
        specs = (*tensor_inputs(problem), *problem.outputs)
        # Of each input a part of a wider tensor is tried as well.
        largest = max(tensor_bytes([spec], sizes) for spec in specs) * 3
        count = max(prod(shape_of(spec.shape, sizes)) for spec in specs) if counted else 0
        if largest <= _MOST_BYTES and count <= _COUNTED:
            return sizes
        most //= 2
    return None
