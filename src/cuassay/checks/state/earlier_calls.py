"""STATE001: answers that depend on earlier calls, and results that later calls change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cuassay.checks.base import Check, Run, Trial, done
from cuassay.checks.endings.findings import exception_text, memory_fault, termination_finding
from cuassay.checks.follow import followed, lies_elsewhere
from cuassay.checks.interface.inputs_used import change_in_words
from cuassay.checks.judgement import Answers
from cuassay.checks.needs import Group, Needs, Split, When
from cuassay.checks.numeric.common import message, where, worst_statistic
from cuassay.checks.plain_first import measured
from cuassay.checks.state.answers import Read, reads_of, same_bits, truth_moved
from cuassay.checks.state.changed_elements import with_change
from cuassay.checks.state.histories import Tensors, history_scenarios
from cuassay.checks.state.serving import serving_scenarios
from cuassay.checks.state.shapes_in_turn import slow_in_turn
from cuassay.errors import CannotJudgeError
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause
from cuassay.model.outcome import Finding, FindingClass, Severity, Where
from cuassay.model.reports import Served, Varied
from cuassay.model.scenario import Allocate, Autograd, Call, ReadResult, Refill, Scenario
from cuassay.model.step import Held
from cuassay.model.steps import Arrange, CallVaried, Layout, Misuse, Overwrite, Serve, Together
from cuassay.model.trace import (
    Finished,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    done_steps,
)

if TYPE_CHECKING:
    import torch

_AUTOCAST = "under torch.autocast"
_ROUNDED = 0.125  # of an answer, that rounding to 16 bits on the way may make of a plain one
_AS_AUTOCAST: Mapping[str, Any] = {
    "finding_class": FindingClass.UNSAFE,
    "severity": Severity.MEDIUM,
    "condition": f"autocast: it rounds to 16 bits {_AUTOCAST}, where the reference does not",
}
_ALIKE = 6  # pairs of inputs with the same result, of which truth is asked
_MOST_NAMED = 4  # inputs that a message names one by one
_FAR = 4.0  # a share of the budget beyond which no rounding explains an error


class State001(Check):
    """No answer depends on earlier calls

    What it does
        Calls the kernel several times in one process while the world changes between the calls
        as it does in training and serving. The tensors are the same, new ones, or new ones at
        the addresses of freed ones. Their values are the same, all new, or new in one argument
        or in one element. The shape stays, changes, or changes while the number of elements or
        of rows stays. One input is transposed. The caller holds the result before, reads and
        releases it, drops it, or writes into it. The call comes from another stream, from
        another thread, or with gradients on. Every pair of these choices occurs. The last calls
        are made as modules make them: with torch.nn.Parameter inputs, with frozen ones under
        torch.no_grad(), then without under torch.no_grad() and torch.inference_mode(). What the
        caller holds is read again at the end, also what it wrote into. Two more calls are made
        without and with torch.autocast. A module is called before and after its state takes
        other values: where it lies, as an optimizer writes them, and in other tensors, as a
        checkpoint brings them. Of one result a view alone is held. Scalars change far, and by a
        sixty-fourth. Without a GPU calls follow others that raise since a tensor is None. Of
        large tensors two neighbors change places, the slices their order, or all change by 2^-15
        of themselves. Then some 250 calls are made in a row: on one tensor, on several in turn,
        on one that is refilled before each call. These tensors hold the same numbers in another
        order, or with other signs. All results are held, and some of them read when the calls
        are over; once more at a large size, until results take 64 MiB. Some thousand calls
        follow on inputs that differ in one element each. Without a GPU a thread calls while
        another call stands still between two instructions of Python. From `standard` on 12
        shapes come in turn.

    Why it matters
        Caches keyed by address, identity or shape, packed weights that are not packed again,
        CUDA graphs that return their static buffers, and workspaces kept per shape gave 24 of
        63 faults in an audit of real kernels, and 14 of 17 in another. One call at a time,
        each of them is right.

    How it decides
        Every answer must be right for its own call, and every held result must keep its bytes, or
        those that the caller wrote. A wrong answer is a finding where the same call is right at
        another time, where it is the right answer to an earlier call, or where the kernel was right
        at first. So is one result for two inputs that truth tells apart. The finding says what was
        the same and what differed. What goes wrong between threads is the condition `threads`, a
        call that takes 20 times as long where shapes come in turn `shapes`. An answer that is wrong
        under torch.autocast alone is a finding, or the condition `autocast` where it differs by at
        most an eighth of the plain answer, as rounding to 16 bits may. What autocast makes of the
        reference too is not reported.

    Can it be wrong?
        A change that does not move truth decides nothing, since the old answer is then right.
        A kernel that is wrong from its first call on is left to NUM001. One that is far off at
        another shape is wrong, whether earlier calls made it so or not. An answer that is wrong
        at once in an unusual layout is left to LAYOUT001, and with it all that follows, for such
        a call may have written anywhere. A refusal of a layout, of gradients, of another stream
        or thread is left to the checks of these; one of parameters, torch.no_grad() or
        torch.inference_mode() is a condition. Results that share memory with an input are
        left to API002. Freed memory is poisoned before it is used again, so that a stale read
        cannot look right by luck. Single elements are changed in tensors of at most 4096
        elements. Of a slow kernel fewer calls are made in a row, as many as fit into 0.15 s for
        each way at `quick`; the result says how many.

    Example
        A CUDA graph kept by the inputs' addresses: "the result of call 1, which the caller still
        holds, changes: it is the result of call 2 when the same tensors are refilled with other
        values".

    Options
        --profile: quick and standard try every pair of choices, deep every triple. Tensors of
        a listed size change beyond their first 8192 elements, too; at quick a small one.
    """

    code = "STATE001"
    title = "No answer depends on earlier calls"
    cause = Cause.CALL_HISTORY
    classes = ("S1", "S2", "S3", "S4", "S6", "S7", "S8")
    needs = Needs(when=When.DECISIVE, split=Split.AMONG_SIDES, group=Group.HOST)
    judges_failures = True  # a layout, a thread or gradients may be refused

    def propose(self, trial: Trial) -> Iterator[Scenario]:
        """Yield the histories, each in a fresh process, then those as long as serving is."""
        yield from history_scenarios(trial)
        yield from serving_scenarios(trial)

    def findings(
        self, trial: Trial, scenario: Scenario, run: Run, answers: Answers
    ) -> Iterable[Finding]:
        """Blame the first answer that its own call does not explain, and results that changed."""
        ended = _ended(trial, scenario, run)
        if ended is not None:
            yield ended
            return
        yield from self._alike(trial, scenario, run)
        slow = slow_in_turn(scenario, run.result)
        if slow:
            yield self.finding(
                slow,
                scenario=scenario,
                finding_class=FindingClass.UNSAFE,
                condition=f"shapes: few in turn; {slow}",
            )
        if any(isinstance(step, Together) for step in scenario.steps):
            yield from self._together(scenario, run, answers)
            return
        # Compare each answer with truth; one with the bits of an earlier one is as right
        calls: list[HeldCall] = []
        for answer in _answers(scenario, run):
            twin = next(
                (
                    old
                    for old in calls
                    if old.case == answer.case and same_bits(run, old.read.items, answer.read.items)
                ),
                None,
            )
            if twin is not None:
                answer.wrong, answer.far = twin.wrong, twin.far
            else:
                failed = answers.wrong(answer.read)
                answer.wrong = bool(failed)
                answer.far = any(c.mismatch or not c.share <= _FAR for c in failed)
            calls.append(answer)
        for position, answer in enumerate(calls):
            if not answer.wrong:
                continue
            if answer.layouts and _first(calls, position):
                return  # left to LAYOUT001; it may have written anywhere
            text, cause = _overwritten(trial, run, calls, position) or _blame(
                trial, run, answers, calls, position
            )
            if text:
                failed = answers.wrong(answer.read)
                worst = failed[0]
                statistic = worst_statistic(worst)
                rounded = answer.call.autocast and _close(run, calls[0], answer)
                place = where(worst, answer.case, statistic) if not worst.mismatch else Where()
                outputs = ", ".join(comparison.output for comparison in failed)
                refused = any(isinstance(step, Misuse) for step in scenario.steps)
                after = ", after a call that raised" if refused else ""
                yield self.finding(
                    f"call {answer.number} {text}{after} ({outputs})",
                    scenario=scenario,
                    measured=statistic.value if statistic else None,
                    allowed=statistic.limit if statistic else None,
                    statistic="against truth for its own call",
                    where=place,
                    details=(("against its own truth", message(worst, statistic)),),
                    cause=cause,
                    **_AS_AUTOCAST if rounded else {},
                )
            if text or not position:
                break
        yield from self._changed(scenario, run, answers, calls)
        yield from self._refused(scenario, run)

    def _together(self, scenario: Scenario, run: Run, answers: Answers) -> Iterator[Finding]:
        """Yield the first answer that is wrong where two threads call, and right alone."""
        reads = reads_of(scenario, run)
        if any(answers.first_wrong(read) for read in reads[:2]):
            return
        for read in reads[2:]:
            found = answers.first_wrong(read)
            if found is not None:
                yield self.finding(
                    f"is wrong while another thread calls it as well ({found.output})",
                    scenario=scenario,
                    finding_class=FindingClass.UNSAFE,
                    condition="threads: calls from one thread at a time",
                    **measured(found, read.case),
                )
                return

    def _alike(self, trial: Trial, scenario: Scenario, run: Run) -> Iterator[Finding]:
        """Yield the first result that came for two inputs, of which truth tells one from another.

        The process says which results are the same: that speaks against the kernel alone.
        """
        for step, record in done_steps(scenario, run.result, CallVaried):
            pairs = record.report.alike if isinstance(record.report, Varied) else ()
            base = next(
                scenario.cases[one.case]
                for one in scenario.steps
                if isinstance(one, Allocate) and one.slot == step.slot
            )
            for numbers in pairs[:_ALIKE]:
                changes = [step.changes[number] for number in numbers]
                cases = [with_change(trial, base, change) for change in changes]
                try:
                    moved = truth_moved(trial, *cases)
                except CannotJudgeError:  # the reference refuses such a number
                    continue
                if moved:
                    one, other = (f"element {place} of {name}" for name, place, _ in changes)
                    yield self.finding(
                        f"returns the same result for two different inputs: {one} takes another "
                        f"value in one of them, {other} in the other",
                        scenario=scenario,
                        where=Where(axes=dict(base.axes)),
                        cause=Cause.STALE_ANSWER,
                    )
                    return

    def _refused(self, scenario: Scenario, run: Run) -> Iterator[Finding]:
        """Yield the first call that is refused for how it is made, which is a condition."""
        for index, step in enumerate(scenario.steps):
            record = run.result.records[index] if index < len(run.result.records) else None
            if not isinstance(step, Call) or not isinstance(record, StepRaised):
                continue
            words, key = f"under {step.autograd}, where nothing is recorded", "autograd"
            if step.autocast:
                words, key = _AUTOCAST, "autocast"
            elif step.autograd is Autograd.ON:
                continue  # what requires gradients is left to the check of these
            elif step.parameters:
                words = "for frozen parameters"
            if not memory_fault(record):
                yield self.finding(
                    f"{exception_text(record)} {words}",
                    scenario=scenario,
                    cause=Cause.HOW_CALLED,
                    finding_class=FindingClass.UNSAFE,
                    severity=Severity.MEDIUM,
                    condition=f"{key}: it raises {words.partition(',')[0]}",
                )
                return

    def _changed(
        self, scenario: Scenario, run: Run, answers: Answers, calls: Sequence[HeldCall]
    ) -> Iterator[Finding]:
        """Yield the first held result whose bytes are others at the end."""
        for answer in calls:
            if answer.last is None:
                continue
            changed = [
                after.name or f"output {number + 1}"
                for number, (before, after) in enumerate(
                    zip(answer.left or (), answer.last.items, strict=False)
                )
                if not before.aliases and not same_bits(run, (before,), (after,))
            ]
            if not changed:
                continue
            wrote = answer.left is not answer.read.items
            held = "into which the caller wrote" if wrote else "which the caller still holds"
            text = f"the result of call {answer.number}, {held}, changes"
            # Where equal calls share a buffer, the first of them has overwritten it.
            later = _holder(run, answers, answer, calls if wrote else calls[::-1])
            if later is not None:
                text += f": it is the result of call {later.number}"
                text += "" if wrote else f" {_when(answer, later)}"
            yield self.finding(
                f"{text} ({', '.join(changed)})",
                scenario=scenario,
                where=Where(output=changed[0], axes=dict(answer.case.axes)),
                cause=Cause.OUTPUT_REUSED,
            )
            return

    def remark(self, seen: Sequence[tuple[Scenario, ScenarioResult]]) -> str:
        """Say how many calls were made in a row: fewer of a slow kernel."""
        made = [
            sum(done.report.calls for _, done in served if isinstance(done.report, Served))
            for served in (done_steps(scenario, result, Serve) for scenario, result in seen)
            if served
        ]
        return f"{max(made)} calls in a row" if made else ""


@dataclass(slots=True, kw_only=True)
class HeldCall:
    """One call of a history, what it was made on, and what its result was at once and at last.

    `slot` names the tensors, `tensors` says where they came from since the call before, `refilled`
    whether values were copied into them. `written` is the call into whose result the caller
    had written just before, or 0. `read` is what came at once, `left` what the caller left there:
    the same, or what it wrote, None until that is read. `last` came at the end where it was held,
    of a `served` call when all calls were over.
    """

    number: int
    case: Case
    slot: str
    tensors: Tensors
    refilled: bool
    layouts: Mapping[str, Layout]
    call: Call
    written: int
    read: Read
    left: tuple[ResultItem, ...] | None
    last: Read | None = None
    served: bool = False
    wrong: bool = False
    far: bool = False

    def same_call(self, other: HeldCall) -> bool:
        """Whether two answers are to the same values in the same layouts."""
        return self.case == other.case and self.layouts == other.layouts

    def note(self, read: Read) -> None:
        """Take a later read for what the caller wrote, or else for what it holds at the end."""
        if self.left is None:
            self.left = read.items
        else:
            self.last = read


@dataclass(slots=True)
class _Slot:
    tensors: Tensors
    called: bool = False
    refilled: bool = False
    layouts: Mapping[str, Layout] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Without:
    """A run without what its steps raised where that is other checks' business."""

    result: ScenarioResult
    run: Run

    def tensor(self, item: ResultItem) -> torch.Tensor:
        """Return the bytes of an item."""
        return self.run.tensor(item)


