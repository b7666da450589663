"""CONFIG001: every configuration that an autotuner may choose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuassay.checks.base import Check, Run, Trial
from cuassay.checks.gpu.timing import timed
from cuassay.checks.judgement import Answers
from cuassay.checks.kernels.facts import cleaned_text
from cuassay.checks.needs import Group, Needs
from cuassay.checks.numeric.common import worst_statistic
from cuassay.checks.numeric.listed_sizes import settings
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.scenario import Allocate, Release, Scenario, Step
from cuassay.model.steps import Configurations
from cuassay.model.trace import ScenarioResult, StepDone, done_steps
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    from cuassay.oracle.compare.outputs import Comparison

MOST = {"cpu": 32, "cuda": 96}
BUDGET_S = {"cpu": 45.0, "cuda": 75.0}
_QUICK_S = 10.0
_NAMED = 4  # configurations named in a message
_PLACE = re.compile(r"(\d{1,4}):(\d{1,3})")


class Config001(Check):
    """Every configuration of an autotuner is right

    What it does
        Calls the kernel once with each configuration that its Triton autotuners may choose, at
        a small size and, where that may be refused, at a listed one; at `quick` at listed ones
        alone, for which they were compiled already. Lists of several autotuners are walked through
        together. Then it calls the kernel once more as the first call of a size, which tunes.

    Why it matters
        An autotuner chooses by time, on the user's GPU and sizes. A configuration that is
        wrong, whose block does not fit the grid or the mask, is chosen one day somewhere else.
        All other checks see one configuration: the fastest of a few calls at a listed size. The
        call that tunes runs the kernel many times on the caller's tensors: what adds up keeps it.

    How it decides
        Each result must be right, and so must that of the call that tunes. A finding names the
        configurations that fail. If all of them fail the fault is not theirs, and left to NUM001.
        Configurations that this GPU cannot run (too much shared memory) are left out, as Triton
        does.

    Can it be wrong?
        A kernel that keeps its answer, or a CUDA graph, does not ask its autotuner again: that is
        a condition of use (`configurations`). Those beyond 96 (32 on a CPU), and those that
        do not fit into the time, are not judged either; the result says how many were.

    Example
        "wrong with 2 of 35 configurations of the autotuner: _norm: BLOCK_M: 64, num_warps: 16".

    Options
        --profile quick gives them 10 s a size, standard and deep 75 s (45 s on a CPU).
        --require configurations makes the condition binding.
    """

    code = "CONFIG001"
    title = "Every configuration of an autotuner is right"
    classes = ("O8", "S6")
    needs = Needs(group=Group.NONE)

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield one scenario: the sizes one after another."""
        kind = trial.device.kind
        quick = trial.profile is Profile.QUICK
        budget_s = _QUICK_S if quick else BUDGET_S[kind]
        small = trial.cases("small")[:1]
        cases = [placed(case, axes) for axes in settings(trial) for case in small]
        if quick:
            # The other branch of a kernel that has one for large sizes, with a list of its own.
            large = [timed(trial).cases[0]] if kind == "cuda" else []
            cases = [*cases[-1:], *large]
        steps: list[Step] = []
        for number in range(len(cases)):
            slot = f"a{number}"
            steps += [
                Allocate(slot=slot, case=number),
                Configurations(slot=slot, most=MOST[kind], budget_s=budget_s),
                Release(name=slot),
            ]
        yield Scenario(
            label="each configuration of the autotuner",
            cases=tuple(cases),
            steps=tuple(steps),
            timeout_s=4.0 * BUDGET_S[kind] * len(cases),
        )

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Name the configurations whose result is wrong where another's is right."""
        walked = _walked(scenario, run.result)
        if not walked:
            return
        if not any(tried_configurations(dict(record.facts)) for _, record in walked):
            tuners = max(_count(dict(record.facts), "autotuners") for _, record in walked)
            if not tuners:
                raise NothingToCheckError("no Triton autotuner chose a configuration")
            yield self.finding(
                f"{tuners} autotuner{'s were' if tuners > 1 else ' was'} not asked in later calls: "
                "the kernel keeps a CUDA graph or an answer, or uses them at other sizes",
                scenario=scenario,
                finding_class=FindingClass.UNSAFE,
                severity=Severity.MEDIUM,
                condition="configurations: only those that were chosen first are judged",
            )
            return
        undecided = ""
        for case, record in walked:
            undecided = trial.truth(case).ill_conditioned
            if not undecided:
                yield from self._at(scenario, answers, case, record)
                yield from self._first(scenario, answers, case, record)
        if undecided and len(walked) == 1:
            raise CannotJudgeError(undecided)

    def _at(
        self, scenario: Scenario, answers: Answers, case: Case, record: StepDone
    ) -> Iterator[Finding]:
        """Judge the configurations at the sizes of one case."""
        tried = tried_configurations(dict(record.facts))
        compared: dict[str, tuple[Comparison, ...]] = {}
        for one in tried:
            if one.place not in compared:
                start, count = one.items
                members = record.items[start : start + count]
                compared[one.place] = answers.compare(case, members)
        wrong = [one for one in tried if not all(c.passed for c in compared[one.place])]
        if not wrong or len(wrong) == len(tried):
            return
        failed = next(c for c in compared[wrong[0].place] if not c.passed)
        worst = worst_statistic(failed)
        names = "; ".join(one.name for one in wrong[:_NAMED])
        more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
        yield self.finding(
            f"wrong with {len(wrong)} of {len(tried)} configurations of the autotuner: "
            f"{names}{more} ({failed.output})",
            scenario=scenario,
            measured=worst.value if worst else None,
            allowed=worst.limit if worst else None,
            statistic="against truth, with the first configuration that fails",
            where=Where(output=failed.output, axes=dict(case.axes), group=wrong[0].name),
            details=(("right with", next(one.name for one in tried if one not in wrong)),),
        )

    def _first(
        self, scenario: Scenario, answers: Answers, case: Case, record: StepDone
    ) -> Iterator[Finding]:
        """Judge the call in which the autotuners tuned, where one without tuning is right."""
        facts = dict(record.facts)
        place = facts.get("first", "")
        tried = tried_configurations(facts)
        if not _PLACE.fullmatch(place) or not tried:
            return
        plain, first = (
            answers.compare(case, record.items[start : start + count])
            for start, count in (tried[0].items, place_of(place))
        )
        failed = next((c for c in first if not c.passed), None)
        if failed is None or not all(c.passed for c in plain):
            return
        worst = worst_statistic(failed)
        names = cleaned_text(facts.get("tuned", ""), 200)
        yield self.finding(
            f"the first call of a size is wrong: {failed.output} keeps what the trial runs of the "
            f"autotuner left in it ({names}); say reset_to_zero or restore_value",
            scenario=scenario,
            cause=Cause.AUTOTUNER,
            measured=worst.value if worst else None,
            allowed=worst.limit if worst else None,
            statistic="against truth, in the call that tunes",
            where=Where(output=failed.output, axes=dict(case.axes), group=names),
        )

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Say how many configurations were judged, and how many there are."""
        texts = []
        for scenario, result in seen:
            for case, record in _walked(scenario, result):
                facts = dict(record.facts)
                total = _count(facts, "configurations")
                refused = sum(key.startswith("refused ") for key in facts)
                text = f"{len(tried_configurations(facts))} of {total} configurations"
                text += f", {refused} refused by the device" if refused else ""
                sizes = ", ".join(f"{n} = {size}" for n, size in case.axes.items())
                texts.append(f"{text} at {sizes}")
        return "; ".join(texts)


def _walked(scenario: Scenario, result: ScenarioResult) -> list[tuple[Case, StepDone]]:
    """Return the cases at which the configurations were walked through, and what came back."""
    places = {step.slot: step.case for step in scenario.steps if isinstance(step, Allocate)}
    return [
        (scenario.cases[places[step.slot]], record)
        for step, record in done_steps(scenario, result, Configurations)
    ]


def _count(facts: dict[str, str], name: str) -> int:
    text = cleaned_text(facts.get(name, "0"), 6)
    return int(text) if text.isdecimal() else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredCall:
    """One configuration that was called with, and where its result lies among the items."""

    name: str
    place: str

    @property
    def items(self) -> tuple[int, int]:
        """The first item of the result, and how many there are."""
        return place_of(self.place)


def place_of(text: str) -> tuple[int, int]:
    """Return the first item of a result, and how many there are, from `start:count`."""
    start, _, count = text.partition(":")
    return int(start), int(count)


def tried_configurations(facts: dict[str, str]) -> list[ConfiguredCall]:
    """Return the configurations that gave a result, as the worker says; the rest is left out."""
    found = []
    for key, place in facts.items():
        kind, _, number = key.partition(" ")
        if kind == "result" and _PLACE.fullmatch(place):
            name = cleaned_text(facts.get(f"configuration {number}", ""), 200) or number
            found.append(ConfiguredCall(name=name, place=place))
    return found
