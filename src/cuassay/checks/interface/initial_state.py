"""API005: a module that starts with the reference's values, and is right with a state loaded."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.interface.placeholders import placeholders
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, When
from cuassay.checks.numeric.common import comparison_finding, one_by_one
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.state.answers import placed, reads_of, varied_state
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding
from cuassay.model.problem import STATE_SAMPLE, STATE_SOURCE, StateSource, TensorSpec
from cuassay.model.scenario import Scenario
from cuassay.model.trace import ResultItem

if TYPE_CHECKING:
    import torch

# Where a module takes its state from in every later check, once API005 has found this of it.
STATE_OF = {
    Cause.LOADED_STATE: StateSource.INITIAL,
    Cause.EVALUATION_MODE: StateSource.GIVEN_EVALUATION,
    Cause.BUILT_EVALUATION: StateSource.INITIAL_EVALUATION,
}
_TOLD = 64  # the least size of an axis that the constructor is told: some thousand numbers drawn
_MOST_ELEMENTS = 1 << 20
# That two samples of one distribution are taken for samples of two.
_MISTAKE = 1e-9


class Api005(Check):
    """The module starts as the reference does, and takes a loaded state

    What it does
        Calls a module with other parameters loaded into it, with the reference's, and with those
        that its own constructor drew under the problem's seed; then again with both modules in
        evaluation mode. It also compares the drawn values with the reference's. Only in a new
        process is anything held against a module.

    Why it matters
        KernelBench builds both models under one seed and compares their outputs: a model with
        other initial values fails there. In training such a model starts somewhere else. A model
        that folds a constant into its weights, or packs them, when it is built passes there, and
        is wrong once a checkpoint is loaded. A model for inference alone is wrong in training.

    How it decides
        Right with every loaded state and wrong with its own values: rejected where these follow
        another distribution (two-sample Kolmogorov-Smirnov test, chance of a mistake 1e-9; a
        constant has to be equal), else the condition `initial-values`. Right with its own values
        and wrong with a loaded state: the condition `loaded-state`, and every other check lets
        the module keep its own values. A module that calls self.eval() in its constructor, and is
        right with both modules in evaluation mode alone, has the condition `evaluation-mode`, and
        every other check compares in that mode. One that is right in training and wrong in
        evaluation mode has the condition `training-mode`. A module that is wrong every way is left
        to other checks.

    Can it be wrong?
        Small tensors cannot show another distribution: they give the condition. A buffer that the
        reference leaves uninitialized is a placeholder for a state that is loaded, and so are zeros
        with which its output is one constant, and all of a module whose benchmark loads the
        reference's state: their first values are held against nobody.

    Example
        nn.Parameter(torch.randn(out, in)) in place of the values that nn.Linear draws: rejected.

    Options
        --require loaded-state, --require initial-values, --require evaluation-mode and
        --require training-mode make the conditions binding.
    """

    code = "API005"
    title = "The module starts as the reference does, and takes a loaded state"
    cause = Cause.INITIAL_VALUES
    classes = ("A16",)
    needs = Needs(when=When.FIRST, group=Group.HOST)

    def skip(self, trial: Trial) -> str:
        """Return why there is nothing to compare, or an empty string."""
        return "" if trial.problem.state else "the problem is no module with a state"

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario: another state, the reference's, the module's own, a sample of it.

        The other state comes first: a module that keeps what it made of its first state is
        another fault, which histories find.
        """
        cases = trial.cases("small") or trial.cases("numeric")
        if not cases:
            return
        base = min(cases, key=lambda case: sum(case.axes.values()))
        problem, sizes = trial.problem, dict(base.axes)
        bound = {}
        for axis in problem.var_axes():
            wanted = sizes[axis.name]
            if axis.name in problem.built and not axis.sizes:
                step = axis.multiple_of
                wanted = max(wanted, min(_TOLD // step * step, axis.maximum or _TOLD))
            bound[axis.name] = wanted
        varied = varied_state(trial, base, code="API005")
        kept = {name: fill for name, fill in base.fills.items() if name not in problem.state}
        fills = {**base.fills, **varied}
        base = dataclasses.replace(base, fills=kept)
        other = dataclasses.replace(base, fills=fills)  # also what truth needs to decide
        # No more than the sample needs those sizes: a kernel may be right at its smallest alone.
        larger = placed(base, resolve(problem.axes, bound))
        larger = larger if elements_of(problem, larger.axes) <= _MOST_ELEMENTS else base
        called: tuple[Case, ...] = (
            # The model is not called: equal values tell which of its tensors takes each of these.
            _with(base, StateSource.SAMPLE, "what the constructor made, at the same sizes"),
            _with(other, StateSource.GIVEN, "another state"),
            _with(base, StateSource.GIVEN, "the reference's state"),
            _with(base, StateSource.INITIAL, "the state that the constructor made"),
            _with(larger, StateSource.SAMPLE, "what the constructor made"),
        )
        if trial.problem.modes:
            called += (
                _with(other, StateSource.GIVEN_EVALUATION, "another state in evaluation mode"),
                _with(base, StateSource.INITIAL_EVALUATION, "its own state in evaluation mode"),
            )
        steps = one_by_one(range(len(called)))
        yield Scenario(label="initial state", cases=called, steps=steps, fresh=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Judge the module's own state by the reference's: both draw under one seed."""
        reads = reads_of(scenario, run)
        if len(reads) < 5:
            return
        _, other_state, loaded, built, sample, *evaluated = reads
        built = dataclasses.replace(built, case=loaded.case)
        wrong_loaded = [
            *answers.wrong(other_state),
            *answers.wrong(loaded),
        ]
        wrong_built = answers.wrong(built)
        case = dataclasses.replace(loaded.case, in_domain=True)
        if (wrong_loaded or wrong_built) and _is_for_inference(trial, run, sample.items):
            for read, source in zip(evaluated, ("a loaded state", "its own state"), strict=False):
                if answers.wrong(read):
                    continue
                lead = f"built in evaluation mode and right there with {source}, wrong in training"
                wrong = (wrong_built or wrong_loaded)[0]
                found = comparison_finding(self, trial, scenario, case, wrong, lead=lead)
                with_loaded = read is evaluated[0]
                cause = Cause.EVALUATION_MODE if with_loaded else Cause.BUILT_EVALUATION
                yield dataclasses.replace(found, cause=cause).as_condition(
                    "evaluation-mode: the module stays in evaluation mode, into which its "
                    "constructor puts it"
                    + ("" if with_loaded else ", and its state as the constructor makes it")
                )
                return
        if evaluated and not wrong_loaded and not wrong_built:
            for wrong in answers.wrong(evaluated[0])[:1]:
                lead = "right in training mode, wrong in evaluation mode"
                found = comparison_finding(
                    self, trial, scenario, evaluated[0].case, wrong, lead=lead
                )
                yield dataclasses.replace(found, cause=Cause.TRAINING_MODE).as_condition(
                    "training-mode: the module stays in training mode; after eval() the results "
                    "are wrong"
                )
        if wrong_loaded and not wrong_built:
            lead = "right with the state that its constructor makes, wrong with a loaded one"
            found = comparison_finding(self, trial, scenario, case, wrong_loaded[0], lead=lead)
            yield dataclasses.replace(found, cause=Cause.LOADED_STATE).as_condition(
                "loaded-state: the state stays as the constructor makes it; with a loaded "
                "checkpoint the results are wrong"
            )
        if wrong_built and not wrong_loaded:
            unset = placeholders(trial, loaded.case)
            said, other = _differing(trial, sample.case, run, sample.items, unset=unset)
            if unset and not said:
                return  # the reference itself can be used once a state is loaded, not before
            lead = f"right with a loaded state, wrong with its own initial values{said}"
            found = comparison_finding(self, trial, scenario, case, wrong_built[0], lead=lead)
            found = dataclasses.replace(found, cause=Cause.INITIAL_VALUES)
            if not other:
                found = found.as_condition(
                    "initial-values: a state is loaded before the first call; under the problem's "
                    "seed the constructor draws other values than the reference's"
                )
            yield found


def _is_for_inference(trial: Trial, run: Run, sample: Sequence[ResultItem]) -> bool:
    """Whether the module was in evaluation mode when its constructor ended, by its own word.

    A lie gains nothing: such a module is right in evaluation mode, and accepted for that alone.
    """
    flag = sample[-1] if len(sample) > len(trial.problem.state) else None
    if flag is None or flag.buffer < 0 or flag.shape != ():
        return False
    return not bool(run.tensor(flag))


def _with(case: Case, source: StateSource, label: str) -> Case:
    scalars = {**case.scalars, STATE_SOURCE: source.value}
    return dataclasses.replace(case, label=f"{case.label}, {label}", scalars=scalars)


def _differing(
    trial: Trial, case: Case, run: Run, items: Sequence[ResultItem], *, unset: frozenset[str]
) -> tuple[str, bool]:
    """Return what differs most from the reference's initial values in words, and whether in kind.

    Parts that are `unset` are left out. Empty where the module has no tensor to compare, as one
    that packs its weights.
    """
    given = trial.inputs(case)
    said, kind = "", False
    for name, item in zip(trial.problem.state, items, strict=False):
        spec, theirs = trial.problem.input(name), given[name]
        if not isinstance(spec, TensorSpec) or isinstance(theirs, bool | int | float):
            continue
        if name in unset or item.buffer < 0 or not all(item.shape or ()):
            continue
        ours = run.tensor(item).reshape(-1).double().cpu()
        wanted = theirs.reshape(-1)[:STATE_SAMPLE].double().cpu()
        if ours.equal(wanted):
            continue
        # The two-sample Kolmogorov-Smirnov test (Smirnov 1948): the largest distance between the
        # empirical distributions exceeds sqrt(-ln(p / 2) / 2) * sqrt((n + m) / (n * m)) with
        # probability p. A constant is no sample: it has to be equal.
        import torch

        if bool((wanted == wanted[0]).all()):
            other = True
        else:
            n, m = ours.numel(), wanted.numel()
            points = torch.cat([ours, wanted]).sort().values
            below = [
                torch.searchsorted(one.sort().values, points, right=True).double() / one.numel()
                for one in (ours, wanted)
            ]
            distance = (below[0] - below[1]).abs().max().item()
            other = distance > math.sqrt(-math.log(_MISTAKE / 2) / 2) * math.sqrt((n + m) / (n * m))
        if not said or (other and not kind):
            said = (
                f": {spec.description} has {_moments(ours)} where the reference draws "
                f"{_moments(wanted)}"
            )
        kind = kind or other
    return said, kind


def _moments(values: torch.Tensor) -> str:
    return f"mean {values.mean().item():.3g} and spread {values.std(correction=0).item():.3g}"
