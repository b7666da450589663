"""Each cause as a hypothesis: what would be seen if it were true, and the calls that show it.

A cause that findings suggest is said only where its prediction came true. Most checks look for
one cause, so what they saw is the experiment (`Observation`). The others (`Prediction`) need calls
of their own: an `Experiment` is scenarios and a pure function of what they returned, so whoever
holds a process may run it, and may wait for it. `judge.diagnose.clues` does.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuassay.checks.numeric.common import single_call
from cuassay.diagnosis.growth import LEAST_GROWTH, fitted_exponent, is_growth
from cuassay.inputs.elements import has_magnitude
from cuassay.inputs.geometry import elements, legal, tensor_inputs, try_sizes, workload_sizes
from cuassay.inputs.seeds import derive
from cuassay.model.case import Case, Fill
from cuassay.model.diagnosis import Cause
from cuassay.model.problem import Problem, VarAxis
from cuassay.model.scenario import Allocate, Call, ReadResult, Refill, Scenario, call_steps
from cuassay.model.steps import Overwrite

_TILES = (128, 1024)  # sizes that are a multiple of one of them have no tail in a usual kernel
_DRAWS = 2  # of values under which sizes must tell right from wrong
_SURE_DRAWS = 4  # where a size is called right
_FAR = 2.0**10  # times the values, up and down, where their magnitude is asked for
_LENGTHS = (1, 4, 16, 64)  # times the shortest sum
_SHORTEST = 32
_SMALL = 16  # a size that fits into one tile of most kernels
_LISTED = 3  # workloads at whose sizes a failing case is tried
_BISECTED = 12  # rounds of a search for the size at which right turns into wrong
_SHARP = 8.0  # times smaller the error must be on the right side of that size


class Ruling(enum.StrEnum):
    """What an experiment made of a hypothesis."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"  # nothing could be compared, or the answers say both


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One scenario of an experiment; every result that it reads is compared with truth."""

    name: str
    scenario: Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a question, one entry a read in its order.

    `right` says whether the answer was right for its call (None: truth cannot decide there),
    `errors` are norm(error) / norm(truth), infinite where a value is not finite. `kept` says that
    results that were read twice held the same bytes, `same` that all results did. `first_wrong`
    maps each axis of an output to the smallest index at which an element is wrong, over all reads;
    from the first wrong element on there are `wrong_end` of the `elements` of an output.
    """

    right: tuple[bool | None, ...]
    errors: tuple[float, ...]
    kept: bool = True
    same: bool = False
    first_wrong: Mapping[str, int] = field(default_factory=dict)
    wrong_end: int = 0
    elements: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The ruling, in `words` what was seen, and `then` further questions where any are needed.

    `cause` is another one that the replies show instead.
    """

    ruling: Ruling
    words: str = ""
    then: Experiment | None = None
    cause: Cause | None = None


Conclude: TypeAlias = Callable[[Mapping[str, Reply]], Conclusion]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """Questions, and what their replies mean.

    Those about what earlier calls leave ask for a process of their own. Those about numbers share
    one, of a candidate that is wrong at its first call: to start one takes longer than many calls.

    A question whose scenario did not come to its end has no reply.
    """

    questions: tuple[Question, ...]
    conclude: Conclude


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What experiments are about: a case on which a kernel is wrong.

    `ordinary` is a planned case with ordinary values. `grows` are axes that the reference reduces.
    `calls` are the cases of a history in which some answer was wrong, `moved` pairs of cases that
    differ in one argument. Cases of more than `most_elements` are not tried.
    """

    problem: Problem
    wrong: Case
    ordinary: Case | None = None
    grows: Sequence[str] = ()
    calls: Sequence[Case] = ()
    moved: Sequence[tuple[Case, Case]] = ()
    most_elements: int = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A hypothesis whose prediction is what a check, or the machine, looks for by itself."""

    prediction: str


Design: TypeAlias = Callable[[Subject], Experiment | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A hypothesis that is tried with calls of its own before it is said.

    `experiment` returns None where the subject allows none: the cause is then not said.
    """

    prediction: str
    experiment: Design


