"""MEM004: values that no output depends on: behind masks, in unused rows, pages and padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.numeric.common import message, one_by_one, worst_statistic
from cuassay.checks.numeric.relation_members import own_fill, with_parameters
from cuassay.checks.plain_first import measured, with_scalars
from cuassay.checks.state.answers import placed, reads_of, reseeded
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.inputs.geometry import elements, tensor_inputs
from cuassay.model.axes import smallest_workload_axes
from cuassay.model.case import Case, FillValue
from cuassay.model.diagnosis import Cause
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.problem import TensorSpec
from cuassay.model.scenario import Scenario

if TYPE_CHECKING:
    import torch

_MOST = 8192  # places spoiled in one input
_HALVINGS = 3
_DRAWS = 5  # other values of a case, of which the most telling ones are taken
_LARGE = {
    DType.FLOAT16: 6e4,
    DType.BFLOAT16: 1e30,
    DType.FLOAT32: 1e30,
    DType.FLOAT64: 1e30,
    DType.FLOAT8_E4M3FN: 448.0,
    DType.FLOAT8_E5M2: 57344.0,
}
_INTEGERS = {DType.UINT8: 255, DType.INT8: 127, DType.INT16: 2**15 - 1}
# Of 32 and 64 bits. No multiple of it comes near a power of two: as an index of rows of any size it
# leads far away from every allocation, also where addresses wrap.
_INTEGER = 0x5A5A5A5A
_GARBAGE, _NAN, _STATED = "garbage", "nan", "anything"
Places = Mapping[str, tuple[int, ...]]


class Mem004(Check):
    """What no output depends on does not matter

    What it does
        Finds the elements of floating inputs that no output depends on: those whose gradient in
        the float64 reference is exactly zero and that leave its answer unchanged, bit for bit,
        when they are spoiled. They lie behind masks, in rows that no index names, in unused
        pages, in padding. Then the kernel is called with large numbers there, and with NaN.
        Where the problem states that something may be anything (entries of a page table beyond a
        length, rows beyond the last offset, what pads swizzled scales, inputs that are `stale`),
        that is spoiled too: integers with numbers far outside every axis.

    Why it matters
        A serving engine pads batches to captured sizes, recycles pages of its cache and keeps
        rows of finished requests: what lies there is whatever was there before. A kernel that
        masks by adding -1e4, scales by the maximum of a whole table, or multiplies such values
        by zero is right on clean test data.

    How it decides
        The right answer is the one without the spoiling, by the statistics of NUM001. A wrong
        answer with large finite numbers within the input's domain rejects, and so does one with
        what the problem states may lie there. One with NaN alone is a condition of use otherwise.
        A plain call comes first and must be right.

    Can it be wrong?
        Only elements that the reference itself is proved not to look at on that case are
        spoiled, so a kernel that agrees with it passes. References that cannot be
        differentiated are not looked at.

    Example
        `scores + (1 - mask) * -1e4`: "1e+30 behind the mask changes probabilities".

    Options
        --require padding makes the condition binding; --profile sets the cases: 2, 4 or 9.
    """

    code = "MEM004"
    title = "What no output depends on does not matter"
    cause = Cause.UNDEFINED_READ
    classes = ("M7", "L8", "L9")
    worth = 1.5  # it is cheap, and what lies behind lengths no other check spoils
    needs = Needs(when=When.DECISIVE, split=Split.ANY_SIDE, group=Group.MEMORY)
    severity = Severity.CRITICAL

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield a scenario a case that holds something which no output depends on.

        Raises NothingToCheckError where every value reaches an output.
        """
        nothing = True
        cases = list(trial.cases("small")[: trial.effort.masked_cases])
        if cases and trial.problem.workloads:
            # Where all axes are small, every page of a cache is somebody's: a workload has room.
            listed = placed(cases[0], smallest_workload_axes(trial.problem))
            cases += [listed] if listed not in cases and trial.has_room(listed) else []
        for case in cases:
            if elements(trial.problem, case.axes) > trial.effort.masked_elements:
                continue
            base = _telling(trial, case)
            found = unused(trial, base)
            if any(found.values()):
                nothing = False
                spoiled = [
                    _spoiled(trial, base, places, what) for what, places in found.items() if places
                ]
                yield Scenario(
                    label=f"padding spoiled: {base.label}",
                    cases=(base, *spoiled),
                    steps=one_by_one(range(1 + len(spoiled))),
                )
        if nothing:
            raise NothingToCheckError("every value reaches an output on the cases looked at")

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame large numbers first, then NaN."""
        reads = reads_of(scenario, run)
        if not reads or answers.first_wrong(reads[0]):
            return
        for read in reads[1:]:
            # What was spoiled does not matter: the right answer is the plain one's.
            found = answers.first_wrong(dataclasses.replace(read, case=scenario.cases[0]))
            if found is None:
                continue
            spoiled = {
                n: f.parameters for n, f in read.case.fills.items() if "spoil" in f.parameters
            }
            names = ", ".join(f"'{name}'" for name in spoiled)
            nan = any(parameters["spoil_with"] == "nan" for parameters in spoiled.values())
            stated = all("spoil_stated" in parameters for parameters in spoiled.values())
            what = "NaN" if nan else "a large number"
            text = f"{what} in elements of {names} that no output depends on changes the answer"
            if stated:
                text += ", though the problem states that they may hold anything"
            extra = measured(found, scenario.cases[0])
            if nan and not stated:
                extra |= {
                    "finding_class": FindingClass.UNSAFE,
                    "severity": Severity.MEDIUM,
                    "condition": "padding: what no output depends on must be finite",
                }
            text += f": {message(found, worst_statistic(found))}"
            yield self.finding(text, scenario=scenario, statistic="spoiled padding", **extra)
            return


def _telling(trial: Trial, case: Case) -> Case:
    """Return the case with the values that leave most unused elements beside used ones.

    Lengths, offsets and indices decide what is used. A kernel reads whole pages and tiles: what
    lies in one with used elements is what it may touch.
    """
    base = with_scalars(trial, case)
    if all(spec.dtype.is_floating for spec in tensor_inputs(trial.problem)):
        return base
    seeds = [trial.seed("padding", case.label, str(number)) for number in range(_DRAWS)]
    drawn = [base, *(reseeded(base, label=base.label, seed=seed) for seed in seeds)]
    return max(drawn, key=lambda one: _borders(trial, one))


def _borders(trial: Trial, case: Case) -> int:
    """Return how many unused elements lie beside used ones, in slices along the first axis."""
    try:
        gradients = trial.dependence(case)
    except CannotJudgeError:
        return 0
    used = [gradient != 0 for gradient in gradients.values()]
    return sum(int(one.diff(dim=axis).sum()) for one in used for axis in range(1, one.ndim))


def unused(trial: Trial, base: Case) -> Mapping[str, Places]:
    """Return, by what may lie there and by input, the places that no output depends on.

    NaN may lie in fewer: zero times it is NaN. What the problem states comes first. Where the
    reference cannot be differentiated nothing else is known.
    """
    found: dict[str, dict[str, tuple[int, ...]]] = {_STATED: {}, _GARBAGE: {}, _NAN: {}}
    try:
        plain = trial.exact(base)
        found[_STATED] |= _stated_places(trial, base)
        gradients = trial.dependence(base)
    except CannotJudgeError:
        return found
    for spec in tensor_inputs(trial.problem):
        gradient = gradients.get(spec.name)
        if gradient is None or spec.dtype not in _LARGE:
            continue
        zero = (gradient.reshape(-1) == 0).nonzero().squeeze(1).tolist()
        if not zero or len(zero) == gradient.numel():
            continue  # an input that nothing depends on is API003's subject
        for what in (_GARBAGE, _NAN):
            leaving = _leaving(trial, base, (spec.name, tuple(zero[:_MOST])), what, plain)
            if leaving:
                found[what] |= {spec.name: leaving}
                if what == _NAN and spec.stale:
                    found[_STATED] |= {spec.name: leaving}
    return found


def with_anything(trial: Trial, case: Case) -> Case:
    """Return a case with NaN and impossible integers where domains state that anything may lie."""
    places = _stated_places(trial, case)
    return _spoiled(trial, case, places, _STATED) if places else case


def _stated_places(trial: Trial, base: Case) -> Places:
    """Return what the domains of inputs leave open, as far as the reference accepts anything."""
    from cuassay.inputs.outside import outside  # loads torch

    open_ = outside(trial.problem, trial.inputs(base), base.axes)
    dtypes = {spec.name: spec.dtype for spec in tensor_inputs(trial.problem)}
    places = {
        name: tuple(anything.reshape(-1).nonzero().squeeze(1).tolist()[:_MOST])
        for name, anything in open_.items()
        if dtypes[name] is not DType.FLOAT4_E2M1FN_X2  # it has no NaN
    }
    plain = trial.exact(base) if places else ()
    return {
        name: each
        for name, each in places.items()
        if _leaves(trial, base, {name: each}, _STATED, plain)
    }


def _leaving(
    trial: Trial,
    base: Case,
    of: tuple[str, tuple[int, ...]],
    what: str,
    plain: tuple[torch.Tensor, ...],
    *,
    halvings: int = _HALVINGS,
) -> tuple[int, ...]:
    """Return those of an input's places where something may lie that changes no answer.

    A gradient may be zero at what is used: that of the one key which a query attends to. Places
    that do not leave the answer as it is are halved, so that these cost no more than their part.
    """
    name, places = of
    if _leaves(trial, base, {name: places}, what, plain):
        return places
    if not halvings or len(places) < 2:  # of one there are no halves
        return ()
    middle = len(places) // 2
    return tuple(
        place
        for half in (places[:middle], places[middle:])
        for place in _leaving(trial, base, (name, half), what, plain, halvings=halvings - 1)
    )


def _leaves(
    trial: Trial, base: Case, places: Places, what: str, plain: tuple[torch.Tensor, ...]
) -> bool:
    """Whether the reference accepts what may lie at some places and returns the same."""
    try:
        return all(
            bool(((one == other) | (one.isnan() & other.isnan())).all())
            for one, other in zip(
                plain, trial.exact(_spoiled(trial, base, places, what)), strict=True
            )
        )
    except CannotJudgeError:
        return False


def _spoiled(trial: Trial, base: Case, places: Places, what: str) -> Case:
    fills = dict(base.fills)
    for spec in tensor_inputs(trial.problem):
        if spec.name in places:
            changed: dict[str, FillValue] = {"spoil": places[spec.name]}
            if not spec.dtype.is_floating:
                changed["spoil_with"] = _INTEGERS.get(spec.dtype, _INTEGER)
            else:
                changed["spoil_with"] = _large(spec) if what == _GARBAGE else "nan"
            if what == _STATED:
                changed["spoil_stated"] = True
            fills[spec.name] = with_parameters(own_fill(base, spec), changed)
    return dataclasses.replace(base, label=f"{base.label}, {what}", fills=fills)


def _large(spec: TensorSpec) -> float:
    """Return the largest number that the input may hold, as far as its domain says."""
    domain, most = spec.domain, _LARGE[spec.dtype]
    if isinstance(domain, Real) and domain.high is not None:
        return min(most, float(domain.high))
    return most