def _ended(trial: Trial, scenario: Scenario, run: Run) -> Finding | None:
    """Return how the run ended, unless other checks are there for it.

    A call in an unusual layout may have written anywhere: what ends the process in it or after
    it is left to LAYOUT001. What else is unusual about a call may be refused by an exception.
    """
    records = run.result.records
    odd = [i for i, step in enumerate(scenario.steps) if isinstance(step, Arrange) and step.layouts]
    after_odd = odd[0] if odd else len(scenario.steps)
    refused: set[str] = set()
    excused: set[int] = set()
    for index, step in enumerate(scenario.steps):
        record = records[index] if index < len(records) else None
        if not isinstance(record, StepRaised):
            continue
        match step:
            case Call(result=result) if index > after_odd:
                refused.add(result)
            case Call(result=result) if (
                step.stream
                or step.thread
                or step.gradients
                or step.parameters
                or step.autocast
                or step.autograd is not Autograd.ON
            ) and not memory_fault(record):
                refused.add(result)
            case Together(results=results) if not memory_fault(record):
                refused.update(results)
            case ReadResult(result=result) | Overwrite(result=result) if (
                result in refused or index > after_odd
            ):
                pass  # an expanded result cannot be written into, which is no fault
            case Overwrite() | Arrange():
                pass
            case _:
                continue
        excused.add(index)
    if not isinstance(run.result.termination, Finished) and len(records) > after_odd:
        return None
    kept = tuple(r for i, r in enumerate(records) if i not in excused)
    rest = _Without(dataclasses.replace(run.result, records=kept), run)
    return termination_finding(scenario, rest, problem=trial.problem)