Hypothesis: TypeAlias = Observation | Prediction


HYPOTHESES: dict[Cause, Hypothesis] = {}


def _tested_by(*causes: Cause, prediction: str) -> Callable[[Design], Design]:
    """Let the function below design the experiment on a prediction of each of the causes."""

    def enter(design: Design) -> Design:
        one = Prediction(prediction=prediction, experiment=design)
        HYPOTHESES.update(dict.fromkeys(causes, one))
        return design

    return enter


@_tested_by(
    Cause.STALE_ANSWER,
    Cause.CALL_HISTORY,
    prediction="each call of the history is right as the first one of a process",
)
def _fresh_calls(subject: Subject) -> Experiment | None:
    """Ask each call of a history as the first one of a process."""
    cases = [case for case in subject.calls if _fits(subject, case)]
    questions = tuple(_ask(f"call {number}", case, alone=True) for number, case in enumerate(cases))

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        told = [right for reply in replies.values() for right in reply.right if right is not None]
        if not told:
            return Conclusion(ruling=Ruling.OPEN)
        if all(told):
            return Conclusion(ruling=Ruling.CONFIRMED, words="right as the first call of a process")
        return Conclusion(ruling=Ruling.REFUTED, words="wrong as the first call of a process too")

    return Experiment(questions=questions, conclude=conclude) if questions else None


def after_other_calls(subject: Subject) -> Experiment | None:
    """Ask for the failing case as the first call of a process, and after ordinary ones."""
    wrong = subject.wrong
    if not _fits(subject, wrong):
        return None
    plain = subject.ordinary
    before = [] if plain is None else [dataclasses.replace(plain, axes=wrong.axes, workload=None)]
    cases = (*before, redrawn(wrong, 1), redrawn(wrong, 2), wrong)
    steps = tuple(step for n in range(len(cases)) for step in call_steps(f"s{n}", n, f"r{n}"))
    later = Question(name="later", scenario=_scenario("after other calls", cases, steps))

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        if not _is(replies, "first", True) or "later" not in replies:
            return Conclusion(ruling=Ruling.OPEN)
        is_wrong = replies["later"].right[-1] is False
        return Conclusion(ruling=Ruling.CONFIRMED if is_wrong else Ruling.REFUTED)

    return Experiment(questions=(_ask("first", wrong, alone=True), later), conclude=conclude)


@_tested_by(
    Cause.FIRST_CALL, prediction="of two equal calls in a new process the first alone is wrong"
)
def _called_twice(subject: Subject) -> Experiment | None:
    """Ask for the same call twice in one process."""
    if not _fits(subject, subject.wrong):
        return None
    steps = (
        *call_steps("a", 0, "first"),
        Call(slot="a", result="second"),
        ReadResult(result="second"),
    )
    scenario = _scenario("the same call twice", (subject.wrong,), steps)

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        reply = replies.get("twice")
        if reply is None or len(reply.right) < 2 or None in reply.right:
            return Conclusion(ruling=Ruling.OPEN)
        first_alone = reply.right == (False, True)
        return Conclusion(ruling=Ruling.CONFIRMED if first_alone else Ruling.REFUTED)

    return Experiment(questions=(Question(name="twice", scenario=scenario),), conclude=conclude)


