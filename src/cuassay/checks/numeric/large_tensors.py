"""BIG001: more than 2^31 elements, judged on sampled slices."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Mapping
from math import prod

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process
from cuassay.checks.numeric.common import message, worst_statistic
from cuassay.checks.numeric.listed_sizes import odd_axes, sizes_in_words
from cuassay.checks.numeric.relation_guess import relations
from cuassay.checks.numeric.relation_members import plain_axis, take_slices
from cuassay.checks.plain_first import measured
from cuassay.errors import ProblemError
from cuassay.inputs.geometry import all_bytes, tensor_inputs
from cuassay.model.axes import resolve, shape_of
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, Severity
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.relation import RowsIndependent
from cuassay.model.scenario import Allocate, Call, Scenario
from cuassay.model.steps import ReadSlices
from cuassay.model.trace import done_steps

_LIMIT = 1 << 31
_OVER = 1 << 24  # elements beyond the limit
_SLICES = 48
_SHARE = 0.8  # of the free memory of the GPU that a case may take
_CONDITION = "large-tensors: no tensor has as many as 2^31 elements"
_COPIES = 3.5  # the candidate, the memory shared with it, the inputs and what they are drawn from


class Big001(Check):
    """More than 2^31 elements

    What it does
        Calls the kernel on tensors of more than 2^31 elements (at `deep` also more than 2^32),
        along an axis whose slices do not depend on each other, and reads back some 50 slices:
        the first, the last, those on both sides of 2^31, random ones.

    Why it matters
        An index in 32 bits wraps at 2^31 elements: 4 GiB of bfloat16, which one layer of
        logits reaches. The first rows stay right, the last ones are written elsewhere.

    How it decides
        The slices are judged against truth for those slices alone, by the statistics of
        NUM001. Wrong slices, and a call that does not return, are wrong where the problem declares
        the bounds of the axis, or a workload is as large. Where nothing is declared, no workload
        comes near such sizes, and most kernels count in 32 bits as their compiler does by default:
        then it is a condition of use. Sizes outside of declared bounds are not tried.

    Can it be wrong?
        Needs an axis with independent slices (declared, or guessed and confirmed on the
        reference), free memory for some four copies, and bounds that allow the size; else it
        does not apply, which says nothing about the kernel.

    Example
        `int i = blockIdx.x * blockDim.x + threadIdx.x` over 2^31 + 2^24 elements: illegal
        memory access, or the tail of the output never written.

    Options
        --profile standard tries 2^31, deep 2^32 as well; --require large-tensors makes the
        condition binding.
    """

    code = "BIG001"
    title = "More than 2^31 elements"
    cause = Cause.LARGE_SIZES
    classes = ("M1", "M2", "L12")
    needs = Needs(process=Process.OWN, group=Group.NONE, gpu=True)
    severity = Severity.CRITICAL
    judges_failures = True

    def skip(self, trial: Trial) -> str:
        """Return why no such size can be tried, or an empty string."""
        if not trial.effort.beyond_elements:
            return "--profile standard and deep try it"
        if any(_plans(trial)):
            return ""
        if not any(isinstance(relation, RowsIndependent) for relation in relations(trial)):
            return "no axis is known whose slices are independent"
        return "no declared size reaches 2^31 elements in the free memory of this GPU"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a size; its cases are the sampled slices and the whole."""
        yield from _plans(trial)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge how the call ended, then compare the sampled slices with truth for them."""
        few, whole = scenario.cases
        ended = termination_finding(scenario, run, problem=trial.problem)
        reads = done_steps(scenario, run.result, ReadSlices)
        compared = (one for _, read in reads for one in answers.compare(few, read.items))
        if ended is not None:
            found = self.finding(
                f"at {sizes_in_words(trial.problem, whole)}: {ended.message}",
                scenario=scenario,
                evidence=ended.evidence,
                lines=ended.lines,
            )
        elif (wrong := next((one for one in compared if not one.passed), None)) is not None:
            sizes = ", ".join(f"{name} = {size}" for name, size in whole.axes.items())
            found = self.finding(
                f"at {sizes} sampled slices are wrong: {message(wrong, worst_statistic(wrong))}",
                scenario=scenario,
                statistic="sampled slices",
                **measured(wrong, few),
            )
        else:
            return
        undeclared = {axis.name for axis in trial.problem.var_axes() if not axis.declared}
        if undeclared.intersection(odd_axes(trial.problem, whole)):
            found = found.as_condition(_CONDITION, severity=Severity.HIGH)
        yield found


def _plans(trial: Trial) -> Iterator[Scenario]:
    for target in trial.effort.beyond_elements:
        for relation in relations(trial):
            if isinstance(relation, RowsIndependent):
                made = _scenario(trial, relation.axis, target)
                if made is not None:
                    yield made
                    break


def _scenario(trial: Trial, axis: str, target: int) -> Scenario | None:
    problem = trial.problem
    if not plain_axis(problem, axis) or _axis(problem, axis) is None:
        return None
    sizes = _sizes(problem, axis, target)
    if sizes is None or not _fits(problem, sizes):
        return None
    base = trial.cases("small")[0]
    seed = trial.seed("BIG001", target)
    whole = dataclasses.replace(
        base, label=f"{axis} = {sizes[axis]}", axes=sizes, seed=seed, fills={}
    )
    outputs = [spec for spec in problem.outputs if axis in spec.shape]
    spec = max(outputs, key=lambda spec: prod(shape_of(spec.shape, sizes)))
    # Slices at both ends, around every multiple of 2^31 elements, and random ones.
    length = sizes[axis]
    per_slice = prod(shape_of(spec.shape, sizes)) // sizes[axis]
    draw = random.Random(seed)
    found = {0, 1, length - 2, length - 1}
    for limit in (_LIMIT, 2 * _LIMIT):
        middle = limit // max(per_slice, 1)
        found |= {middle - 1, middle, middle + 1}
    found |= {draw.randrange(length) for _ in range(_SLICES)}
    places = tuple(sorted(place for place in found if 0 <= place < length))
    bound = {name.name: sizes[name.name] for name in problem.var_axes()}
    few = take_slices(
        problem,
        whole,
        axis,
        rows=places,
        sizes=resolve(problem.axes, {**bound, axis: len(places)}),
        label="sampled slices",
    )
    where = spec.shape.index(axis)
    steps = (
        Allocate(slot="a", case=1),
        Call(slot="a", result="r"),
        ReadSlices(result="r", axis=where, places=places),
    )
    return Scenario(
        label=f"more than 2^{target.bit_length() - 1} elements: {axis} = {sizes[axis]}",
        cases=(few, whole),
        steps=steps,
        fresh=True,
        timeout_s=120.0,
    )


def _axis(problem: Problem, name: str) -> VarAxis | None:
    return next((axis for axis in problem.var_axes() if axis.name == name), None)


def _sizes(problem: Problem, axis: str, target: int) -> dict[str, int] | None:
    """Return a workload's sizes with `axis` so long that some tensor passes `target` elements."""
    spec = _axis(problem, axis)
    assert spec is not None
    for workload in sorted(problem.workloads, key=lambda w: -prod(w.axes.values())):
        sizes = resolve(problem.axes, workload.axes)
        specs = (*tensor_inputs(problem), *problem.outputs)
        most = max(
            (
                prod(shape_of(s.shape, sizes)) // sizes[axis]
                for s in [spec for spec in specs if axis in spec.shape]
            ),
            default=0,
        )
        if not most:
            continue
        length = -(-(target + _OVER) // most)
        length += -length % spec.multiple_of
        if spec.maximum is None or length <= spec.maximum:
            try:
                return resolve(problem.axes, {**workload.axes, axis: length})
            except ProblemError:
                continue
    return None


def _fits(problem: Problem, sizes: Mapping[str, int]) -> bool:
    """Whether inputs and outputs fit the GPU several times; all outputs must have one place."""
    import torch

    total = all_bytes(problem, sizes)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return total * _COPIES <= free * _SHARE