def _answers(scenario: Scenario, run: Run) -> Iterator[HeldCall]:
    """Yield every call whose result came back; a refused or dropped one leaves a gap.

    Ends where the caller wrote into a result that lies in an input: what follows is not the
    kernel's doing.
    """
    slots: dict[str, _Slot] = {}
    calls: dict[str, tuple[int, Case, str, Tensors, bool, Call, int]] = {}
    served: set[str] = set()
    found: dict[str, HeldCall] = {}
    written = number = 0
    for index, step, held in followed(scenario):
        record = done(run, index)
        match step:
            case Allocate(slot=slot):
                again = record is not None and any(item.scalar == 1.0 for item in record.items)
                slots[slot] = _Slot(Tensors.RECYCLED if again else Tensors.NEW)
            case Refill(slot=slot) if slot in slots:
                slots[slot].refilled = True
            case Arrange(slot=slot, layouts=layouts) if slot in slots:
                impossible = record is None or lies_elsewhere(record)
                slots[slot].layouts = {} if impossible else layouts
            case Call(slot=slot, result=result) if slot in slots:
                number = held.calls
                state = slots[slot]
                tensors = Tensors.SAME if state.called else state.tensors
                case = scenario.cases[held.slots[slot]]
                calls[result] = number, case, slot, tensors, state.refilled, step, written
                state.called, state.refilled, written = True, False, 0
            case Serve() if record is not None:
                for result, made_so in _served(scenario, step, record, held):
                    slot = made_so[2]
                    tensors = Tensors.SAME if slots[slot].called else slots[slot].tensors
                    slots[slot].called = True
                    calls[result] = (*made_so[:3], tensors, *made_so[3:], 0)
                    served.add(result)
            case Overwrite(result=result) if record is not None and result in found:
                answer = found[result]
                if any(item.aliases for item in answer.read.items):
                    break
                written, answer.left = answer.number, None
            case ReadResult(result=result) if record is not None and result in calls:
                made, case, slot, tensors, refilled, call, wrote = calls[result]
                read = Read(result=result, case=case, call=made, items=record.items)
                if result in found:
                    found[result].note(read)
                    continue
                found[result] = answer = HeldCall(
                    number=made,
                    case=case,
                    slot=slot,
                    tensors=tensors,
                    refilled=refilled,
                    layouts=slots[slot].layouts,
                    call=call,
                    written=wrote,
                    read=read,
                    left=read.items,
                    served=result in served,
                )
                yield answer
            case _:
                pass