@_tested_by(
    Cause.OUTPUT_REUSED,
    prediction="a result changes while another call is made on other tensors, or on the same ones "
    "after the caller wrote into it",
)
def _held_results(subject: Subject) -> Experiment | None:
    """Hold a result while another call is made, and while only the inputs take other values."""
    first, second = subject.wrong, redrawn(subject.wrong, 1)
    if not _fits(subject, first):
        return None
    begin = (Allocate(slot="a", case=0), Call(slot="a", result="held"), ReadResult(result="held"))
    another = (
        *call_steps("b", 1, "later"),
        ReadResult(result="held"),
    )
    changed = (Refill(slot="a", case=1), ReadResult(result="held"))
    # A buffer kept for each argument holds the same values after an equal call, but not NaN.
    equal = (Call(slot="a", result="later"), ReadResult(result="held"))
    questions = tuple(
        Question(name=name, scenario=_scenario(name, (first, second), steps))
        for name, steps in (
            ("another call", (*begin, *another)),
            ("other inputs", (*begin, *changed)),
            ("equal call", (*begin[:2], Overwrite(result="held"), begin[2], *equal)),
        )
    )

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        after, without = replies.get("another call"), replies.get("other inputs")
        equal = replies.get("equal call")
        if without is not None and not without.kept:
            return Conclusion(ruling=Ruling.CONFIRMED, cause=Cause.OUTPUT_SHARES_INPUT)
        if any(reply is not None and not reply.kept for reply in (after, equal)):
            return Conclusion(ruling=Ruling.CONFIRMED)
        if after is None or equal is None:
            return Conclusion(ruling=Ruling.OPEN)
        return Conclusion(ruling=Ruling.REFUTED)

    return Experiment(questions=questions, conclude=conclude)


@_tested_by(
    Cause.INPUT_IGNORED,
    prediction="the answer keeps its bytes where this argument alone takes values far off",
)
def _argument_moved_far(subject: Subject) -> Experiment | None:
    """Ask for calls that differ in one argument alone; a number moves by far.

    An epsilon at another place than the reference's may be too small there to change a bit.
    """
    every: list[tuple[str, tuple[Case, ...]]] = []
    for number, (base, moved) in enumerate(subject.moved):
        far = dict(moved.scalars)
        for name, value in moved.scalars.items():
            if isinstance(value, float) and base.scalars.get(name) != value:
                far[name] = value * _FAR**2
        pair = base, dataclasses.replace(moved, scalars=far)
        every.append((f"pair {number}", pair))
        plain = subject.ordinary
        if plain is not None and not base.benchmark and not base.generator:
            # A loop that runs over no term at a small size reads nothing of an argument there.
            larger = (dataclasses.replace(c, axes=plain.axes, workload=None) for c in pair)
            every.append((f"larger {number}", tuple(larger)))
    questions = []
    for name, cases in every:
        steps = tuple(step for at in range(2) for step in call_steps(f"s{at}", at, f"r{at}"))
        scenario = dataclasses.replace(_scenario("far", cases, steps), fresh=False)
        questions.append(Question(name=name, scenario=scenario))

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        if not replies:
            return Conclusion(ruling=Ruling.OPEN)
        ignored = any(
            reply.same
            and reply.right[1:] != (True,)
            and (beyond is None or beyond.same or beyond.right[1:] == (True,))
            for name, reply in replies.items()
            if name.startswith("pair")
            for beyond in [replies.get(name.replace("pair", "larger"))]
        )
        return Conclusion(ruling=Ruling.CONFIRMED if ignored else Ruling.REFUTED)

    return Experiment(questions=tuple(questions), conclude=conclude) if questions else None


@_tested_by(
    Cause.TAIL,
    prediction="right at sizes rounded up to whole tiles and at listed ones without a "
    "tail, wrong at the next size with one",
)
def _partial_tile(subject: Subject) -> Experiment | None:
    """Ask for listed sizes without a tail, then for whole tiles and the same tail beyond them."""
    wrong = subject.wrong
    if not may_move(wrong):
        return None
    moved = [a for a in subject.problem.var_axes() if wrong.axes[a.name] % _TILES[0]]
    choices = [[axis] for axis in moved] + ([moved] if len(moved) > 1 else [])
    padded: list[tuple[Case, Case, Case | None]] = []
    for tile in _TILES:
        for axes in choices:
            larger = {a.name: _up(wrong.axes[a.name], tile) for a in axes}
            beyond = {name: size + wrong.axes[name] % tile for name, size in larger.items()}
            whole, tail = _at(subject, larger), _at(subject, beyond)
            # A count that is right by chance at one size is wrong at the next.
            next_whole = _at(subject, {name: 2 * size for name, size in larger.items()})
            if whole is not None and tail is not None:
                padded.append((whole, tail, next_whole))
    if not padded:
        return None
    listed = [
        case
        for case in _listed(subject)
        if not any(case.axes[axis.name] % _TILES[0] for axis in subject.problem.var_axes())
    ]

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        if any(_is(replies, f"listed {number}", False) for number in range(len(listed))):
            return Conclusion(ruling=Ruling.REFUTED, words="wrong at listed sizes without a tail")
        if not _is(replies, "same", False):
            return Conclusion(ruling=Ruling.REFUTED, words="right for other values")
        return Conclusion(ruling=Ruling.OPEN, then=_whole_tiles(subject, padded))

    questions = (
        _ask("same", redrawn(wrong, 1)),
        *(_ask(f"listed {number}", case) for number, case in enumerate(listed)),
    )
    return Experiment(questions=questions, conclude=conclude)


