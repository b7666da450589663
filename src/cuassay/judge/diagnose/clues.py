"""Experiments with a rejected candidate that say why its numbers are wrong, and on which line.

Each is one or a few calls, bounded in time by the profile; what it predicts, asks and concludes is
data (`judge.diagnose.hypotheses`). Nothing here decides anything: the verdict stands before the
first experiment begins.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuassay.checks.base import done
from cuassay.checks.machine.faults import recorded_call, recording_of
from cuassay.checks.numeric.common import single_call
from cuassay.checks.state.answers import reads_of, same_bits
from cuassay.diagnosis import NUMBERS, PAGES, TESTED, Clue, Clues, diagnose
from cuassay.diagnosis.edits import Edit, EditKind
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements, legal, step_to, try_sizes
from cuassay.inputs.scalars import drawn_scalar
from cuassay.judge.decide.structure import matched
from cuassay.judge.diagnose import alike, blamed_lines, instructions, repairs, unwritten
from cuassay.judge.diagnose.alike import WrongOutputs
from cuassay.judge.diagnose.hypotheses import (
    HYPOTHESES,
    Conclusion,
    Experiment,
    Prediction,
    Reply,
    Ruling,
    Subject,
    after_other_calls,
    may_move,
    moved_one_axis,
    redrawn,
)
from cuassay.model.axes import resolve
from cuassay.model.case import Case
from cuassay.model.diagnosis import Basis, Cause, Diagnosis, SourceLine
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.precision import Precision
from cuassay.model.problem import ScalarSpec
from cuassay.model.scenario import ReadResult, Scenario
from cuassay.model.trace import ResultItem

if TYPE_CHECKING:
    import torch

    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.candidate import Candidate
    from cuassay.model.machine import LaunchEvidence, MachineEvidence

_CASES, _TRIED = 3, 16  # failing cases that mutants run on, and cases tried to find them
_ELEMENTS = 1 << 20  # of a case that is run once a mutant
_ASKED_ELEMENTS = 1 << 16  # of one that an experiment asks for
_TELLING = 4096  # elements of a case whose values tell expressions apart, beyond which all do
_FOR_CALLS = 0.6  # of the time that is left, for calls of the candidate
_LEAST_FOR_MUTANTS_S = 3.0
_ORDINARY = 64  # elements of a case whose values tell one expression from another
_STATE = (Cause.STALE_ANSWER, Cause.CALL_HISTORY, Cause.FIRST_CALL)
_LARGER = 8  # times the largest axis, where a repaired kernel must be right too
_PART = 37  # of a tile, beyond larger sizes
_BESIDE = 2  # lines: a call that is written over several is on one of them
_HELD_CALLS = 4  # of a history, each asked for as the first call of a process
# Where these were found no experiment on the numbers means anything.
_NOT_NUMBERS = (
    Cause.NOT_BUILT,
    Cause.FORGES,
    Cause.ENDS_PROCESS,
    Cause.CRASHES,
    Cause.RAISES,
    Cause.LAUNCH_FAILED,
    Cause.HANGS,
    Cause.PRINTS,
    Cause.INPUT_CHANGED,
    Cause.OUTPUT_SHARES_INPUT,
    Cause.OUTPUT_SHARES_OUTPUT,
)
_WRONG_NUMBERS = (Cause.WRONG_VALUES, Cause.OUT_OF_RANGE, Cause.INPUT_IGNORED, Cause.TAIL)
# What the machine sees in a call that makes its numbers wrong.
_SEEN_FAULTS = {
    "out-of-bounds": Cause.OUT_OF_BOUNDS,
    "misaligned": Cause.MISALIGNED,
    "race": Cause.RACE,
}
# Where an edit of a line repairs nothing: the source is broken before any line of it runs.
_NO_EDIT = (Cause.NOT_BUILT, Cause.COMPILED, Cause.SLOW_HOST, Cause.STREAM, Cause.DEVICE)
_GROWTH_SECONDS = 3.0
_FLOAT32_LOSES = 1e-3  # relative error up to which sums in float32 are thought of
_SEEN_BY_MACHINE = 0.1  # of an error, which the machine must have seen to call it rounding
_ROUNDING = 0.25  # relative error up to which roundings and lost sums are thought of
# Largest relative error that one rounding of an output makes, by dtype.
_ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-14}


def gather(
    trial: JudgeTrial,
    run: Callable[[Scenario], Run],
    candidate: Candidate,
    findings: Iterable[Finding],
    evidence: Sequence[MachineEvidence],
    *,
    runs: repairs.Runs | None = None,
    limit_s: float = math.inf,
) -> Clues:
    """Return what experiments say of the wrong findings. Raises nothing of the candidate's.

    `runs` runs scenarios of an edited candidate (None: no edits are tried). Experiments have at
    most `limit_s`, edits as much again; the profile may give them less.
    """
    wrong = [f for f in findings if f.finding_class is FindingClass.WRONG]
    experiments = _Experiments(
        trial=trial,
        run=_AskedOnce(run),
        candidate=candidate,
        wrong=wrong,
        evidence=evidence,
        until=time.monotonic() + min(limit_s, trial.effort.causes_s),
        limit_s=limit_s,
    )
    clues = experiments.clues()
    return clues if runs is None else experiments.with_repair(clues, runs)


class _AskedOnce:
    """Runs scenarios. A call that begins a process is made once: again it takes no time."""

    def __init__(self, run: Callable[[Scenario], Run]) -> None:
        self._run = run
        self._made: dict[str, Run] = {}

    def __call__(self, scenario: Scenario) -> Run:
        if not scenario.fresh or len(scenario.cases) > 1:
            return self._run(scenario)
        key = repr(scenario)
        if key not in self._made:
            self._made[key] = self._run(scenario)
        return self._made[key]

    def knows(self, scenario: Scenario) -> bool:
        """Whether the scenario was run already."""
        return repr(scenario) in self._made


def _may_repair(made: Diagnosis, edit: Edit) -> bool:
    """Whether an edit may say more than a diagnosis does.

    A mutant says what is missing, and a condition or a number in its place says why. What is
    right at other sizes runs along no wrong axis: another one repairs it where that is short.
    """
    if made.cause in (Cause.TAIL, Cause.SIZES) and made.basis is Basis.CHECK:
        return edit.kind is not EditKind.AXIS
    if made.line is None:
        return True
    if made.basis is Basis.MACHINE:
        # The machine saw the bits go there: is more of them enough, there or where it is kept?
        beside = abs(edit.line - made.line.line) <= _BESIDE
        return edit.kind is EditKind.PRECISION and (beside or edit.carried or edit.filled)
    if made.basis is not Basis.MUTANT:
        return True
    kinds = (EditKind.BRANCH, EditKind.PARAMETER)
    # The line of a constant may be the head of the file.
    constant = made.cause is Cause.WRONG_CONSTANT and edit.kind is EditKind.NUMBER
    return constant or edit.kind in kinds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experiments:
    trial: JudgeTrial
    run: _AskedOnce
    candidate: Candidate
    wrong: Sequence[Finding]
    evidence: Sequence[MachineEvidence]
    until: float
    limit_s: float = math.inf
    found: dict[str, alike.Alike] = field(default_factory=dict)
    failing: list[WrongOutputs] = field(default_factory=list)
    ran: set[tuple[str, int]] = field(default_factory=set)
    totals: set[tuple[str, int]] = field(default_factory=set)  # lines that add many terms up

    def clues(self) -> Clues:
        """Run the experiments that the findings ask for."""
        state = [f for f in self.wrong if f.cause in _STATE]
        structure = [f for f in self.wrong if f.cause is Cause.WRONG_STRUCTURE]
        contract = [f for f in self.wrong if f.cause in _NOT_NUMBERS]
        if (
            contract
            and all(f.cause is Cause.RAISES for f in contract)
            and self._only_later(contract)
        ):
            found = self._of_state([*state, *contract], Clues())
            instead = {Cause.RAISES: Cause.CALL_HISTORY, Cause.REFUSES_SIZES: Cause.CALL_HISTORY}
            confirmed = found.confirmed | {Cause.CALL_HISTORY}
            return dataclasses.replace(found, confirmed=confirmed, instead=instead)
        if contract or (structure and not state):
            raises = any(finding.cause is Cause.RAISES for finding in contract)
            return Clues(lines=self._lines(), some_sizes=raises and self._runs_at_listed_sizes())
        held = self._ignored_inputs(self._held_results())
        answers = self._wrong_alone(state or self.wrong, first=_HELD_CALLS if state else 0)
        self.failing.extend(answers)
        if state and not answers:
            return self._of_state(state, held)
        if not answers and (later := self._wrong_later()) is not None:
            return later
        lines = self._lines()
        layout = next((f for f in self.wrong if f.cause is Cause.LAYOUT), None)
        if layout is not None and layout.scenario is not None:
            line = blamed_lines.of_layout(self.run, self.candidate, layout.scenario)
            lines |= {Cause.LAYOUT: line} if line is not None else {}
        if not answers:
            return dataclasses.replace(held, lines=lines)
        at_first = self._first_call_alone(answers[0].case)
        if at_first is not None:
            return dataclasses.replace(held, confirmed=held.confirmed | {at_first}, lines=lines)
        # A few equal values are the values of many expressions: lines follow from a larger case,
        # and from one with much wrong in it, which tells wrong values from right ones.
        telling = max(
            answers,
            key=lambda answer: (
                min(elements(self.trial.problem, answer.case.axes), _TELLING),
                alike.relative_error(answer),
            ),
        )
        trace = None
        if self.candidate.computes_in_torch:
            trace = blamed_lines.traced(self.run, telling.case)
            self.ran.update(trace.ran if trace is not None else ())
            self.totals.update(blamed_lines.totals(trace) if trace is not None else ())
        launches = self._launches(telling.case) if trace is None else ()
        fault = _seen_fault(self.candidate, self.wrong, launches)
        fault = fault or unwritten.never_written(self.trial, self.run, answers)
        if fault is not None:
            return dataclasses.replace(
                held,
                numbers=fault,
                confirmed=held.confirmed | {fault.cause},
                instead=dict.fromkeys((*TESTED, *NUMBERS), fault.cause),
                lines=lines | ({fault.cause: fault.line} if fault.line is not None else {}),
            )
        # `rounds` says whether roundings may be what makes an answer as wrong as it is. They are
        # not where nothing computes in 16 bits, or where the machine, which carries each value in
        # float64 beside the kernel's own, saw a small part of the error be made.
        error = alike.relative_error(telling)
        if trace is not None:
            rounds = error < _FLOAT32_LOSES or blamed_lines.rounds_to_16_bits(trace)
        else:
            seen = [line.error for launch in launches for line in launch.lines]
            ended = launches and not any(launch.inconclusive for launch in launches)
            rounds = not ended or max(seen, default=0.0) >= _SEEN_BY_MACHINE * error
        clue = self._clue(answers, ignored=Cause.INPUT_IGNORED in held.confirmed, rounds=rounds)
        exact = self.found.get("exact")
        ranged = functools.cache(  # looked for where nothing else says more
            lambda: blamed_lines.of_ranges(self.trial, launches, self.candidate, telling, exact)
        )
        known = clue.line if clue is not None else None
        lost = frozenset({Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION})
        for cause in (Cause.LOW_ACCUMULATION, *_WRONG_NUMBERS) if clue is None else (clue.cause,):
            line = (
                known
                or blamed_lines.of_numbers(self.trial, trace, self.candidate, telling, exact, cause)
                or (self._sum_line() if cause is Cause.LOW_ACCUMULATION else None)
                or (self._rounding_line() if cause in lost else None)
                or ranged()
            )
            lines |= {cause: line} if line is not None else {}
        if clue is not None and clue.line is None:
            clue = dataclasses.replace(clue, line=lines.get(clue.cause))
        return dataclasses.replace(
            held,
            numbers=clue,
            alone=bool(state),
            lines=lines,
            refuted=frozenset() if rounds else lost,
        )

    def _only_later(self, raised: Sequence[Finding]) -> bool:
        """Whether every call that raised is right as the first one of a process."""
        scenarios = [f.scenario for f in raised if f.scenario is not None]
        cases = {repr(case): case for one in scenarios for case in one.cases}
        answers = [self._answer(case) for case in list(cases.values())[:_HELD_CALLS]]
        return bool(answers) and all(one is not None and one.right for one in answers)

    def _wrong_alone(self, findings: Sequence[Finding], *, first: int) -> list[WrongOutputs]:
        """Return wrong answers of first calls of new processes, on cases of these findings.

        The `first` ones of a history are asked before others: they decide on its cause too. Then
        cases of ordinary size stand before the smallest ones, on which many faults look alike.
        """
        cases: dict[str, Case] = {}
        for finding in findings:
            for case in finding.scenario.cases if finding.scenario is not None else ():
                cases.setdefault(repr(case), case)
        sizes = {key: elements(self.trial.problem, case.axes) for key, case in cases.items()}
        # Some hundred elements first, then larger ones, the smallest last
        ordinary = sorted((key for key in cases if sizes[key] >= _ORDINARY), key=sizes.__getitem__)
        small = sorted((key for key in cases if sizes[key] < _ORDINARY), key=lambda k: -sizes[k])
        usable = [
            cases[key]
            for key in dict.fromkeys((*list(cases)[:first], *ordinary, *small))
            if cases[key].in_domain and cases[key].state is None and sizes[key] <= _ELEMENTS
        ][:_TRIED]
        answers: list[WrongOutputs] = []
        for case in usable:
            if len(answers) >= _CASES or time.monotonic() > self.until:
                break
            answer = self._answer(case)
            if answer is not None and not answer.right:
                answers.append(answer)
        # The grossest error leads, of what is wrong for other values by the same recipes too.
        again = {
            id(answer): (other := self._answer(redrawn(answer.case, 1), alone=False)) is not None
            and not other.right
            for answer in answers
        }
        return sorted(
            answers,
            key=lambda answer: (not again[id(answer)], -min(alike.relative_error(answer), 1.0)),
        )

    def _of_state(self, state: Sequence[Finding], held: Clues) -> Clues:
        """Return what experiments say of histories whose calls were not wrong alone."""
        calls = {
            repr(case): case
            for finding in state
            for case in (finding.scenario.cases if finding.scenario is not None else ())
        }
        case = next(iter(calls.values()), None)
        if case is None:
            return held
        first = self._first_call_alone(case)
        if first is not None:
            return dataclasses.replace(held, confirmed=held.confirmed | {first})
        subject = self._subject(case, calls=tuple(calls.values())[:_HELD_CALLS])
        causes = {f.cause for f in state if f.cause in (Cause.STALE_ANSWER, Cause.CALL_HISTORY)}
        confirmed = {
            cause
            for cause in causes
            if cause is not None and self._confirmed(cause, subject) is not None
        }
        where = blamed_lines.of_calls(self.run, self.candidate, state[0].scenario)
        return dataclasses.replace(
            held,
            confirmed=held.confirmed | confirmed,
            lines=dict.fromkeys(_STATE, where) if where else {},
        )

    def _held_results(self) -> Clues:
        """Return whether results that callers hold change by a later call, or by their inputs."""
        found = next((f for f in self.wrong if f.cause is Cause.OUTPUT_REUSED), None)
        if found is None or found.scenario is None:
            return Clues()
        said = self._confirmed(Cause.OUTPUT_REUSED, self._subject(found.scenario.cases[0]))
        if said is None:
            return Clues()
        instead = {} if said.cause is None else {Cause.OUTPUT_REUSED: said.cause}
        return Clues(confirmed=frozenset({Cause.OUTPUT_REUSED}), instead=instead)

    def _ignored_inputs(self, held: Clues) -> Clues:
        """Return `held` with INPUT_IGNORED where an argument does not reach the output indeed."""
        found = [f for f in self.wrong if f.cause is Cause.INPUT_IGNORED and f.scenario is not None]
        pairs = [
            (base, moved)
            for finding in found
            if finding.scenario is not None
            for moved, base in zip(
                finding.scenario.cases[::2], finding.scenario.cases[1::2], strict=False
            )
            if dict(moved.axes) == dict(finding.where.axes)
        ]
        ignored = Cause.INPUT_IGNORED
        if not pairs or not self._confirmed(ignored, self._subject(pairs[0][0], moved=pairs)):
            return held
        return dataclasses.replace(held, confirmed=held.confirmed | {ignored})

    def _first_call_alone(self, case: Case) -> Cause | None:
        """Return FIRST_CALL where of two equal calls in a new process the first alone is wrong."""
        if not any(f.cause is Cause.FIRST_CALL or f.code == "APART001" for f in self.wrong):
            return None
        return Cause.FIRST_CALL if self._confirmed(Cause.FIRST_CALL, self._subject(case)) else None

    def _subject(
        self, case: Case, *, calls: Sequence[Case] = (), moved: Sequence[tuple[Case, Case]] = ()
    ) -> Subject:
        return Subject(
            problem=self.trial.problem,
            wrong=case,
            ordinary=self._small(),
            grows=_lengths(self.trial, self.wrong),
            calls=calls,
            moved=moved,
            most_elements=max(_ASKED_ELEMENTS, 2 * elements(self.trial.problem, case.axes)),
        )

    def _wrong_later(self) -> Clues | None:
        """Return that earlier calls are at fault, where numbers are wrong after others alone."""
        numbers = [f for f in self.wrong if f.cause in NUMBERS and f.scenario is not None]
        cases = {repr(f.scenario.cases[0]): f.scenario for f in numbers if f.scenario is not None}
        for scenario in list(cases.values())[:_HELD_CALLS]:
            experiment = after_other_calls(self._subject(scenario.cases[0]))
            if self._concluded(experiment) is not None:
                where = blamed_lines.of_calls(self.run, self.candidate, scenario)
                return Clues(
                    confirmed=frozenset({Cause.CALL_HISTORY}),
                    instead=dict.fromkeys((*TESTED, *NUMBERS), Cause.CALL_HISTORY),
                    lines={Cause.CALL_HISTORY: where} if where else self._lines(),
                )
        return None

    def _confirmed(self, cause: Cause, subject: Subject) -> Conclusion | None:
        """Return what the experiment of a cause says, where it confirms it in time."""
        hypothesis = HYPOTHESES[cause]
        assert isinstance(hypothesis, Prediction)
        return self._concluded(hypothesis.experiment(subject))

    def _concluded(self, experiment: Experiment | None) -> Conclusion | None:
        said = Conclusion(ruling=Ruling.OPEN)
        while experiment is not None:
            replies: dict[str, Reply] = {}
            for question in experiment.questions:
                if time.monotonic() > self.until and not self.run.knows(question.scenario):
                    return None
                reply = self._reply(question.scenario)
                if reply is not None:
                    replies[question.name] = reply
            said = experiment.conclude(replies)
            experiment = said.then
        return said if said.ruling is Ruling.CONFIRMED else None

    def _reply(self, scenario: Scenario) -> Reply | None:
        """Return what the results that a scenario reads are; None where it did not end."""
        try:
            ran = self.run(scenario)
            reads = reads_of(scenario, ran)
            if len(reads) < sum(isinstance(step, ReadResult) for step in scenario.steps):
                return None
            before: dict[str, tuple[ResultItem, ...]] = {}
            right: list[bool | None] = []
            errors: list[float] = []
            kept, places, wrong_end, most = True, dict[str, int](), 0, 0
            for read in reads:
                if read.result in before:
                    kept = kept and same_bits(ran, before[read.result], read.items)
                    continue
                before[read.result] = read.items
                if self.trial.truth(read.case).ill_conditioned:
                    right.append(None)
                    errors.append(math.nan)
                    continue
                compared = self.trial.compare(read.case, ran, read.items)
                right.append(all(one.passed and not one.undecided for one in compared))
                born = any(
                    not math.isfinite(one.got) and math.isfinite(one.expected) and not one.passed
                    for one in compared
                )
                if not right[-1]:
                    for spec, wrong in alike.wrong_elements(self.trial, read.case, ran, read.items):
                        flat = wrong.reshape(-1).nonzero()
                        wrong_end = max(wrong_end, wrong.numel() - int(flat[0]))
                        most = max(most, wrong.numel())
                        for axis, name in enumerate(spec.shape):
                            place = int(wrong.nonzero()[:, axis].min())
                            places[name] = min(place, places.get(name, place))
                error = max((one.relative_error for one in compared), default=0.0)
                errors.append(math.inf if born or not math.isfinite(error) else error)
        except CuassayError:
            return None
        first = next(iter(before.values()), ())
        same = len(before) > 1 and all(same_bits(ran, first, one) for one in before.values())
        return Reply(
            right=tuple(right),
            errors=tuple(errors),
            kept=kept,
            same=same,
            first_wrong=places,
            wrong_end=wrong_end,
            elements=most,
        )

    def _lines(self) -> dict[Cause, SourceLine]:
        """Return what a traced call says of lines, without a look at its numbers."""
        every = (f.scenario.cases for f in self.wrong if f.scenario is not None)
        case = next((cases[0] for cases in every if cases and cases[0].state is None), None)
        trace = blamed_lines.traced_again(self.run, case) if case is not None else None
        return blamed_lines.by_cause(trace, self.candidate) if trace is not None else {}

    def _runs_at_listed_sizes(self) -> bool:
        """Whether a call at the sizes of a workload returns."""
        small = self._small()
        for workload in self.trial.problem.workloads if small is not None else ():
            sizes = resolve(self.trial.problem.axes, workload.axes)
            if small is not None and elements(self.trial.problem, sizes) <= _ELEMENTS:
                return self._answer(dataclasses.replace(small, axes=sizes)) is not None
        return False

    def _clue(self, answers: Sequence[WrongOutputs], *, ignored: bool, rounds: bool) -> Clue | None:
        """Return why the numbers are wrong, by the most certain experiment that says so.

        `rounds` says that roundings may be it.
        """
        worst = answers[0]
        small = self._small()
        plain = [small] if small is not None else []
        if small is not None and not worst.case.benchmark:  # ordinary values at the same sizes
            plain.insert(0, dataclasses.replace(small, axes=worst.case.axes))
        beside = (self._answer(case, alone=False) for case in plain)
        right = [one for one in beside if one is not None and one.right]
        # At one size alone a part that is left out may be all there is.
        other = self._at_other_sizes(worst.case)
        right += [other] if other is not None and other.right else []
        wrong = [*answers, *([other] if other is not None and not other.right else [])]
        found = alike.same_fault(
            self.trial,
            wrong,
            right=right,
            limit=self.trial.effort.cause_mutants,
            # Calls of a compiled kernel may have taken the time: those of mutants cost little.
            until=max(
                self.until - _FOR_CALLS * (self.until - time.monotonic()),
                time.monotonic() + _LEAST_FOR_MUTANTS_S,
            ),
        )
        if found is not None:
            self.found["exact"] = found
            cause = found.cause
            if cause is Cause.LOW_PRECISION and rounds:
                lost = self._lost_sum(answers)
                if lost is not None:
                    return lost
            return Clue(
                cause=cause,
                words=f"gives the numbers of the reference with {found.mutant.words}",
                basis=Basis.MUTANT,
            )
        if ignored:
            return None
        relation = alike.off_by(self.trial, [*answers, *self._elsewhere(answers)], right=right)
        if relation is not None:
            return Clue(cause=relation.cause, words=relation.words, basis=Basis.CHECK)
        error = alike.relative_error(worst)
        subject = self._subject(worst.case)
        order = [Cause.TAIL, Cause.SIZES, Cause.MAGNITUDE, Cause.SPECIAL_CASE]
        if not math.isfinite(error):
            order.insert(0, Cause.OUT_OF_RANGE)
        elif error < _ROUNDING and rounds:
            lost = self._lost_precision(answers)
            if lost is not None:
                return lost
        for cause in order:
            said = self._confirmed(cause, subject)
            if said is not None:
                words = said.words or PAGES[cause].words
                return Clue(cause=said.cause or cause, words=words, basis=Basis.CHECK)
        return None

    def _at_other_sizes(self, case: Case) -> WrongOutputs | None:
        """Return the answer at larger sizes, reduced axes beyond the tiles of most kernels.

        Floating arguments have other values: of one number many expressions have the same value.
        """
        problem, grows = self.trial.problem, _lengths(self.trial, self.wrong)
        drawn = {
            spec.name: drawn_scalar(spec, seed=case.seed)
            for spec in problem.inputs
            if isinstance(spec, ScalarSpec) and spec.dtype.is_floating
        }
        for most in (_LARGER, 2, 1):
            changes = {
                axis.name: step_to(axis, most * case.axes[axis.name] + _PART)
                for axis in problem.var_axes()
                if axis.name in grows or most > 1
            }
            larger = self._at(case, changes) if changes else None
            if larger is not None:
                larger = dataclasses.replace(larger, scalars={**case.scalars, **drawn})
                return self._answer(redrawn(larger, 1), alone=False)
        return None

    def _at(self, case: Case, changes: Mapping[str, int]) -> Case | None:
        """Return a case at other sizes, None where they are not legal or too large to ask for."""
        problem = self.trial.problem
        sizes = try_sizes(problem, case.axes, changes) if may_move(case) else None
        if sizes is None or not legal(problem, sizes) or elements(problem, sizes) > _ASKED_ELEMENTS:
            return None
        return dataclasses.replace(case, axes=sizes, workload=None)

    def _elsewhere(self, answers: Sequence[WrongOutputs]) -> list[WrongOutputs]:
        """Return wrong answers at other sizes of the axes of which one size alone is known."""
        first = answers[0].case
        found: dict[str, WrongOutputs] = {}
        for case in moved_one_axis(self._subject(first)):
            moved = (axis for axis, size in case.axes.items() if size != first.axes[axis])
            name = next(moved, None)
            if (
                name is None
                or name in found
                or len({answer.case.axes[name] for answer in answers}) > 1
            ):
                continue
            answer = self._answer(case, alone=False)
            if answer is not None and not answer.right:
                found[name] = answer
        return list(found.values())

    def _lost_precision(self, answers: Sequence[WrongOutputs]) -> Clue | None:
        """Return which precision is lost, where the machine sees it or calls confirm it."""
        if (lost := self._lost_sum(answers)) is not None:
            return lost
        if alike.systematic(answers[0]):
            return None
        line = self._rounding_line()
        if line is not None:
            words = "this line loses the precision that the result needs"
            return Clue(cause=Cause.LOW_PRECISION, words=words, basis=Basis.MACHINE, line=line)
        if all(self._explained(answer, Precision.MIXED) for answer in answers):
            return Clue(
                cause=Cause.LOW_PRECISION,
                words="the error is as large as 16-bit intermediates make it",
                basis=Basis.CHECK,
            )
        return None

    def _lost_sum(self, answers: Sequence[WrongOutputs]) -> Clue | None:
        """Return that a sum loses terms, where the machine sees it or the error grows so."""
        cause = Cause.LOW_ACCUMULATION
        line = self._sum_line()
        if line is not None:
            return Clue(cause=cause, words=PAGES[cause].words, basis=Basis.MACHINE, line=line)
        grown = [f.scenario.cases[0] for f in self.wrong if f.growth is not None and f.scenario]
        bases = {repr(case): case for case in (*grown, *(one.case for one in answers[:1]))}
        for base in bases.values():
            said = self._confirmed(cause, self._subject(base))
            if said is not None:
                words = f"{PAGES[cause].words}; {said.words}"
                line = self._rounding_line()
                return Clue(cause=cause, words=words, basis=Basis.CHECK, line=line)
        return None

    def _explained(self, answer: WrongOutputs, family: Precision) -> bool:
        """Whether trusted programs of a family make such errors on a case."""
        from cuassay.oracle.compare.outputs import compare

        try:
            truth = self.trial.truth(answer.case, family)
        except (CuassayError, RuntimeError):
            return False
        return all(
            compare(*pair).passed for pair in zip(answer.outputs, truth.outputs, strict=True)
        )

    def with_repair(self, clues: Clues, runs: repairs.Runs) -> Clues:
        """Return the clues with an edit that makes the candidate right, where one is found.

        None is looked for where the line is certain already: seen by the machine or in a traceback,
        or the place where a mutant's wrong value is made.
        """
        made = next(iter(diagnose(self.wrong, clues)), None)
        if made is None or made.cause in _NO_EDIT:
            return clues
        if made.cause in clues.instead.values() and made.cause in _SEEN_FAULTS.values():
            return clues  # the machine saw it, and where
        leading = next((f for f in self.wrong if f.id == next(iter(made.findings), "")), None)
        if leading is not None and leading.lines and leading.cause is made.cause:
            return clues
        numbers = bool(self.failing) and made.cause not in _STATE
        if not numbers and (leading is None or leading.scenario is None):
            return clues
        # Whether an edited candidate is right where this one is, and where it is not
        wrong = self.failing if numbers else []
        small = self._small()
        plain = [small] if small is not None and small not in [a.case for a in wrong] else []
        # A larger tile hides what goes wrong between tiles: far beyond it, along one axis each,
        # that shows again where truth can tell.
        beyond = [
            larger
            for case in (answer.case for answer in wrong[:1])
            for axis in self.trial.problem.var_axes()
            if (
                larger := self._at(case, {axis.name: step_to(axis, _LARGER * case.axes[axis.name])})
            )
            and dict(larger.axes) != dict(case.axes)
            and self._answer(larger, alone=False) is not None
        ]
        before = [case for case in plain if (a := self._answer(case)) and a.right]

        def right(run: Callable[[Scenario], Run]) -> bool:
            cases = [*(answer.case for answer in wrong), *beyond, *before]
            # An edited candidate has a process of its own; state needs one for each call.
            given = (self._answer(case, run=run, alone=not numbers) for case in cases)
            return all(answer is not None and answer.right for answer in given)

        # No edit of an instruction keeps more bits than it did.
        compiled = not self.candidate.computes_in_torch
        if numbers and compiled and made.basis is not Basis.MACHINE:
            repaired = self._with_instruction(clues, made, before)
            if repaired is not None:
                return repaired
        repair = repairs.find_repair(
            self.trial,
            self.candidate,
            None if numbers else leading,
            cause=made.cause,
            runs=runs,
            answers=right,
            ran=frozenset(self.ran),
            near=made.line,
            worth=functools.partial(_may_repair, made),
            limit=self.trial.effort.cause_edits,
            until=time.monotonic() + min(self.limit_s, self.trial.effort.cause_edits_s),
        )
        if repair is None:
            return clues
        cause = made.cause
        if repair.edit.kind is EditKind.CONFIGURATIONS:
            return dataclasses.replace(
                clues,
                instead={**clues.instead, cause: Cause.AUTOTUNER},
                lines={**clues.lines, Cause.AUTOTUNER: repair.line},
                repaired=clues.repaired | {cause, Cause.AUTOTUNER},
            )
        # The edits took their time: growth may take some of its own.
        more = dataclasses.replace(self, until=time.monotonic() + _GROWTH_SECONDS)
        at = repair.line.file, repair.line.line
        accumulates = repair.edit.kind is EditKind.PRECISION and (
            repair.edit.carried or at in self.totals or more._lost_sum(self.failing) is not None
        )
        if numbers and cause in NUMBERS:
            cause = more._borne_out(repair, made.cause, accumulates=accumulates)
            return _repaired(clues, cause, repair.line, numbers=True)
        return _repaired(clues, cause, repair.line, numbers=False)

    def _with_instruction(
        self, clues: Clues, made: Diagnosis, before: Sequence[Case]
    ) -> Clues | None:
        """Return the clues with an edit of the kernel's instructions that repairs failing calls."""
        wrong = [answer.case for answer in self.failing]
        seconds = min(self.limit_s, self.trial.effort.cause_instructions_s)
        repair = instructions.find_instruction_repair(
            self.trial,
            self.run,
            self.candidate,
            wrong=[*wrong, *(redrawn(case, 1) for case in wrong[:1])],
            right=before,
            near=made.line,
            until=time.monotonic() + seconds,
        )
        if repair is None:
            return None
        cause = repair.cause(made.cause)
        if not self._bears_out(cause, made.cause):
            cause = Cause.WRONG_REDUCTION
        return _repaired(clues, cause, repair.line, numbers=cause in NUMBERS)

    def _bears_out(self, cause: Cause, before: Cause) -> bool:
        """Whether calls of the candidate itself show the cause of an edit, where calls may."""
        asked = cause is not before and cause in (Cause.SIZES, Cause.SPECIAL_CASE)
        return not asked or bool(self._confirmed(cause, self._subject(self.failing[0].case)))

    def _borne_out(self, repair: repairs.Repair, before: Cause, *, accumulates: bool) -> Cause:
        """Return the cause that an edit shows, where calls of the candidate itself bear it out."""
        cause = repair.cause(before, accumulates=accumulates)
        if not self._bears_out(cause, before):
            misread = cause is Cause.SIZES and repair.edit.indexed
            cause = Cause.INPUT_MISREAD if misread else before
            cause = Cause.WRONG_REDUCTION if repair.edit.ranged else cause
        lost = (Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION)
        if before in lost and cause is before and repair.edit.exact:
            # No precision was gained, and the numbers are right: another number is one, a name
            # or an operator that happens to repair it tells nothing.
            number = repair.edit.kind is EditKind.NUMBER
            shown = repair.cause(Cause.WRONG_VALUES, accumulates=False)
            return shown if number else Cause.WRONG_VALUES
        if cause is Cause.INPUT_IGNORED and before is not Cause.INPUT_IGNORED:
            return Cause.TERM_OMITTED  # the argument reaches the output on another way
        return cause

    def _answer(
        self, case: Case, *, run: Callable[[Scenario], Run] | None = None, alone: bool = True
    ) -> WrongOutputs | None:
        """Return what the candidate gives on a case, None where that cannot be compared.

        `alone` asks for it as the first call of a process.
        """
        try:
            truth = self.trial.truth(case)
            if truth.ill_conditioned:
                return None
            scenario = dataclasses.replace(
                single_call(case, label=f"diagnosis: {case.label}"), fresh=alone
            )
            ran = (run or self.run)(scenario)
            record = done(ran, 2)
            if record is None:
                return None
            shapes = [tuple(output.value.shape) for output in truth.outputs]
            tensors = matched(self.trial.problem, shapes, ran, record.items)
            right = all(one.passed for one in self.trial.compare(case, ran, record.items))
        except CuassayError:
            return None
        outputs: list[torch.Tensor] = [t for t in tensors if not isinstance(t, str)]
        if len(outputs) != len(truth.outputs):
            return None
        return WrongOutputs(case=case, outputs=tuple(outputs), truth=truth, right=right)

    def _small(self) -> Case | None:
        return next((case for case in self.trial.cases("small") if case.in_domain), None)

    def _launches(self, case: Case) -> tuple[LaunchEvidence, ...]:
        """Return what the machine sees in a call on a case; nothing where it cannot execute it."""
        machine = self.trial.machine
        if machine is None or machine.absent:
            return ()
        scenario = recorded_call(case, on_gpu=self.trial.device.on_gpu)
        try:
            recording = recording_of(scenario, self.run(scenario))
            return () if recording is None else machine.execute(recording, scenario).launches
        except CuassayError:
            return ()

    def _sum_line(self) -> SourceLine | None:
        """Return the line of the sum that lost most bits in the machine."""
        sums = [
            (fault.measures["lost_bits"], fault.touches[0])
            for one in self.evidence
            for _, fault in one.faults
            if "lost_bits" in fault.measures and fault.touches
        ]
        if not sums:
            return None
        bits, at = max(sums, key=lambda one: one[0])
        what = f"its sum loses {bits:.1f} bits"
        return blamed_lines.source_line(self.candidate, at.file, at.line, what=what)

    def _rounding_line(self) -> SourceLine | None:
        """Return the line at which the machine saw more error made than one rounding makes."""
        dtypes = {spec.dtype.value for spec in self.trial.problem.outputs}
        least = max((_ROUNDOFF.get(name, 0.0) for name in dtypes), default=0.0)
        lines = [
            line
            for one in self.evidence
            for launch in one.launches
            for line in launch.lines
            if math.isfinite(line.made) and line.made > max(least, _ROUNDOFF["float32"])
        ]
        worst = max(lines, key=lambda line: line.made, default=None)
        if worst is None:
            return None
        what = f"relative error {worst.made:.1e}"
        return blamed_lines.source_line(self.candidate, worst.file, worst.line, what=what)