def _served(
    scenario: Scenario, step: Serve, record: StepDone, held: Held
) -> Iterator[tuple[str, tuple[int, Case, str, bool, Call]]]:
    """Yield each result of a Serve and its call: number, case, slot, whether it was refilled."""
    made = record.report.calls if isinstance(record.report, Served) else step.count
    first = held.calls - step.count + 1
    for number in range(step.count):
        result, slot = step.name(number), step.slots[number % len(step.slots)]
        case = scenario.cases[held.results[result][0]]
        call = Call(slot=slot, result=result)
        yield result, (first + number % max(made, 1), case, slot, bool(step.values), call)


def _overwritten(
    trial: Trial, run: Run, calls: Sequence[HeldCall], position: int
) -> tuple[str, Cause] | None:
    """Return what to say of a held answer that is a later call's by now; None where it is not."""
    answer = calls[position]
    if not answer.served:
        return None
    others = [other for other in calls if not other.wrong and other.case != answer.case]
    # What an earlier call has returned already may have been kept: nothing was overwritten then.
    earlier = [other.case for other in others if other.number < answer.number]
    for later in others:
        if later.number <= answer.number or later.case in earlier:
            continue
        if same_bits(run, later.read.items, answer.read.items) and truth_moved(
            trial, answer.case, later.case
        ):
            return (
                f"returned a result that later calls change: read after {calls[-1].number} "
                f"calls, it is the result of call {later.number}",
                Cause.OUTPUT_REUSED,
            )
    return None