def _whole_tiles(
    subject: Subject, padded: Sequence[tuple[Case, Case, Case | None]], *, draw: int = 0
) -> Experiment | None:
    """Ask for whole tiles and a tail beyond them, one choice of axes after another."""
    if not padded:
        return None
    (whole, tail, next_whole), *rest = padded
    questions = (
        _ask("whole", redrawn(whole, draw)),
        _ask("tail", redrawn(tail, draw)),
        *([] if next_whole is None else [_ask("next whole", redrawn(next_whole, draw))]),
    )

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        more = next_whole is None or not _is(replies, "next whole", False)
        if not (more and _is(replies, "whole", True) and _is(replies, "tail", False)):
            return Conclusion(ruling=Ruling.REFUTED, then=_whole_tiles(subject, rest))
        # Where nothing is added up along an axis, elements before its last tile have no tail.
        # They may be a part of a flat index, which ends with a part of its own.
        reply, first = replies["tail"], replies["tail"].first_wrong
        flat = reply.wrong_end <= _TILES[-1] and 3 * reply.wrong_end <= reply.elements
        for name, size in whole.axes.items():
            moved_axis = subject.wrong.axes[name] != size
            if (
                moved_axis
                and not flat
                and name not in subject.grows
                and first.get(name, size) < size
            ):
                return Conclusion(ruling=Ruling.REFUTED, words="wrong in whole tiles too")
        if draw + 1 < _DRAWS:
            again = _whole_tiles(subject, padded, draw=draw + 1)
            return Conclusion(ruling=Ruling.OPEN, then=again)
        moved = [name for name, size in whole.axes.items() if subject.wrong.axes[name] != size]
        at = ", ".join(f"{name}={subject.wrong.axes[name]}" for name in moved)
        sizes = ", ".join(f"{name}={whole.axes[name]}" for name in moved)
        return Conclusion(ruling=Ruling.CONFIRMED, words=f"wrong at {at} and right at {sizes}")

    return Experiment(questions=questions, conclude=conclude)


@_tested_by(
    Cause.SIZES,
    prediction="right at other sizes on the same recipes of values, and wrong at once "
    "beyond one size",
)
def _some_sizes(subject: Subject) -> Experiment | None:
    """Ask for other sizes on equal recipes, then for the size at which right turns into wrong.

    An error that fades as an axis grows, such as that of a divisor n - 1, turns right nowhere at
    once: on the last right size the error must be a small part of that on the first wrong one.
    """
    wrong = subject.wrong
    if not may_move(wrong):
        return None
    others = [*_listed(subject), *moved_one_axis(subject)]
    others = [case for case in others if dict(case.axes) != dict(wrong.axes)]
    if not others:
        return None
    questions = (
        _ask("same", redrawn(wrong, 1)),
        *(_ask(f"other {number}", case) for number, case in enumerate(others)),
    )

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        if not _is(replies, "same", False):
            return Conclusion(ruling=Ruling.REFUTED, words="right for other values")
        right = [c for number, c in enumerate(others) if _is(replies, f"other {number}", True)]
        if not right:
            return Conclusion(ruling=Ruling.REFUTED, words="wrong at every size that was tried")
        near = min(right, key=lambda case: _distance(subject.problem, wrong, case))
        return Conclusion(ruling=Ruling.OPEN, then=_turning_point(subject, near, wrong))

    return Experiment(questions=questions, conclude=conclude)


