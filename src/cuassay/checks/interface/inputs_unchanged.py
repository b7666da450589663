"""API001: inputs stay as they were."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.endings.findings import signal_name, termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.numeric.listed_sizes import elements_of, settings
from cuassay.checks.state.answers import placed
from cuassay.inputs.growing import ways
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.problem import TensorSpec
from cuassay.model.scenario import Allocate, Call, ReadInputs, Scenario
from cuassay.model.trace import Killed, ResultItem, done_steps
from cuassay.oracle.bits import raw_bytes

_LARGE_ELEMENTS, _EXECUTED_ELEMENTS = 1 << 19, 1 << 15  # of inputs and outputs of a large call
_SMALL_ELEMENTS = 1 << 12  # what is no larger is seen by the small calls
_LARGE_INPUTS = 4


class Api001(Check):
    """Inputs stay as they were

    What it does
        Reads the whole storage behind every input before and after a call, also the bytes
        outside of the tensor itself, and compares them. Compares shape, strides, dtype and
        place of the caller's tensors, and whether they require gradients. Without a GPU it calls
        the kernel once more on inputs in pages that the process must not write. The last calls are
        large ones: scratch memory may be taken from an input only where it is needed.

    Why it matters
        A kernel that normalises in place or uses an input as scratch returns the right answer
        and destroys what the caller needs next: the residual, a saved activation, a weight.

    How it decides
        One changed byte is a finding, an input at a time, and so are another shape, other
        strides, another dtype or other memory of the caller's tensor. An input that requires
        gradients only after the call is a condition, and so is a call that ends by a signal where
        it cannot write its inputs: it writes them and puts them back. An operator whose
        reference writes that input (an optimizer step) may write it too: the reference runs
        through the same scenario and what it changes is not reported.

    Can it be wrong?
        No rounding is involved. On a GPU a kernel that writes the same bytes back is not seen.

    Example
        A fused residual-add + RMSNorm that stores the sum in `residual` is reported if the
        reference returns it as a new tensor.

    Options
        None.
    """

    code = "API001"
    title = "Inputs stay as they were"
    ranks = True
    cause = Cause.INPUT_CHANGED
    classes = ("A3", "A4", "M9")
    needs = Needs(when=When.DECISIVE, split=Split.ANY_SIDE, group=Group.HOST)
    judges_failures = True  # a call that must not write may end the process

    def skip(self, trial: Trial) -> str:
        """Return why nothing can be changed, or an empty string."""
        return "" if _tensors(trial) else "no input is a tensor"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario an input: the reference's own writes are judged one by one.

        A module's state, which its reference is given copies of, is read in one.
        """
        small = trial.cases("small")[:1]
        alone = [one.name for one in _tensors(trial) if one.name not in trial.problem.state]
        for case in [placed(case, axes) for axes in settings(trial) for case in small]:
            for only in [*alone, *([""] if trial.problem.state else [])]:
                yield _before_and_after(case, only, what=only or "the state")
            if not trial.device.on_gpu:
                yield Scenario(
                    label=f"inputs: all read-only on {case.label}",
                    cases=(case,),
                    steps=(
                        Allocate(slot="a", case=0, read_only=True),
                        Call(slot="a", result="r"),
                    ),
                )

        large = _large(trial)
        if large is None:
            return
        for name in alone[:_LARGE_INPUTS]:
            yield _before_and_after(large, name, what=name)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare the bytes of inputs before and after the call."""
        ended = termination_finding(scenario, run, problem=trial.problem)
        if ended is not None:
            first = scenario.steps[0]
            end = run.result.termination
            if isinstance(first, Allocate) and first.read_only and isinstance(end, Killed):
                ended = self.finding(
                    "the call writes into its inputs, which are the same again as it ends: in "
                    f"pages that it must not write it dies of {signal_name(end.signal)}",
                    scenario=scenario,
                    finding_class=FindingClass.UNSAFE,
                    severity=Severity.MEDIUM,
                    condition="read-only-inputs: it writes into its inputs during a call",
                )
            yield ended
            return
        seen: dict[str, list[ResultItem]] = {}
        tensors: dict[str, list[ResultItem]] = {}
        for step, record in done_steps(scenario, run.result, ReadInputs):
            for item in record.items:
                if item.name == step.only or (not step.only and item.name in trial.problem.state):
                    (seen if item.buffer >= 0 else tensors).setdefault(item.name, []).append(item)
        for items in tensors.values():
            if len(items) == 2:  # before the call and after it
                # Report what a call made of the caller's tensor itself, whose bytes may be the
                # same.
                before = items[0]
                after = items[1]
                pairs = (
                    ("shape", list(before.shape), list(after.shape)),
                    ("dtype", before.dtype, after.dtype),
                    ("strides", list(before.strides), list(after.strides)),
                )
                parts = [f"has {what} {new}, had {old}" for what, old, new in pairs if new != old]
                if before.aliases != after.aliases:
                    parts.append("lies in other memory")
                place = Where(output=before.name, axes=dict(scenario.cases[0].axes))
                if parts:
                    text = f"input '{before.name}' is changed by the call: afterwards it {parts[0]}"
                    yield self.finding(text, scenario=scenario, where=place)
                if after.requires_grad and not before.requires_grad:
                    what = f"sets requires_grad of input '{before.name}'"
                    yield self.finding(
                        f"the call {what}, which the caller's tensor did not have",
                        scenario=scenario,
                        where=place,
                        finding_class=FindingClass.UNSAFE,
                        severity=Severity.MEDIUM,
                        condition=f"autograd: it {what}",
                    )
        for items in seen.values():
            if len(items) == 2:
                yield from self._changed(trial, scenario, run, pair=(items[0], items[1]))

    def _changed(
        self, trial: Trial, scenario: Scenario, run: Run, *, pair: tuple[ResultItem, ResultItem]
    ) -> Iterable[Finding]:
        import torch

        name = pair[0].name
        old, new = (raw_bytes(run.tensor(item)) for item in pair)
        if torch.equal(old, new):
            return
        case = scenario.cases[0]
        if old.shape != new.shape:
            message = f"input '{name}' has a storage of {new.numel()} bytes, had {old.numel()}"
            yield self.finding(message, scenario=scenario, where=Where(output=name))
            return
        differs = old != new
        sent = trial.inputs(case)[name]
        place, text = Where(output=name, axes=dict(case.axes)), ""
        if isinstance(sent, torch.Tensor) and sent.nbytes == old.numel():
            position = int(differs.nonzero()[0]) // sent.element_size()
            shape = tuple(sent.shape)
            places = []
            for axis in range(len(shape)):
                rest = math.prod(shape[axis + 1 :])
                places.append(position // rest)
                position %= rest
            index = tuple(places)
            was, is_ = (_at(data, sent, index) for data in (old, new))
            place = Where(output=name, index=index, got=is_, expected=was, axes=dict(case.axes))
            text = f"; first at {list(index)}: was {was}, is {is_}"
        message = (
            f"input '{name}' is changed by the call: {int(differs.sum()):,} of {old.numel():,} "
            f"bytes of its storage differ{text}"
        )
        yield self.finding(message, scenario=scenario, where=place)


def _before_and_after(case: Case, only: str, *, what: str) -> Scenario:
    """Return a call around which the memory of an input, or of all of them, is read."""
    steps = (
        Allocate(slot="a", case=0),
        ReadInputs(slot="a", only=only),
        Call(slot="a", result="r"),
        ReadInputs(slot="a", only=only),
    )
    return Scenario(label=f"inputs: {what} on {case.label}", cases=(case,), steps=steps)


def _large(trial: Trial) -> Case | None:
    """Return a case of as many elements as cost little, all axes grown together.

    Fewer where the PTX machine executes the kernel.
    """
    from cuassay.inputs.regimes import scalars_for  # with torch

    small = trial.cases("small")
    machine = trial.machine
    executed = not trial.device.on_gpu and machine is not None and not machine.absent
    grown = [] if not small else ways(trial.problem, small[0].axes, fixed=trial.problem.built)
    for way in reversed([one for one in grown if not one.workload]):
        most = _EXECUTED_ELEMENTS if executed else _LARGE_ELEMENTS
        sizes = way.within(most, seed=trial.seed("API001", "large"))
        if sizes is not None and elements_of(trial.problem, sizes) > _SMALL_ELEMENTS:
            words = ", ".join(
                f"{axis.name}={sizes[axis.name]}" for axis in trial.problem.var_axes()
            )
            seed = trial.seed("API001", words)
            # Not the usual ones: to multiply by one changes nothing.
            scalars = scalars_for(trial.problem, None, seed=seed, usual=False)
            case = trial.settled(
                dataclasses.replace(
                    small[0],
                    label=words,
                    axes=sizes,
                    fills={},
                    scalars={**small[0].scalars, **scalars},
                    seed=seed,
                )
            )
            return case if case is not None and trial.has_room(case, truth=False) else None
    return None


def _at(data: object, like: object, index: tuple[int, ...]) -> str:
    import torch

    assert isinstance(data, torch.Tensor)
    assert isinstance(like, torch.Tensor)
    return f"{float(data.view(like.dtype).reshape(like.shape)[index]):.6g}"


def _tensors(trial: Trial) -> list[TensorSpec]:
    return [
        spec
        for spec in trial.problem.inputs
        if isinstance(spec, TensorSpec) and spec.name not in trial.problem.updated
    ]