def _blame(
    trial: Trial, run: Run, answers: Answers, calls: Sequence[HeldCall], position: int
) -> tuple[str, Cause]:
    """Return what to say of a wrong answer if earlier calls are at fault, or nothing."""
    history = Cause.CALL_HISTORY
    answer, earlier = calls[position], calls[:position]
    known = next((o for o in calls if answer.same_call(o) and not o.wrong), None)
    if not earlier:
        if known is None:
            return "", history
        text = (
            f"is wrong, call {known.number} on the same values is right: "
            "something is left undone until the first call is over"
        )
        return text, Cause.FIRST_CALL
    for other in reversed(earlier):
        text = "" if other.wrong else _of_another(trial, run, answers, other, answer)
        if text:
            return f"{text} {_when(other, answer)}", Cause.STALE_ANSWER
    way = _wrong_way(calls, answer)
    if way and (known is not None or way.count > 1):
        rest = len(calls) - way.count
        return (
            f"is wrong {way.words}; {rest} calls that are made otherwise are right",
            Cause.HOW_CALLED,
        )
    before = earlier[-1]
    change = _when(before, answer)
    if known is not None:
        return f"is wrong {change}; call {known.number} on the same values is right", history
    # Served cases differ in more than seeds: one that is always wrong is left to the numbers.
    if earlier[0].wrong or answer.served or not _first(calls, position):
        return "", history
    right_there = any(
        not other.wrong
        and dict(other.case.axes) == dict(answer.case.axes)
        and other.layouts == answer.layouts
        for other in earlier
    )
    # At another shape or in the plain layout: wrong numbers are a fault there in any case.
    elsewhere = answer.far and not answer.layouts
    return f"is wrong {change}" if right_there or elsewhere else "", history


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to make a call, and in how many calls it was made so."""

    words: str
    count: int


_WAYS: Sequence[tuple[str, Callable[[Call], bool]]] = (
    ("on another stream", lambda call: bool(call.stream)),
    ("from another thread", lambda call: call.thread),
    (
        "when inputs require gradients",
        lambda call: call.gradients or (call.parameters and call.autograd is Autograd.ON),
    ),
    ("when inputs are parameters", lambda call: call.parameters),
    (_AUTOCAST, lambda call: call.autocast),
    (f"under {Autograd.OFF}", lambda call: call.autograd is Autograd.OFF),
    (f"under {Autograd.INFERENCE}", lambda call: call.autograd is Autograd.INFERENCE),
    (
        f"under {Autograd.OFF} and {Autograd.INFERENCE}",
        lambda call: call.autograd is not Autograd.ON,
    ),
)


def _wrong_way(answers: Sequence[HeldCall], answer: HeldCall) -> _Way | None:
    """Return the way in which an answer's call was made, if exactly the calls made so are wrong."""
    for words, is_so in _WAYS:
        if not is_so(answer.call):
            continue
        made_so = [other for other in answers if is_so(other.call)]
        if all(other.wrong is is_so(other.call) for other in answers):
            return _Way(words, len(made_so))
    return None