def _is(replies: Mapping[str, Reply], name: str, value: bool) -> bool:  # a ruling
    """Whether the one answer to a question was right, or wrong."""
    return name in replies and replies[name].right == (value,)


def _turning_point(
    subject: Subject, right: Case, wrong: Case, *, rounds: int = _BISECTED
) -> Experiment | None:
    """Bisect between sizes that are right and wrong, one axis after another, to neighbours."""
    axis = next(
        (a for a in subject.problem.var_axes() if right.axes[a.name] != wrong.axes[a.name]), None
    )
    if axis is None:
        return None
    low, high = right.axes[axis.name], wrong.axes[axis.name]
    others = [
        a
        for a in subject.problem.var_axes()
        if a is not axis and right.axes[a.name] != wrong.axes[a.name]
    ]
    if others:  # first which axis matters: this one as the wrong case has it
        middle = _at(subject, {axis.name: high}, case=right)
    elif abs(high - low) > axis.multiple_of and rounds:
        step = axis.multiple_of
        half = (low + high) // 2 // step * step
        if half in (low, high):
            half = low + (step if high > low else -step)
        middle = _at(subject, {axis.name: half}, case=right)
    else:
        middle = None
    if middle is None:
        # Of one row or column no other can be taken: that it is right there says nothing of sizes.
        alone = min(low, high) <= axis.multiple_of and low < high
        return None if others or alone else _sharp(axis, right, wrong)
    asked = middle

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        reply = replies.get("middle")
        if reply is None or None in reply.right:
            return Conclusion(ruling=Ruling.OPEN)
        pair = (asked, wrong) if all(reply.right) else (right, asked)
        return Conclusion(
            ruling=Ruling.OPEN, then=_turning_point(subject, *pair, rounds=rounds - 1)
        )

    question = _ask_draws("middle", asked, number=_SURE_DRAWS)
    return Experiment(questions=(question,), conclude=conclude)


def _sharp(axis: VarAxis, right: Case, wrong: Case) -> Experiment:
    """Ask for both sides of the turning point: an answer there is right, or far off.

    Beyond it some draws may be right: a last tile of one column need not hold what matters.
    """
    questions = tuple(
        _ask_draws(name, case, number=_SURE_DRAWS)
        for name, case in (("right", right), ("wrong", wrong))
    )

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        inside, beyond = replies.get("right"), replies.get("wrong")
        if inside is None or beyond is None or None in (*inside.right, *beyond.right):
            return Conclusion(ruling=Ruling.OPEN)
        most = max(inside.errors)
        far = [error > _SHARP * most for error in beyond.errors]
        either = all(is_far or is_right for is_far, is_right in zip(far, beyond.right, strict=True))
        if not all(inside.right) or not any(far) or not either:
            return Conclusion(ruling=Ruling.REFUTED, words="the error fades with the size")
        sizes = f"{axis.name}={wrong.axes[axis.name]}"
        beside = f"{axis.name}={right.axes[axis.name]}"
        return Conclusion(ruling=Ruling.CONFIRMED, words=f"wrong at {sizes} and right at {beside}")

    return Experiment(questions=questions, conclude=conclude)


