"""MEM001: outputs that the kernel does not write, or adds to without clearing them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import placed, reads_of, same_bits
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, Where
from cuassay.model.problem import TensorSpec
from cuassay.model.scenario import Allocate, Call, Poison, ReadResult, Release, Scenario, Step
from cuassay.oracle.bits import raw_bytes

if TYPE_CHECKING:
    import torch

    from cuassay.oracle.truth.make import OutputTruth

_POISONS = (Poison.NAN, Poison.ONES, Poison.NEGATED)
_WORDS = {
    Poison.NAN: "NaN",
    Poison.ONES: "0xFF bytes",
    Poison.NEGATED: "minus the right answer",
}


class Mem001(Check):
    """Every output element is written

    What it does
        Calls the kernel three times on the same inputs. Before each call its output memory
        holds something else: NaN, bytes 0xFF, minus the right answer. For a kernel that
        returns new tensors it is the memory that it allocates that is filled.

    Why it matters
        A kernel that was never launched (too much shared memory, an unchecked error) leaves
        what the memory held, and that is often an earlier right answer. A gradient that is
        accumulated into a buffer "assumed zero" is right until the allocator hands out a used
        block.

    How it decides
        All three results must be right. Elements that hold the pattern in the first two runs
        were not written. A result that is right after one pattern and wrong after another
        depends on what the memory held, if the same shows with the patterns in other orders. If
        all three are wrong in the same way, the numbers are at fault, which NUM001 reports.

    Can it be wrong?
        Memory that a kernel takes from the driver by itself (cudaMalloc) is out of reach, so
        a fault may be missed; a kernel that clears its memory is never reported.

    Example
        A kernel over 128 x 128 tiles that skips the last partial tile: 31 of 159 columns are
        not written.

    Options
        None.
    """

    code = "MEM001"
    title = "Every output element is written"
    cause = Cause.UNWRITTEN
    classes = ("M5", "M6")
    needs = Needs(split=Split.ANY_SIDE, group=Group.MEMORY)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario per shape: small, listed, and one of the numeric cases."""
        small = trial.cases("small")[:1]
        cases: list[Case] = [placed(case, axes) for axes in settings(trial) for case in small]
        larger = [c for c in trial.cases("numeric") if c.in_domain][:1]
        cases += [c for c in larger if all(dict(c.axes) != dict(k.axes) for k in cases)]
        for case in cases:
            yield Scenario(
                label=f"memory: {case.label}", cases=(case,), steps=calls_after_each(_POISONS)
            )

    def again(self, scenario: Scenario, finding: Finding) -> Sequence[Scenario]:
        """Return the same calls with the patterns in other orders, where these seem to matter."""
        if finding.cause is not Cause.UNINITIALISED:
            return ()
        orders = (_POISONS[1:] + _POISONS[:1], _POISONS[::-1])
        return [dataclasses.replace(scenario, steps=calls_after_each(order)) for order in orders]

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Compare the three results with truth, and with what the memory held."""
        held = [step.poison for step in scenario.steps if isinstance(step, Call)]
        by_pattern = dict(zip(held, reads_of(scenario, run), strict=False))
        if len(by_pattern) < len(_POISONS):
            return
        reads = [by_pattern[poison] for poison in _POISONS]
        failed = [{c.output for c in answers.wrong(read)} for read in reads]
        if not any(failed):
            return
        truth = trial.truth(scenario.cases[0])
        for position, spec in enumerate(trial.problem.outputs):
            wrong = [spec.name in names for names in failed]
            tensors: list[torch.Tensor | None] = []
            for read in reads:
                by_name = [item for item in read.items if item.name == spec.name]
                items = by_name or list(read.items[position : position + 1])
                if not items or items[0].kind != "tensor" or items[0].buffer < 0:
                    tensors.append(None)
                else:
                    tensors.append(run.tensor(items[0]))
            if not any(wrong) or any(tensor is None for tensor in tensors):
                continue
            found = [tensor for tensor in tensors if tensor is not None]
            message, place = _unwritten(spec, found, truth.outputs[position])
            cause = Cause.UNWRITTEN if message else Cause.UNINITIALISED
            if not message and not all(wrong):
                bad = [_WORDS[p] for p, is_wrong in zip(_POISONS, wrong, strict=True) if is_wrong]
                good = [
                    _WORDS[p] for p, is_wrong in zip(_POISONS, wrong, strict=True) if not is_wrong
                ]
                message = (
                    f"{spec.name} depends on what its memory held before the call: wrong after "
                    f"{' and '.join(bad)}, right after {' and '.join(good)}"
                )
            exact = truth.outputs[position].scale is None
            if not message and exact and not same_bits(run, reads[0].items, reads[2].items):
                message = f"{spec.name} depends on what its memory held before the call"
            if message:
                place = dataclasses.replace(place, axes=dict(scenario.cases[0].axes))
                yield self.finding(message, scenario=scenario, where=place, cause=cause)


def calls_after_each(poisons: Sequence[Poison]) -> tuple[Step, ...]:
    """Return a call after each pattern, whose result is read and released."""
    steps: list[Step] = [Allocate(slot="a", case=0)]
    for poison in poisons:
        steps += [
            Call(slot="a", result="r", poison=poison),
            ReadResult(result="r"),
            Release(name="r"),
        ]
    return tuple(steps)


def _unwritten(
    spec: TensorSpec, tensors: Sequence[torch.Tensor], truth: OutputTruth
) -> tuple[str, Where]:
    """Return the message and place of elements that hold the first two patterns."""
    place = Where(output=spec.name)
    tensor = tensors[0]
    held = holds_ff(tensors[1]) & (
        tensor.isnan() if tensor.dtype.is_floating_point else holds_ff(tensor)
    )
    right = truth.value.to(held.device)
    if right.shape != held.shape:
        return "", place
    if right.dtype.is_floating_point:
        held &= right.double().isfinite()  # torch has no isfinite of 8-bit floats
        # A kernel that writes NaN does so over the third pattern too, which holds none.
        held &= ~tensors[2].to(held.device).isnan()
    else:
        held &= ~holds_ff(right.to(tensors[0].dtype))
        # Both patterns are the integer -1: an element that was written keeps it in the third.
        held &= tensors[2].to(held.device) != tensors[0]
    count = int(held.sum())
    if not count:
        return "", place
    index = tuple(int(i) for i in held.nonzero()[0])
    first = f"first at {list(index)}" if index else "a single number"
    message = (
        f"{spec.name}: {count:,} of {held.numel():,} elements hold what the memory held before "
        f"the call ({first}): not written, or added to without being cleared"
    )
    expected = f"{float(right[index]):.6g}"
    got = f"{float(tensors[0][index]):.6g}"
    return message, dataclasses.replace(place, index=index, got=got, expected=expected)


def holds_ff(tensor: torch.Tensor) -> torch.Tensor:
    """Return where every byte of an element is 0xFF, or the element is NaN."""
    data = raw_bytes(tensor).reshape(-1, tensor.element_size())
    held = (data == 0xFF).all(dim=1).reshape(tensor.shape)
    return held | tensor.isnan() if tensor.dtype.is_floating_point else held