def _first(answers: Sequence[HeldCall], position: int) -> bool:
    """Whether an answer is the first one to its call."""
    return not any(answers[position].same_call(other) for other in answers[:position])


def _of_another(trial: Trial, run: Run, answers: Answers, other: HeldCall, answer: HeldCall) -> str:
    """Return `returns the result of call 1` if that is what an answer is, or nothing."""
    old, new = other.case, answer.case
    if old == new:
        return ""
    if same_bits(run, other.read.items, answer.read.items) and truth_moved(trial, old, new):
        return f"returns the result of call {other.number}"
    same_shapes = dict(old.axes) == dict(new.axes)
    if same_shapes and answers.is_right_for(old, answer.read):
        return f"returns a result for the values of call {other.number}"
    return ""


def _holder(
    run: Run, answers: Answers, answer: HeldCall, calls: Sequence[HeldCall]
) -> HeldCall | None:
    """Return the first of `calls` whose result a held one has become; None if unknown."""
    last = answer.last
    assert last is not None
    for later in calls:
        if later.number > answer.number and same_bits(run, later.read.items, last.items):
            return later
    for later in calls:
        if later.number > answer.number and answers.is_right_for(later.case, last):
            return later
    return None


def _close(run: Run, plain: HeldCall, cast: HeldCall) -> bool:
    """Whether an answer under autocast is the plain one, but for rounding to 16 bits on the way."""
    import torch

    if len(plain.read.items) != len(cast.read.items):
        return False
    for old, new in zip(plain.read.items, cast.read.items, strict=True):
        if old.buffer < 0 or new.buffer < 0 or old.shape != new.shape:
            return False
        before, after = (run.tensor(item).double() for item in (old, new))
        if not torch.equal(before.isfinite(), after.isfinite()):
            return False
        apart = (after - before).nan_to_num(0.0, 0.0, 0.0).norm()
        if bool(apart > _ROUNDED * before.nan_to_num(0.0, 0.0, 0.0).norm()):
            return False
    return True