@_tested_by(
    Cause.LOW_ACCUMULATION,
    prediction="the error grows with the length of the sum, the exponent's interval above "
    f"{LEAST_GROWTH}; or the machine sees the bits go",
)
def _grows(subject: Subject) -> Experiment | None:
    """Lengthen a reduced axis and ask how the error grows."""
    wrong = subject.wrong
    if wrong.benchmark or wrong.generator or not subject.grows:
        return None
    drawn = dataclasses.replace(
        wrong, fills={name: fill for name, fill in wrong.fills.items() if fill.kind != "explicit"}
    )
    series: dict[str, list[tuple[int, Case]]] = {}
    for name in subject.grows:
        axis = next((a for a in subject.problem.var_axes() if a.name == name), None)
        if axis is None:
            continue
        step = axis.multiple_of
        shortest = _up(max(_SHORTEST, axis.minimum), step)
        found = [
            (length, case)
            for factor in _LENGTHS
            if (case := _at(subject, {name: (length := shortest * factor)}, case=drawn)) is not None
        ]
        if len(found) >= 3:
            series[name] = found
    if not series:
        return None
    questions = tuple(
        _ask_draws(f"{name} {length}", case)
        for name, found in series.items()
        for length, case in found
    )

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        told = False
        for name, found in series.items():
            points = [
                (float(length), error)
                for length, _ in found
                if (reply := replies.get(f"{name} {length}")) is not None
                for error in reply.errors
                if 0 < error < math.inf
            ]
            if len(points) < 2 * 3:
                continue
            told = True
            if is_growth(points):
                exponent, _ = fitted_exponent(points)
                words = f"the error grows as {name}^{exponent:.1f}"
                return Conclusion(ruling=Ruling.CONFIRMED, words=words)
        return Conclusion(ruling=Ruling.REFUTED if told else Ruling.OPEN)

    return Experiment(questions=questions, conclude=conclude)


@_tested_by(Cause.MAGNITUDE, prediction="right for the same values times, or divided by, 1024")
def _magnitude(subject: Subject) -> Experiment | None:
    """Ask for the same values, a thousand times larger and smaller: powers of two are exact."""
    wrong = subject.wrong
    if wrong.benchmark or any(fill.kind == "explicit" for fill in wrong.fills.values()):
        return None
    changed = {
        "larger": _scaled(subject.problem, wrong, _FAR),
        "smaller": _scaled(subject.problem, wrong, 1.0 / _FAR),
    }
    ordinary = subject.ordinary
    if ordinary is not None:
        ordinary = dataclasses.replace(ordinary, axes=wrong.axes, workload=None)
    questions = (
        _ask("same", redrawn(wrong, 1)),
        *(_ask(name, case) for name, case in changed.items()),
        *([] if ordinary is None else [_ask("ordinary", ordinary)]),
    )

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        if not _is(replies, "same", False):
            return Conclusion(ruling=Ruling.REFUTED, words="right for other values")
        # Where ordinary values are wrong too, their magnitude is not what is wrong.
        if ordinary is not None and not _is(replies, "ordinary", True):
            return Conclusion(ruling=Ruling.REFUTED, words="wrong for ordinary values")
        right = [name for name in changed if _is(replies, name, True)]
        if len(right) != 1:
            return Conclusion(ruling=Ruling.REFUTED)
        times = "times" if right[0] == "larger" else "divided by"
        words = f"wrong for these values, right for the same values {times} {_FAR:.0f}"
        again = _confirmed(redrawn(changed[right[0]], 1), words)
        return Conclusion(ruling=Ruling.OPEN, then=again)

    return Experiment(questions=questions, conclude=conclude)


def _confirmed(case: Case, words: str) -> Experiment:
    """Ask for one more case that must be right."""

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        is_right = _is(replies, "again", True)
        return Conclusion(ruling=Ruling.CONFIRMED if is_right else Ruling.REFUTED, words=words)

    return Experiment(questions=(_ask("again", case),), conclude=conclude)


@_tested_by(
    Cause.SPECIAL_CASE,
    prediction="right for ordinary values of the same sizes, wrong for these again",
)
def _ordinary_values(subject: Subject) -> Experiment | None:
    """Ask for ordinary values at the sizes of the failing case."""
    plain, wrong = subject.ordinary, subject.wrong
    if plain is None or wrong.benchmark:
        return None
    at = dataclasses.replace(plain, axes=wrong.axes, workload=None)
    questions = (_ask("same", redrawn(wrong, 1)), _ask("ordinary", at))

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        if not _is(replies, "same", False) or not _is(replies, "ordinary", True):
            return Conclusion(ruling=Ruling.REFUTED)
        words = f"right for ordinary values, wrong for others of the same sizes ({wrong.label})"
        return Conclusion(ruling=Ruling.OPEN, then=_confirmed(redrawn(at, 1), words))

    return Experiment(questions=questions, conclude=conclude)


