"""GHOST001: whether the answer comes from the kernels that the candidate brings along."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Process, Split, When
from cuassay.checks.numeric.listed_sizes import elements_of, settings
from cuassay.checks.state.answers import placed, reads_of
from cuassay.model.axes import smallest_workload_axes
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Poison, Scenario, Step, call_steps
from cuassay.model.steps import Disarm, ReadLaunches
from cuassay.model.trace import StepRaised

_LABEL = "kernels: launched, and switched off"
_ELEMENTS = {"cpu": 1 << 14, "cuda": 1 << 26}
_NAMES = 4  # kernels named in a message
_TEXT = 120


class Ghost001(Check):
    """The answer comes from the candidate's own kernels

    What it does
        Counts the launches of Triton kernels defined in the candidate's sources, of raw CUDA
        kernels and of its C++ extensions, on a small shape and on one of its workloads. Then it
        turns these launches into no-ops, fills free memory with NaN and calls once more on
        other values.

    Why it matters
        A wrapper that falls back to PyTorch when its kernel fails gives right answers, and so
        does one that never calls it or throws its result away. What is measured, reviewed and
        merged is then not what runs.

    How it decides
        Kernels that are defined and never launched, or whose every launch raises, while the
        answers are right: reported. So is an answer that stays right although launches were
        asked for and none was done. The operator is right in each case, hence advice; with
        --require own-kernels it rejects.

    Can it be wrong?
        A kernel for large shapes only may not be needed here, nor one that repairs what is
        rarely broken. Not seen are kernels that torch.compile makes and those of other
        packages: then nothing is said. The counting shares the candidate's
        process and can be undone by it.

    Example
        `try: kernel[grid](...)` with `except Exception: return torch.softmax(x, -1)`.

    Options
        --require own-kernels makes it binding.
    """

    code = "GHOST001"
    title = "The answer comes from the candidate's own kernels"
    cause = Cause.UNNECESSARY_KERNEL
    classes = ("H8",)
    # nothing else runs in a process whose kernels were switched off
    needs = Needs(process=Process.OWN, when=When.LATE, split=Split.ANY_SIDE, group=Group.NONE)
    finding_class = FindingClass.ADVICE
    severity = Severity.MEDIUM
    judges_failures = True  # without its kernels a candidate may raise
    least_decided = 0.0  # what a call does without its kernels is not part of its contract

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one process: calls that are counted, and two with the kernels switched off."""
        small, axes = trial.cases("small"), settings(trial)[-1:]
        if len(small) < 2 or not axes:
            return
        first = placed(small[0], axes[0])
        # `workload` is the first case at the sizes of the smallest workload, if that is cheap.
        problem = trial.problem
        if not problem.workloads:
            workload: list[Case] = []
        else:
            smallest = smallest_workload_axes(problem)
            most = _ELEMENTS[trial.device.kind]
            if dict(first.axes) == smallest or elements_of(problem, smallest) > most:
                workload = []
            else:
                workload = [placed(first, smallest)]
        cases = [first, placed(small[1], axes[0]), *workload]
        steps: list[Step] = [Disarm(active=False)]  # from here on extensions' launches count
        for number in (0, *range(2, len(cases))):
            steps += _call(number)
        steps += [ReadLaunches(), Disarm()]
        steps += [*_call(1), *_call(1, Poison.ZEROS), ReadLaunches(), Disarm(active=False)]
        yield Scenario(label=_LABEL, cases=tuple(cases), steps=tuple(steps), fresh=True)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Look at the launches before and after the kernels were switched off."""
        places = [i for i, step in enumerate(scenario.steps) if isinstance(step, ReadLaunches)]
        armed, disarmed = (done(run, index) for index in places)
        if armed is None:
            return
        before = _counts(dict(armed.facts), "launched")
        reads = reads_of(scenario, run)
        usual = [read for read in reads if read.case != scenario.cases[1]]
        if not before or not usual or any(answers.wrong(read) for read in usual):
            return
        text = _unused(dict(armed.facts), before)
        without = [read for read in reads if read.case == scenario.cases[1]]
        if not text and disarmed is not None and len(without) == 2:
            after = _counts(dict(disarmed.facts), "launched")
            asked = [name for name, count in after.items() if count > before.get(name, 0)]
            if (
                asked
                and not any(answers.wrong(read) for read in without)
                and not any(isinstance(record, StepRaised) for record in run.result.records)
                and not trial.truth(scenario.cases[1]).ill_conditioned  # it could have been wrong
            ):
                text = (
                    f"the answer is right without {_listed(asked)}: launched, and what it gives "
                    "is not used"
                )
        if text:
            yield self.finding(text, scenario=scenario, condition=f"own-kernels: {text}")


def _call(number: int, poison: Poison = Poison.NAN) -> tuple[Step, ...]:
    slot, result = f"s{number}{poison}", f"r{number}{poison}"
    return call_steps(slot, number, result, poison=poison)


def _unused(facts: Mapping[str, str], launched: Mapping[str, int]) -> str:
    """Return what to say where no kernel of the candidate did anything, or nothing."""
    if "unseen" in facts:
        return ""
    raised = _counts(facts, "raised")
    if any(count > raised.get(name, 0) for name, count in launched.items()):
        return ""
    if not any(launched.values()):
        return f"{_listed(list(launched))} is defined and never launched: something else answers"
    name = next(name for name, count in launched.items() if count)
    reason = facts.get(f"reason {name}", "an exception")[:_TEXT]
    return f"every launch of {_listed([name])} raises ({reason}): something else answers"


def _counts(facts: Mapping[str, str], word: str) -> dict[str, int]:
    """Return the numbers of `word NAME` facts; what is no number is left out."""
    found = {}
    for name, text in facts.items():
        kind, _, kernel = name.partition(" ")
        if kind == word and text.isdecimal() and len(text) < 12:
            found["".join(c for c in kernel if c.isprintable())[:_TEXT]] = int(text)
    return found


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"'{name}'" for name in names[:_NAMES]) + more
