"""Experiments with a rejected candidate that say why its numbers are wrong, and on which line.

Each is one or a few calls, bounded in time by the profile. Nothing here decides anything: the
verdict stands before the first experiment begins.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuassay.checks.base import done
from cuassay.checks.numeric.common import single_call
from cuassay.diagnosis import NUMBERS, PAGES, Clue, Clues, diagnose
from cuassay.diagnosis.edits import EditKind
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements, legal, with_sizes
from cuassay.judge.decide.structure import matched
from cuassay.judge.diagnose import alike, blamed_lines, repairs
from cuassay.judge.diagnose.alike import WrongOutputs
from cuassay.model.axes import resolve
from cuassay.model.candidate import Language
from cuassay.model.case import Case
from cuassay.model.diagnosis import Basis, Cause, SourceLine
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile

if TYPE_CHECKING:
    import torch

    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.candidate import Candidate
    from cuassay.model.machine import MachineEvidence

_SECONDS = {Profile.QUICK: 6.0, Profile.STANDARD: 20.0, Profile.DEEP: 60.0}
_MUTANTS = {Profile.QUICK: 90, Profile.STANDARD: 200, Profile.DEEP: 400}
_CASES, _TRIED = 3, 16  # failing cases that mutants run on, and cases tried to find them
_ELEMENTS = 1 << 20  # of a case that is run once a mutant
_ORDINARY = 64  # elements of a case whose values tell one expression from another
_SEEDS = 3  # draws of values that sizes alone must tell apart
_ROUND = 128  # sizes that are a multiple of it have no tail in any usual kernel
_STATE = (Cause.STALE_ANSWER, Cause.CALL_HISTORY, Cause.FIRST_CALL)
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
# Where an edit of a line repairs nothing: the source is broken before any line of it runs.
_NO_EDIT = (Cause.NOT_BUILT, Cause.COMPILED, Cause.SLOW_HOST, Cause.STREAM, Cause.DEVICE)
_EDITS = {Profile.QUICK: 80, Profile.STANDARD: 150, Profile.DEEP: 400}
_EDIT_SECONDS = {Profile.QUICK: 12.0, Profile.STANDARD: 30.0, Profile.DEEP: 90.0}
_SMALL = 0.05  # relative error up to which rounding explains more than a special case
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
) -> Clues:
    """Return what experiments say of the wrong findings. Raises nothing of the candidate's.

    `runs` runs scenarios of an edited candidate (None: no edits are tried).
    """
    wrong = [f for f in findings if f.finding_class is FindingClass.WRONG]
    experiments = _Experiments(
        trial=trial,
        run=run,
        candidate=candidate,
        wrong=wrong,
        evidence=evidence,
        until=time.monotonic() + _SECONDS[trial.profile],
    )
    clues = experiments.clues()
    return clues if runs is None else experiments.with_repair(clues, runs)


def _size_rank(size: int) -> tuple[bool, int]:
    """Order cases: some hundred elements first, then larger ones, the smallest last."""
    return size < _ORDINARY, size if size >= _ORDINARY else -size


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experiments:
    trial: JudgeTrial
    run: Callable[[Scenario], Run]
    candidate: Candidate
    wrong: Sequence[Finding]
    evidence: Sequence[MachineEvidence]
    until: float
    found: dict[str, alike.Alike] = field(default_factory=dict)
    failing: list[WrongOutputs] = field(default_factory=list)
    ran: set[tuple[str, int]] = field(default_factory=set)

    def clues(self) -> Clues:
        """Run the experiments that the findings ask for."""
        state = [f for f in self.wrong if f.cause in _STATE]
        structure = [f for f in self.wrong if f.cause is Cause.WRONG_STRUCTURE]
        contract = [f for f in self.wrong if f.cause in _NOT_NUMBERS]
        if contract or (structure and not state):
            raises = any(finding.cause is Cause.RAISES for finding in contract)
            return Clues(lines=self._lines(), some_sizes=raises and self._runs_at_listed_sizes())
        # Cases of ordinary size stand before the smallest ones, on which many faults look alike
        findings = state or self.wrong
        cases: dict[str, Case] = {}
        for finding in findings:
            for case in finding.scenario.cases if finding.scenario is not None else ():
                cases.setdefault(repr(case), case)
        sizes = {key: elements(self.trial.problem, case.axes) for key, case in cases.items()}
        usable = [
            case
            for key, case in sorted(cases.items(), key=lambda pair: _size_rank(sizes[pair[0]]))
            if case.in_domain and case.state is None and sizes[key] <= _ELEMENTS
        ][:_TRIED]
        answers: list[WrongOutputs] = []
        for case in usable:
            if len(answers) >= _CASES or time.monotonic() > self.until:
                break
            answer = self._answer(case)
            if answer is not None and not self._right(answer):
                answers.append(answer)
        self.failing.extend(answers)
        alone = bool(answers) if state else None
        if not answers and state:
            where = blamed_lines.of_calls(self.run, self.candidate, state[0].scenario)
            return Clues(alone=alone, lines=dict.fromkeys(_STATE, where) if where else {})
        lines = self._lines()
        layout = next((f for f in self.wrong if f.cause is Cause.LAYOUT), None)
        if layout is not None and layout.scenario is not None:
            line = blamed_lines.of_layout(self.run, self.candidate, layout.scenario)
            lines |= {Cause.LAYOUT: line} if line is not None else {}
        if not answers:
            return Clues(alone=alone, lines=lines)
        clue = self._clue(answers)
        trace = None
        if not self.candidate.names_triton and self.candidate.language is Language.PYTHON:
            # A few equal values are the values of many expressions: the first answer has many.
            trace = blamed_lines.traced(self.run, answers[0].case)
            self.ran.update(trace.ran if trace is not None else ())
        for cause in (Cause.LOW_ACCUMULATION, *_WRONG_NUMBERS) if clue is None else (clue.cause,):
            line = blamed_lines.of_numbers(
                self.trial, trace, self.candidate, answers[0], self.found.get("exact"), cause
            )
            lines |= {cause: line} if line is not None else {}
        if clue is not None and clue.line is None:
            line = lines.get(clue.cause) or self._of_machine(clue.cause)
            clue = dataclasses.replace(clue, line=line)
        return Clues(numbers=clue, alone=alone, lines=lines)

    def _lines(self) -> dict[Cause, SourceLine]:
        """Return what a traced call says of lines, without a look at its numbers."""
        every = (f.scenario.cases for f in self.wrong if f.scenario is not None)
        case = next((cases[0] for cases in every if cases and cases[0].state is None), None)
        trace = blamed_lines.traced_again(self.run, case) if case is not None else None
        return blamed_lines.by_cause(trace, self.candidate) if trace is not None else {}

    def _runs_at_listed_sizes(self) -> bool:
        """Whether a call at the sizes of a workload returns."""
        small = next((c for c in self.trial.cases("small") if c.in_domain), None)
        for workload in self.trial.problem.workloads if small is not None else ():
            sizes = resolve(self.trial.problem.axes, workload.axes)
            if small is not None and elements(self.trial.problem, sizes) <= _ELEMENTS:
                return self._answer(dataclasses.replace(small, axes=sizes)) is not None
        return False

    def _clue(self, answers: Sequence[WrongOutputs]) -> Clue | None:
        """Return why the numbers are wrong, by the most certain experiment that says anything."""
        plain = self._plain(answers[0].case)
        right = [plain] if plain is not None and self._right(plain) else []
        found = alike.same_fault(
            self.trial,
            answers,
            right=right,
            accumulates=self._grows(),
            limit=_MUTANTS[self.trial.profile],
            until=self.until,
        )
        if found is not None and found.exact:
            self.found["exact"] = found
            return Clue(
                cause=alike.CAUSES[found.mutant.kind],
                words=f"gives the numbers of the reference with {found.mutant.words}",
                basis=Basis.MUTANT,
            )
        known = {finding.cause for finding in self.wrong}
        if Cause.INPUT_IGNORED in known:
            return None
        if self._grows() and (line := self._sum_line()) is not None:
            return Clue(
                cause=Cause.LOW_ACCUMULATION,
                words=PAGES[Cause.LOW_ACCUMULATION].words,
                basis=Basis.MACHINE,
                line=line,
            )
        error = alike.relative_error(answers[0])
        # Terms that a tail loses are no rounding error: small errors have other causes.
        sizes = self._right_at_other_sizes(answers[0].case) if not error < _SMALL else ""
        if sizes:
            return Clue(cause=Cause.TAIL, words=sizes, basis=Basis.CHECK)
        if Cause.OUT_OF_RANGE in known or not math.isfinite(error):
            return None
        line = self._rounding_line()
        if line is not None:
            return Clue(
                cause=Cause.LOW_ACCUMULATION if self._grows() else Cause.LOW_PRECISION,
                words="this line loses the precision that the result needs",
                basis=Basis.MACHINE,
                line=line,
            )
        if Cause.LOW_ACCUMULATION in known:
            return None
        if found is not None and (error < _SMALL or not right):
            kind = alike.CAUSES[found.mutant.kind]
            words = f"the error is as large as with {found.mutant.words}"
            return Clue(cause=kind, words=words, basis=Basis.MUTANT)
        if right:
            label = answers[0].case.label
            words = f"right for ordinary values, wrong for others of the same sizes ({label})"
            return Clue(cause=Cause.SPECIAL_CASE, words=words, basis=Basis.CHECK)
        return None

    def _grows(self) -> bool:
        return any(f.cause is Cause.LOW_ACCUMULATION for f in self.wrong)

    def with_repair(self, clues: Clues, runs: repairs.Runs) -> Clues:
        """Return the clues with an edit that makes the candidate right, where one is found.

        None is looked for where the line is certain already: seen by the machine or in a traceback,
        or the place where a mutant's wrong value is made.
        """
        made = next(iter(diagnose(self.wrong, clues)), None)
        if made is None or made.cause in _NO_EDIT:
            return clues
        leading = next((f for f in self.wrong if f.id == next(iter(made.findings), "")), None)
        if leading is not None and leading.lines and leading.cause is made.cause:
            return clues
        # A mutant says what is missing, and a condition or a number in its place says why.
        kinds: tuple[EditKind, ...] | None = None
        if made.line is not None and made.basis is Basis.MUTANT:
            kinds = (EditKind.BRANCH, EditKind.PARAMETER)
        elif made.line is not None and made.basis is Basis.MACHINE:
            kinds = (EditKind.PRECISION,)  # whether more of it on one line is enough
        numbers = bool(self.failing) and made.cause not in _STATE
        if not numbers and (leading is None or leading.scenario is None):
            return clues
        # Whether an edited candidate is right where this one is, and where it is not
        wrong = self.failing if numbers else []
        small = next((c for c in self.trial.cases("small") if c.in_domain), None)
        plain = [small] if small is not None and small not in [a.case for a in wrong] else []
        before = [case for case in plain if (a := self._answer(case)) and self._right(a)]

        def right(run: Callable[[Scenario], Run]) -> bool:
            cases = [*(answer.case for answer in wrong), *before]
            given = (self._answer(case, run=run) for case in cases)
            return all(answer is not None and self._right(answer) for answer in given)

        repair = repairs.find_repair(
            self.trial,
            self.candidate,
            None if numbers else leading,
            cause=made.cause,
            runs=runs,
            answers=right,
            ran=frozenset(self.ran),
            near=made.line,
            kinds=kinds,
            limit=_EDITS[self.trial.profile],
            until=time.monotonic() + _EDIT_SECONDS[self.trial.profile],
        )
        if repair is None:
            return clues
        cause, clue = made.cause, clues.numbers
        if numbers and cause in NUMBERS:
            cause = repair.cause(made.cause, accumulates=self._grows())
            words = clue.words if clue is not None and cause is clue.cause else ""
            clue = Clue(
                cause=cause,
                words=words or PAGES[cause].words,  # the line says the edit
                basis=Basis.REPAIR,
                line=repair.line,
            )
        return dataclasses.replace(
            clues,
            numbers=clue,
            lines={**clues.lines, cause: repair.line},
            repaired=clues.repaired | {cause},
        )

    def _answer(
        self, case: Case, *, run: Callable[[Scenario], Run] | None = None
    ) -> WrongOutputs | None:
        """Return what the candidate gives on a case, None where that cannot be compared."""
        try:
            truth = self.trial.truth(case)
            if truth.ill_conditioned:
                return None
            scenario = dataclasses.replace(
                single_call(case, label=f"diagnosis: {case.label}"), fresh=True
            )
            ran = (run or self.run)(scenario)
            record = done(ran, 2)
            if record is None:
                return None
            shapes = [tuple(output.value.shape) for output in truth.outputs]
            tensors = matched(self.trial.problem, shapes, ran, record.items)
        except CuassayError:
            return None
        outputs: list[torch.Tensor] = [t for t in tensors if not isinstance(t, str)]
        if len(outputs) != len(truth.outputs):
            return None
        return WrongOutputs(case=case, outputs=tuple(outputs), truth=truth)

    def _is_right(self, case: Case, sizes: Mapping[str, int]) -> bool | None:
        """Return whether the candidate is right at other sizes; None where nothing tells."""
        if not legal(self.trial.problem, dict(sizes)):
            return None
        answer = self._answer(dataclasses.replace(case, axes=dict(sizes)))
        return None if answer is None else self._right(answer)

    def _right(self, answer: WrongOutputs) -> bool:
        from cuassay.oracle.compare.outputs import compare

        pairs = zip(answer.outputs, answer.truth.outputs, strict=True)
        return all(compare(got, want).passed for got, want in pairs)

    def _right_at_other_sizes(self, case: Case) -> str:
        """Return in words that other sizes are right where this case is wrong, if they are."""
        said = self._right_at_round_sizes(case)
        if said or case.generator or case.benchmark:
            return said
        problem = self.trial.problem
        fills = {name: fill for name, fill in case.fills.items() if fill.kind != "explicit"}
        plain = dataclasses.replace(case, fills=fills)
        for workload in problem.workloads:
            sizes = resolve(problem.axes, workload.axes)
            if elements(problem, sizes) <= _ELEMENTS and self._is_right(plain, sizes):
                names = [axis.name for axis in problem.var_axes()]
                wrong = ", ".join(f"{name}={case.axes[name]}" for name in names)
                right = ", ".join(f"{name}={sizes[name]}" for name in names)
                return f"wrong at {wrong} and right at the listed {right}" if names else ""
        return ""

    def _right_at_round_sizes(self, case: Case) -> str:
        """Return in words that sizes without a tail are right where this case is wrong."""
        problem = self.trial.problem
        moved = [
            axis
            for axis in problem.var_axes()
            if case.axes[axis.name] % _ROUND and axis.name in case.axes
        ]
        if not moved or case.generator or case.benchmark:
            return ""
        bound = {axis.name: case.axes[axis.name] for axis in problem.var_axes()}
        # One axis at a time first: what matters is the one whose tail is wrong.
        choices = [[axis] for axis in moved] + ([moved] if len(moved) > 1 else [])
        for axes in choices:
            larger = {a.name: -(-case.axes[a.name] // _ROUND) * _ROUND for a in axes}
            sizes = with_sizes(problem, case.axes, {**bound, **larger})
            if not legal(problem, sizes) or elements(problem, sizes) > _ELEMENTS:
                continue
            fills = {name: fill for name, fill in case.fills.items() if fill.kind != "explicit"}
            plain = dataclasses.replace(case, fills=fills)
            beyond = {a.name: larger[a.name] + case.axes[a.name] % _ROUND for a in axes}
            tail = with_sizes(problem, case.axes, {**bound, **beyond})
            seeds = [dataclasses.replace(plain, seed=case.seed + n) for n in range(_SEEDS)]
            if all(
                self._is_right(one, sizes) and self._is_right(one, tail) is False for one in seeds
            ):
                wrong = ", ".join(f"{a.name}={case.axes[a.name]}" for a in axes)
                right = ", ".join(f"{name}={size}" for name, size in larger.items())
                return f"wrong at {wrong} and right at {right}"
        return ""

    def _plain(self, case: Case) -> WrongOutputs | None:
        """Return the answer for ordinary values at the sizes of a case."""
        plain = next((c for c in self.trial.cases("small") if c.in_domain), None)
        if plain is None or case.benchmark:
            return None
        return self._answer(dataclasses.replace(plain, axes=case.axes))

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
        return blamed_lines.source_line(
            self.candidate, worst.file, worst.line, what=f"relative error {worst.made:.1e}"
        )

    def _of_machine(self, cause: Cause) -> SourceLine | None:
        match cause:
            case Cause.LOW_ACCUMULATION:
                return self._sum_line() or self._rounding_line()
            case Cause.LOW_PRECISION:
                return self._rounding_line()
            case _:
                return None

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