@_tested_by(Cause.OUT_OF_RANGE, prediction="the same values divided by 1024 give finite numbers")
def _overflows(subject: Subject) -> Experiment | None:
    """Ask for the same values divided by 1024: what left a format's range is then finite."""
    wrong = subject.wrong
    if wrong.benchmark or any(fill.kind == "explicit" for fill in wrong.fills.values()):
        return None
    small = _scaled(subject.problem, wrong, 1.0 / _FAR)
    questions = (_ask("same", redrawn(wrong, 0)), _ask("smaller", redrawn(small, 0)))

    def conclude(replies: Mapping[str, Reply]) -> Conclusion:
        same, smaller = replies.get("same"), replies.get("smaller")
        if same is None or smaller is None:
            return Conclusion(ruling=Ruling.OPEN)
        born = any(not math.isfinite(error) for error in same.errors)
        gone = all(math.isfinite(error) for error in smaller.errors)
        return Conclusion(ruling=Ruling.CONFIRMED if born and gone else Ruling.REFUTED)

    return Experiment(questions=questions, conclude=conclude)


def _ask(name: str, case: Case, *, alone: bool = False) -> Question:
    """Ask for one call, `alone` as the first one of a process."""
    call = single_call(case, label=f"diagnosis: {case.label}")
    return Question(name=name, scenario=dataclasses.replace(call, fresh=alone))


def _ask_draws(name: str, case: Case, *, number: int = _DRAWS) -> Question:
    """Ask for a case under several draws of its values, one call after another."""
    cases = tuple(redrawn(case, n) for n in range(number))
    steps = tuple(step for n in range(number) for step in call_steps(f"s{n}", n, f"r{n}"))
    scenario = dataclasses.replace(_scenario(case.label, cases, steps), fresh=False)
    return Question(name=name, scenario=scenario)


def _scenario(label: str, cases: tuple[Case, ...], steps: tuple[object, ...]) -> Scenario:
    return Scenario(label=f"diagnosis: {label}", cases=cases, steps=steps, fresh=True)  # type: ignore[arg-type]


def redrawn(case: Case, number: int) -> Case:
    """Return a case with other values by the same recipes; number 0 is the case itself."""
    if not number:
        return case
    return dataclasses.replace(case, seed=derive(case.seed, "diagnosis", number))


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _fits(subject: Subject, case: Case) -> bool:
    small = elements(subject.problem, case.axes) <= subject.most_elements
    return case.in_domain and case.state is None and small


def may_move(case: Case) -> bool:
    """Return whether a case can be made at other sizes: listed values have sizes of their own."""
    explicit = any(fill.kind == "explicit" for fill in case.fills.values())
    return not (case.benchmark or case.generator or explicit)


def _at(subject: Subject, changes: Mapping[str, int], *, case: Case | None = None) -> Case | None:
    """Return a case (the wrong one) with some axes changed, None where that is not legal."""
    case = case or subject.wrong
    sizes = try_sizes(subject.problem, case.axes, changes)
    if sizes is None or not legal(subject.problem, sizes):
        return None
    moved = dataclasses.replace(case, axes=sizes, workload=None)
    return moved if elements(subject.problem, sizes) <= subject.most_elements else None


def _listed(subject: Subject) -> list[Case]:
    """Return the failing case at the sizes of some workloads, the smallest first."""
    found = [workload_sizes(subject.problem, one) for one in subject.problem.workloads]
    found.sort(key=lambda sizes: elements(subject.problem, sizes))
    names = [axis.name for axis in subject.problem.var_axes()]
    cases = (_at(subject, {name: sizes[name] for name in names}) for sizes in found)
    return [case for case in cases if case is not None][:_LISTED]


