"""STATE002: answers that depend on what attributes earlier calls had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.endings.findings import termination_finding
from cuassay.checks.follow import followed
from cuassay.checks.interface.inputs_used import change_in_words
from cuassay.checks.numeric.common import message, where, worst_statistic
from cuassay.checks.state.answers import Read, is_right_for, same_bits, truth_moved, wrong_outputs
from cuassay.checks.state.attribute_scenarios import sizes_in_words, toggle_scenarios
from cuassay.model.outcome import Finding, Where
from cuassay.model.scenario import Call, ReadResult, Scenario
from cuassay.model.steps import Arrange, Layout, Overwrite
from cuassay.model.trace import Finished, StepRaised

_FAR = 4.0  # a share of the budget beyond which no rounding explains an error


class State002(Check):
    """No answer depends on the attributes of earlier calls

    What it does
        Toggles one attribute of a call back and forth in one process, the odd one first: the
        layout of one input in memory, the size of one axis (small, large, small, large), one
        scalar. At last the caller writes NaN into the tensors that two calls in a row gave it
        and calls again on the same inputs.

    Why it matters
        A plan, graph or table kept under a key that lacks a stride, a size or a scale is used
        for calls that it was not made for; a workspace that grew once keeps a tail of another
        call; a buffer handed out twice holds what the caller wrote. Production mixes such
        calls in one process, tests rarely do.

    How it decides
        Every answer must be right for its own call. One that is wrong where the same call was
        right before or after is a finding, named by the attribute that had changed. So is one
        that is wrong from its first time on, if it holds the right answer of an earlier call,
        or if it is far off, is the ordinary one (contiguous, of the larger size), and follows
        a call in another layout or size that was right.

    Can it be wrong?
        An answer that is wrong at once in an unusual layout is left to LAYOUT001, a refusal
        of it too, and all that follows in that process: it may have written anywhere. Integer
        inputs stay contiguous for the same reason. What is wrong in every call is the
        numbers' fault. Gradient modes and data types are not toggled.

    Example
        A plan kept by shape: "call 2 is wrong after x went from transposed to contiguous".

    Options
        --profile quick shares a process among attributes of one kind and moves the layouts
        of three inputs at most; deep tries more layouts.
    """

    code = "STATE002"
    title = "No answer depends on the attributes of earlier calls"
    classes = ("S4", "S6", "S8")
    group = "host"
    judges_failures = True  # a layout may be refused

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the toggles, each in a fresh process."""
        yield from toggle_scenarios(trial)

    def judge(self, trial: Trial, scenario: Scenario, run: Run) -> Iterable[Finding]:
        """Blame the first answer that is wrong where its call is right at another time."""
        ended = _ended(trial, scenario, run)
        if ended is not None:
            yield ended
            return
        answers = _judged(trial, run, _answers(scenario, run))
        for position, answer in enumerate(answers):
            if answer.wrong and answer.layouts and _first(answers, position):
                return  # left to LAYOUT001; it may have written anywhere
            if answer.wrong and not answer.aliased:
                text = _blame(trial, run, answers, position)
                if text:
                    yield self._finding(trial, scenario, run, answer=answer, text=text)
                    return

    def _finding(
        self, trial: Trial, scenario: Scenario, run: Run, *, answer: _Answer, text: str
    ) -> Finding:
        failed = wrong_outputs(trial, answer.read, run)
        worst = failed[0]
        statistic = worst_statistic(worst)
        place = where(worst, answer.read.case, statistic) if not worst.mismatch else Where()
        outputs = ", ".join(comparison.output for comparison in failed)
        return self.finding(
            f"call {answer.read.call} {text} ({outputs})",
            scenario=scenario,
            measured=statistic.value if statistic else None,
            allowed=statistic.limit if statistic else None,
            statistic="against truth for its own call",
            where=place,
            details=(("against its own truth", message(worst, statistic)),),
        )


@dataclass(slots=True, kw_only=True)
class _Answer:
    """One result that came back, the layouts of its inputs, and what is known of it.

    `written` is the call whose result the caller had just written into, or 0.
    """

    read: Read
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    written: int = 0
    wrong: bool = False
    far: bool = False

    @property
    def aliased(self) -> bool:
        """Whether it lies in an input, which the caller then wrote into as well."""
        return bool(self.written) and any(item.aliases for item in self.read.items)

    def same_call(self, other: _Answer) -> bool:
        """Whether two answers are to the same values in the same layouts."""
        return self.read.case == other.read.case and self.layouts == other.layouts


def _ended(trial: Trial, scenario: Scenario, run: Run) -> Finding | None:
    """Return how the run ended, unless in or after a call on inputs in an unusual layout.

    What such a call wrote out of bounds may end the process in any later one.
    """
    first = next((r.index for r in run.result.records if isinstance(r, StepRaised)), -1)
    last = len(run.result.records)
    odd = _odd_steps(scenario)
    crashed = not isinstance(run.result.termination, Finished)
    place = first if first >= 0 else last
    if (crashed or first >= 0) and odd and place >= min(odd):
        return None
    return termination_finding(scenario, run, problem=trial.problem)


