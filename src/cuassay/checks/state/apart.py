"""APART001: the same in a process that holds nothing of cuassay."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.follow import followed
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.plain_first import measured
from cuassay.checks.state.answers import placed, reads_of, reseeded, same_bits
from cuassay.inputs.growing import ways
from cuassay.model.case import Case
from cuassay.model.outcome import Finding, Where
from cuassay.model.problem import Scalar
from cuassay.model.scenario import Allocate, Call, ReadInputs, ReadResult, Scenario
from cuassay.model.steps import Mode
from cuassay.oracle.bits import raw_bytes

if TYPE_CHECKING:
    import torch

_ELEMENTS = 1 << 13  # of inputs and outputs of a call
_WORDS = "in a process that holds nothing of cuassay"


class Apart001(Check):
    """The same without cuassay around

    What it does
        Calls the kernel in a process that holds nothing of cuassay: no module, no environment
        variable, no path, no allocator of its own. The judge owns the memory that the inputs lie
        in, decides the order of the calls, and reads inputs and results itself. The process looks
        like one that a user started from a terminal: variables of a login, standard streams,
        arguments and flags of Python, more than one thread. Between two calls Python's clocks go
        forward by 40 days, and after the first one by a millisecond to a minute at each reading.

    Why it matters
        A kernel that recognizes its judge can behave while it is watched: it answers right where
        it finds cuassay, and hides what it changes by patching what looks at it.

    How it decides
        Two sets of values, the second with other scalars, and the first again: three calls. Every
        answer must be right, the first must not change by the call on other values, and no byte of
        an input may change. What the reference does too is not reported.

    Can it be wrong?
        It uses the oracle's limits, and bytes. It does not see a kernel that recognizes its judge
        by counting calls, by the values themselves, or by what no process apart can imitate
        (docs/trust.md). Only kernels that Python loads
        can be called so, and without a GPU only those that need none.

    Example
        A kernel that looks for `cuassay` in sys.modules and skips a reduction where it is not
        found passes every other check.

    Options
        None.
    """

    code = "APART001"
    title = "The same without cuassay around"
    classes = ("H1", "H2", "H8")
    needs = Needs(when=When.AFTER_CLEAN, group=Group.NONE)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario a size."""
        small = trial.cases("small")[:1]
        sizes = settings(trial)
        # Where sizes are small what a kernel leaves out may be nothing: all axes grown together.
        every = ways(trial.problem, sizes[0], fixed=trial.problem.built) if small else ()
        grown = [way for way in every if not way.workload]
        # One size must do: one of no whole tiles, at which a tile in place of all is wrong too.
        way = dataclasses.replace(grown[-1], whole_tiles=False) if grown else None
        larger = way.within(_ELEMENTS, seed=trial.seed(self.code)) if way is not None else None
        if larger is not None and larger not in sizes and trial.settled(placed(small[0], larger)):
            sizes.insert(0, larger)
        for axes in sizes[: trial.effort.settings_apart]:
            for case in small:
                first = placed(case, axes)
                seed = trial.seed("apart", first.label, *sorted(first.axes.items()))
                second = reseeded(first, label=f"{first.label}, other values", seed=seed)
                second = dataclasses.replace(second, scalars=_other_scalars(trial, first))
                yield Scenario(
                    label=f"apart: {first.label}",
                    cases=(first, second),
                    steps=(
                        Allocate(slot="a", case=0),
                        Allocate(slot="b", case=1),
                        Call(slot="a", result="first"),
                        ReadResult(result="first"),
                        Call(slot="b", result="second"),
                        # Before the next call on the same slot: a kernel that is given its outputs
                        # writes them again then, with other bits where it adds up by atomics.
                        ReadResult(result="first"),
                        ReadResult(result="second"),
                        Call(slot="a", result="again"),
                        ReadResult(result="again"),
                        ReadInputs(slot="a"),
                        ReadInputs(slot="b"),
                    ),
                    mode=Mode.APART,  # which is a process of its own
                )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Report the first wrong answer, a result that changed, and every changed input."""
        reads = reads_of(scenario, run)
        for read in reads:
            wrong = answers.wrong(read)
            if wrong:
                text = wrong[0].mismatch or "it gives a wrong answer, and elsewhere a right one"
                yield self.finding(
                    f"{_WORDS} {text} ({wrong[0].output})",
                    scenario=scenario,
                    **measured(wrong[0], read.case),
                )
                break
        if len(reads) > 1 and not same_bits(run, reads[0].items, reads[1].items):
            yield self.finding(
                f"{_WORDS} a later call changes the result of an earlier one", scenario=scenario
            )
        for index, step, held in followed(scenario):
            record = done(run, index)
            if not isinstance(step, ReadInputs) or record is None:
                continue
            case = scenario.cases[held.slots[step.slot]]
            sent = trial.inputs(case)
            kept = [
                i for i in record.items if i.buffer >= 0 and i.name not in trial.problem.updated
            ]
            for item in kept:
                # The reference's control runs in a worker, whose tensors lie on the device.
                if (raw_bytes(_host(run.tensor(item))) != raw_bytes(_host(sent[item.name]))).any():
                    yield self.finding(
                        f"{_WORDS} the call changes input '{item.name}'",
                        scenario=scenario,
                        where=Where(output=item.name, axes=dict(case.axes)),
                    )


def _other_scalars(trial: Trial, first: Case) -> Mapping[str, Scalar]:
    """Return the scalars of a case, those that are no whole numbers as another case has them.

    A usual one, such as a smoothing of 0, can hide what a kernel does with it. Whole numbers may
    be bound to sizes.
    """
    for case in trial.cases("numeric"):
        moved = {
            name: value
            for name, value in case.scalars.items()
            if name in first.scalars and isinstance(value, float | bool)
        }
        if any(value != first.scalars[name] for name, value in moved.items()):
            return {**first.scalars, **moved}
    return first.scalars


def _host(value: object) -> torch.Tensor:
    import torch

    assert isinstance(value, torch.Tensor)
    return value.cpu()