def _repaired(clues: Clues, cause: Cause, line: SourceLine, *, numbers: bool) -> Clues:
    """Return the clues with the line whose edit repairs a cause, of wrong `numbers` or others."""
    clue = clues.numbers
    if numbers:
        words = clue.words if clue is not None and cause is clue.cause else ""
        clue = Clue(
            cause=cause,
            words=words or PAGES[cause].words,  # the line says the edit
            basis=Basis.REPAIR,
            line=line,
        )
    lines, repaired = {**clues.lines, cause: line}, clues.repaired | {cause}
    return dataclasses.replace(clues, numbers=clue, lines=lines, repaired=repaired)


def _seen_fault(
    candidate: Candidate, wrong: Sequence[Finding], launches: Sequence[LaunchEvidence]
) -> Clue | None:
    """Return what the machine saw go wrong in a call, where no check of it has told.

    A kernel that is wrong on every input is rejected before those checks run.
    """
    if any(f.cause in _SEEN_FAULTS.values() for f in wrong):
        return None
    for fault in (fault for launch in launches for fault in launch.faults):
        cause = _SEEN_FAULTS.get(fault.kind)
        if cause is None or fault.severity != "wrong":
            continue
        at = next((touch for touch in fault.touches if touch.line), None)
        where = None
        if at is not None:
            where = blamed_lines.source_line(candidate, at.file, at.line, what=at.what)
        words = f"{PAGES[cause].words}: {fault.text}"
        return Clue(cause=cause, words=words, basis=Basis.MACHINE, line=where)
    return None


def _lengths(trial: JudgeTrial, wrong: Sequence[Finding]) -> tuple[str, ...]:
    """Return the axes that are reduced: those that a check lengthened, then all known ones."""
    grown = [f.growth.axis for f in wrong if f.growth is not None]
    return tuple(dict.fromkeys((*grown, *trial.planned.reduced)))