def _records(call: Call) -> bool:
    return call.gradients and call.autograd is Autograd.ON


def _when(before: HeldCall, now: HeldCall) -> str:
    """Return `when the same tensors are refilled with other values`: what is the same, what not."""
    if now.written and now.number == before.number + 1:
        return f"after the caller wrote into what call {now.written} returned"
    old, new = before.case, now.case
    axes = [n for n, size in new.axes.items() if old.axes.get(n) != size]
    parts = [f"{n} goes from {old.axes[n]} to {new.axes[n]}" for n in axes]
    for name in dict.fromkeys((*before.layouts, *now.layouts)):
        if before.layouts.get(name) != now.layouts.get(name):
            one, other = (side.layouts.get(name, Layout.CONTIGUOUS) for side in (before, now))
            parts.append(f"{name} goes from {one.value} to {other.value}")
    same_values = (old.seed, old.fills, old.scalars) == (new.seed, new.fills, new.scalars)
    if old.seed != new.seed:
        values = "with other values"
    elif same_values:
        values = "with the same values"
    else:
        # `: eps goes from 1e-06 to 0.03` or `: one element of x takes another value`
        changed = [n for n, fill in new.fills.items() if old.fills.get(n) != fill]
        fills = [fill for n in changed for fill in (old.fills.get(n), new.fills[n])]
        single = changed if any(f is not None and f.kind == "explicit" for f in fills) else []
        if len(changed) > _MOST_NAMED:
            values = f": {len(changed)} inputs take other values, {changed[0]} among them"
        elif len(changed) == 1 and single and old.scalars == new.scalars:
            values = f": one element of {single[0]} takes another value"
        else:
            values = f": {change_in_words(old, new)}"
    if before.slot == now.slot:
        refilled = now.refilled or not same_values
        what = "the same tensors are refilled" if refilled else "the same tensors are passed again"
    elif now.tensors is Tensors.RECYCLED:
        what = "new tensors lie at the addresses of freed ones"
    else:
        what = "new tensors are passed"
    words = f"when {what} {values}" if not values.startswith(": ") else f"when {what}{values}"
    if parts:
        words += f" and {' and '.join(parts)}"
    elsewhere = [
        text
        for text, is_so, was_so in (
            ("on another stream", now.call.stream, before.call.stream),
            ("from another thread", now.call.thread, before.call.thread),
            ("with gradients on", _records(now.call), _records(before.call)),
            ("with parameters", now.call.parameters, before.call.parameters),
            (_AUTOCAST, now.call.autocast, before.call.autocast),
            (
                f"under {now.call.autograd}",
                now.call.autograd is not Autograd.ON,
                now.call.autograd is before.call.autograd,
            ),
        )
        if is_so and not was_so
    ]
    return ", ".join((words, *elsewhere))