def _odd_steps(scenario: Scenario) -> set[int]:
    """Return the steps that make, call on or read inputs in an unusual layout, or overwrite.

    An expanded result cannot be written into, which is no fault.
    """
    slots = {step.slot for step in scenario.steps if isinstance(step, Arrange)}
    results = {s.result for s in scenario.steps if isinstance(s, Call) and s.slot in slots}
    return {
        index
        for index, step in enumerate(scenario.steps)
        if isinstance(step, Arrange | Overwrite)
        or (isinstance(step, Call) and step.slot in slots)
        or (isinstance(step, ReadResult) and step.result in results)
    }


def _answers(scenario: Scenario, run: Run) -> Iterator[_Answer]:
    """Yield every answer that came back; a refused call leaves a gap."""
    arranged: dict[str, Mapping[str, Layout]] = {}
    slots: dict[str, str] = {}
    written = 0
    for index, step, follower in followed(scenario):
        record = done(run, index)
        match step:
            case Arrange(slot=slot, layouts=layouts):
                possible = record is not None and not any(
                    text.startswith("impossible") for _, text in record.facts
                )
                arranged[slot] = layouts if possible else {}
            case Call(slot=slot, result=result):
                slots[result] = slot
            case Overwrite(result=result) if record is not None:
                written = follower.results[result][1]
            case ReadResult(result=result) if record is not None:
                position, number = follower.results[result]
                case = scenario.cases[position]
                read = Read(result=result, case=case, call=number, items=record.items)
                layouts = arranged.get(slots[result], {})
                yield _Answer(read=read, layouts=layouts, written=written)
                written = 0
            case _:
                pass


def _judged(trial: Trial, run: Run, answers: Iterable[_Answer]) -> list[_Answer]:
    """Compare each answer with truth; one with the bits of an earlier one is as right."""
    judged: list[_Answer] = []
    for answer in answers:
        twin = next(
            (
                old
                for old in judged
                if old.read.case == answer.read.case
                and same_bits(run, old.read.items, answer.read.items)
            ),
            None,
        )
        if twin is not None:
            answer.wrong, answer.far = twin.wrong, twin.far
        else:
            failed = wrong_outputs(trial, answer.read, run)
            answer.wrong = bool(failed)
            answer.far = any(c.mismatch or not c.share <= _FAR for c in failed)
        judged.append(answer)
    return judged


def _blame(trial: Trial, run: Run, answers: Sequence[_Answer], position: int) -> str:
    """Return what to say of a wrong answer if earlier calls are at fault, or nothing."""
    answer = answers[position]
    same = [other for other in answers if other is not answer and answer.same_call(other)]
    before = answers[position - 1] if position else None
    change = _change(before, answer)
    if any(not other.wrong for other in same):
        known = next(other for other in same if not other.wrong)
        return f"is wrong {change}; call {known.read.call} on the same values is right"
    earlier = answers[:position]
    if before is None or not _first(answers, position):
        return ""  # wrong at its first time, when nothing was to be said
    if answer.far and _is_plain(before, answer, answers):
        return f"is wrong {change}"
    for other in earlier:
        text = "" if other.wrong else _of_another(trial, run, other, answer)
        if text:
            return f"{text} {change}"
    return ""


def _first(answers: Sequence[_Answer], position: int) -> bool:
    """Whether an answer is the first one to its call."""
    return not any(answers[position].same_call(other) for other in answers[:position])


def _is_plain(before: _Answer, answer: _Answer, answers: Sequence[_Answer]) -> bool:
    """Whether a call differs from the one before in layout or size, and is the ordinary one.

    That is the contiguous one, or the largest of more than two sizes: if it is right by
    itself, which other checks see, then what came before it is at fault.
    """
    if before.read.case == answer.read.case:
        return bool(before.layouts) and not (answer.layouts or before.wrong)
    right_once = any(not other.wrong for other in answers)
    sizes = {tuple(other.read.case.axes.values()) for other in answers}
    own = tuple(answer.read.case.axes.values())
    largest = all(a >= b for other in sizes for a, b in zip(own, other, strict=True))
    differs = tuple(before.read.case.axes.values()) != own
    return differs and right_once and not answer.layouts and (largest or len(sizes) == 2)


def _of_another(trial: Trial, run: Run, other: _Answer, answer: _Answer) -> str:
    """Return `returned the answer of call 1` if that is what an answer is, or nothing."""
    old, new = other.read.case, answer.read.case
    if old == new or dict(old.axes) != dict(new.axes):
        return ""
    if same_bits(run, other.read.items, answer.read.items) and truth_moved(trial, old, new):
        return f"returned the answer of call {other.read.call}"
    if is_right_for(trial, old, read=answer.read, run=run):
        return f"returned an answer for the values of call {other.read.call}"
    return ""


def _change(before: _Answer | None, now: _Answer) -> str:
    """Return what had changed since the call before, in words."""
    if now.written:
        return f"after the caller wrote into what call {now.written} returned"
    if before is None:
        return "at first"
    old, new = before.read.case, now.read.case
    if dict(old.axes) != dict(new.axes):
        return f"after {sizes_in_words(old, new)}"
    if before.layouts != now.layouts:
        names = dict.fromkeys((*before.layouts, *now.layouts))
        parts = [f"{n} went from {_of(before, n)} to {_of(now, n)}" for n in names]
        return f"after {' and '.join(parts)}"
    return f"after {change_in_words(old, new) or 'other calls'}"


def _of(answer: _Answer, name: str) -> str:
    return answer.layouts.get(name, Layout.CONTIGUOUS).value