def moved_one_axis(subject: Subject) -> Iterator[Case]:
    """Yield the failing case with one axis small, at half, beside its size, and at twice that."""
    for axis in subject.problem.var_axes():
        size, step = subject.wrong.axes[axis.name], axis.multiple_of
        for other in (_SMALL, size // 2, size - step, size + step, 2 * size):
            fitted = _up(other, step)
            case = _at(subject, {axis.name: fitted}) if fitted != size else None
            if case is not None:
                yield case


def _distance(problem: Problem, first: Case, second: Case) -> tuple[int, float]:
    """Return how many axes differ between two cases, and by how much."""
    apart = [
        abs(math.log(max(first.axes[a.name], 1) / max(second.axes[a.name], 1)))
        for a in problem.var_axes()
        if first.axes[a.name] != second.axes[a.name]
    ]
    return len(apart), sum(apart)


def _scaled(problem: Problem, case: Case, factor: float) -> Case:
    """Return a case whose real inputs of two and more dimensions are multiplied."""
    ranks = [len(spec.shape) for spec in tensor_inputs(problem) if has_magnitude(spec)]
    least = min(max(ranks, default=0), 2)
    fills = dict(case.fills)
    for spec in tensor_inputs(problem):
        fill = fills.get(spec.name)
        if not has_magnitude(spec) or len(spec.shape) < least or fill is None:
            continue
        before = fill.parameters.get("scale_by", 1.0)
        assert isinstance(before, int | float)
        parameters = {**fill.parameters, "scale_by": before * factor}
        fills[spec.name] = Fill(kind=fill.kind, parameters=parameters)
    return dataclasses.replace(case, fills=fills)


def _seen(*causes: Cause, prediction: str) -> dict[Cause, Hypothesis]:
    return {cause: Observation(prediction=prediction) for cause in causes}


HYPOTHESES |= {
    **_seen(
        Cause.NOT_BUILT,
        Cause.WRONG_STRUCTURE,
        Cause.RAISES,
        Cause.REFUSES_SIZES,
        Cause.ENDS_PROCESS,
        Cause.CRASHES,
        Cause.HANGS,
        Cause.FORGES,
        Cause.PRINTS,
        Cause.LAUNCH_FAILED,
        prediction="the call ends so",
    ),
    **_seen(
        Cause.INPUT_CHANGED,
        Cause.OUTPUT_SHARES_OUTPUT,
        Cause.HOW_CALLED,
        Cause.PROCESS_STATE,
        Cause.UNNECESSARY_KERNEL,
        Cause.UNDEFINED_READ,
        Cause.NOT_DETERMINISTIC,
        Cause.RANKS,
        Cause.INITIAL_VALUES,
        Cause.LOADED_STATE,
        Cause.EVALUATION_MODE,
        Cause.BUILT_EVALUATION,
        Cause.TRAINING_MODE,
        prediction="it shows with this alone changed, and with nothing else",
    ),
    **_seen(
        Cause.MISALIGNED,
        Cause.FALSE_ASSUMPTION,
        Cause.OUT_OF_BOUNDS,
        Cause.UNINITIALISED,
        Cause.UNWRITTEN,
        Cause.RACE,
        Cause.BARRIER,
        prediction="the machine sees the access, or other bytes there change the answer",
    ),
    **_seen(
        Cause.INPUT_MISREAD,
        Cause.TERM_OMITTED,
        Cause.WRONG_CONSTANT,
        Cause.OTHER_FORM,
        Cause.WRONG_REDUCTION,
        Cause.TRIVIAL_ANSWER,
        Cause.LOW_PRECISION,
        prediction="the reference broken so gives the same wrong numbers, an edit of the line "
        "gives right ones, or the machine sees the bits go",
    ),
    **_seen(
        Cause.LAYOUT,
        Cause.STREAM,
        Cause.GRAPH,
        Cause.DEVICE,
        Cause.LARGE_SIZES,
        Cause.GRADIENT,
        Cause.COMPILED,
        Cause.CUSTOM_OPERATOR,
        Cause.SLOW_HOST,
        Cause.TRAINING,
        prediction="right without this condition, wrong with it",
    ),
    Cause.WRONG_VALUES: Observation(prediction="the numbers are not those of the operator"),
    Cause.AUTOTUNER: Observation(
        prediction="an edit that leaves one configuration gives right numbers"
    ),
    Cause.OUTPUT_SHARES_INPUT: Observation(
        prediction="its memory is an input's, or it changes while the inputs do without a call"
    ),
}
