"""Which line of a candidate a fault sits on, from one traced call of it.

The values of a call are followed by sketch (`sandbox.guest.observe.call_trace`): a value that the
broken reference has and the right one has not names the line that made it. Where no mutant is
known, the line after the last value that the right reference has too is named. For triton and CUDA
kernels, whose values torch does not see, the PTX machine names lines instead.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import torch

from cuassay.checks.base import done
from cuassay.errors import CuassayError
from cuassay.judge.diagnose.alike import Alike, WrongOutputs
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause, Diagnosis, SourceLine
from cuassay.model.machine import FloatRange, LaunchEvidence
from cuassay.model.scenario import Allocate, Call, Refill, Scenario, Step
from cuassay.model.steps import Mode, TraceCall
from cuassay.model.trace import StepDone
from cuassay.oracle.lift.run import lift
from cuassay.oracle.mutants.detect import CANNOT_RUN
from cuassay.sandbox.guest.observe.call_trace import (
    Line,
    OpWatch,
    SeenOperation,
    read_facts,
    sketch,
)

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.trial import JudgeTrial

# Relative distance within which two sketches are one value's: of means and of the largest.
_NEAR = {"bfloat16": (4e-3, 2e-2), "float16": (1e-3, 5e-3)}
_NEAR_ELSE = (3e-4, 3e-3)
_LOW = ("bfloat16", "float16")
# Elements that are known by their values: how near, which part of a sample must be, how many tell.
_SAME_ELEMENT, _NEARLY_ALL, _TELLING = 5e-5, 0.95, 4
_BESIDE = 1.001  # times a number: another one, which is no element but by chance
# Magnitudes that are one value's, relative; below the last part of the largest nothing is told.
_SAME_LARGEST, _SAME_SMALLEST, _CANCELLED = 1e-4, 1e-2, 1e-6
_SPREAD = 8.0  # of the largest magnitude over the smallest, from which on a factor tells something
_PARTIAL = ("dropped", "tile")  # mutants that leave terms out
_MOST_SAMPLED, _MOST_KEPT, _MOST_ELEMENTS = 256, 256, 1 << 18
_SUMS = frozenset(
    {"add", "add_", "sum", "mean", "cumsum", "index_add", "index_add_", "scatter_add"}
    | {"scatter_add_", "mm", "bmm", "addmm", "baddbmm", "matmul", "dot", "mv", "linear"}
    | {"index_put", "index_put_", "_index_put_impl_", "addcmul_", "lerp_"}
)
_TOTALS = frozenset(
    {"sum", "mean", "cumsum", "logsumexp", "prod", "var", "std", "index_add", "index_add_"}
    | {"scatter_add", "scatter_add_", "index_put", "index_put_", "_index_put_impl_"}
)
_MAKES = frozenset(
    {"zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "full", "full_like"}
)
_CASTS = ("_to_copy", "copy_")
_PICKS = frozenset(
    {"select", "slice", "narrow", "split", "split_with_sizes", "chunk", "unbind", "expand"}
    | {"index", "index_select", "gather", "embedding", "cat", "stack", "flip", "roll"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One call of the candidate: lines with how often they ran, where it returned, operations."""

    ran: Mapping[Line, int]
    returned: Line
    seen: Sequence[SeenOperation]


def traced(run: Callable[[Scenario], Run], case: Case) -> Traced | None:
    """Return the trace of a call on a case in a new process; None where it did not end."""
    found = _traces(run, (case,))
    return found[0] if found else None


def traced_again(run: Callable[[Scenario], Run], case: Case) -> Traced | None:
    """Return the trace of the second of two equal calls, in which buffers are older than it."""
    found = _traces(run, (case, case))
    return found[-1] if found else None


def _traces(run: Callable[[Scenario], Run], cases: Sequence[Case]) -> list[Traced]:
    """Return the traces of calls one after another, values refilled in place where they fit."""
    steps: list[Step] = []
    for number, case in enumerate(cases):
        fits = number and dict(cases[number - 1].axes) == dict(case.axes)
        place = Refill(slot="a", case=number) if fits else Allocate(slot="a", case=number)
        steps += [place, TraceCall(slot="a", result="r")]
    scenario = Scenario(
        label="diagnosis: traced calls", cases=tuple(cases), steps=tuple(steps), fresh=True
    )
    try:
        ran = run(scenario)
    except CuassayError:
        return []
    made = [_trace(done(ran, 2 * number + 1)) for number in range(len(cases))]
    return [one for one in made if one is not None]


def rounds_to_16_bits(trace: Traced) -> bool:
    """Whether some operation of a call makes 16-bit values, but the last one that it returns."""
    return any(_rounds(one) for one in trace.seen[:-1])


def totals(trace: Traced) -> set[Line]:
    """Return the lines that add terms up in one operation, but for products of matrices."""
    return {(one.file, one.line) for one in trace.seen if one.op in _TOTALS}


def of_calls(
    run: Callable[[Scenario], Run], candidate: Candidate, scenario: Scenario | None
) -> SourceLine | None:
    """Return the line at which a later call of a scenario goes another way than the first.

    That only a later call runs: where an earlier answer comes back. Else the last line before the
    first that only the first call runs, else a line that writes into memory of earlier calls.
    """
    traces = _again(run, scenario) if scenario is not None else []
    if len(traces) < 2:
        return None
    first = traces[0]
    for later in traces[1:]:
        only = [line for line in later.ran if line not in first.ran]
        if only:
            return source_line(candidate, *only[0], what="runs in later calls only")
        order = list(first.ran)
        skipped = [n for n, line in enumerate(order) if line not in later.ran]
        if skipped:
            where = order[max(0, skipped[0] - 1)]
            return source_line(candidate, *where, what="skips what the first call computes")
    return source_line(candidate, *held) if (held := _held(traces[-1])) else None


def of_layout(
    run: Callable[[Scenario], Run], candidate: Candidate, scenario: Scenario
) -> SourceLine | None:
    """Return the line that gives other values for the same inputs in another layout."""
    traces = _again(run, scenario)
    usual = traced(run, scenario.cases[0])
    if not traces or usual is None:
        return None
    for ours, theirs in zip(traces[-1].seen, usual.seen, strict=False):
        if (ours.line, ours.op) != (theirs.line, theirs.op):
            return None  # another way through the source: nothing to compare
        if ours.sketch and not _near(ours.sketch, theirs.sketch, ours.dtype):
            what = "gives other values than with contiguous inputs"
            return source_line(candidate, ours.file, ours.line, what=what)
    return None


def _again(run: Callable[[Scenario], Run], scenario: Scenario) -> list[Traced]:
    """Return the traces of every call of a scenario, its steps as they were."""
    calls = [n for n, step in enumerate(scenario.steps) if isinstance(step, Call)]
    steps = tuple(
        TraceCall(slot=step.slot, result=step.result) if isinstance(step, Call) else step
        for step in scenario.steps
    )
    again = dataclasses.replace(scenario, steps=steps, fresh=True, mode=Mode.PLAIN)
    try:
        ran = run(again)
    except CuassayError:
        return []
    return [found for n in calls if (found := _trace(done(ran, n))) is not None]


def _trace(record: StepDone | None) -> Traced | None:
    if record is None:
        return None
    lines, returned, seen = read_facts(record.facts)
    return Traced(ran=lines, returned=returned, seen=seen)


def by_cause(trace: Traced, candidate: Candidate) -> dict[Cause, SourceLine]:
    """Return lines that the trace alone gives: writes into inputs, buffers, and the return."""
    found: dict[Cause, SourceLine | None] = {}
    written = next((s for s in trace.seen if s.writes.startswith("input ")), None)
    if written is not None:
        found[Cause.INPUT_CHANGED] = source_line(
            candidate, written.file, written.line, what=f"writes into {written.writes}"
        )
    held = _held(trace)
    if held is not None:
        what = "writes into memory from before the call"
        line = source_line(candidate, *held, what=what)
        found |= {Cause.OUTPUT_REUSED: line, Cause.CALL_HISTORY: line}
    empty = next((s for s in trace.seen if s.op in ("empty", "empty_like", "new_empty")), None)
    if empty is not None:
        line = source_line(candidate, empty.file, empty.line, what="allocates without filling")
        found |= {Cause.UNWRITTEN: line, Cause.UNINITIALISED: line}
    if trace.returned[1] and candidate.computes_in_torch:
        line = source_line(candidate, *trace.returned, what="returns the outputs")
        shares = (Cause.OUTPUT_SHARES_INPUT, Cause.OUTPUT_SHARES_OUTPUT)
        found |= dict.fromkeys((Cause.WRONG_STRUCTURE, *shares), line)
    return {cause: line for cause, line in found.items() if line is not None}


def of_numbers(
    trial: JudgeTrial,
    trace: Traced | None,
    candidate: Candidate,
    answer: WrongOutputs,
    found: Alike | None,
    cause: Cause,
) -> SourceLine | None:
    """Return the line that makes the first wrong value, as far as a trace tells."""
    if trace is None or not any(one.line for one in trace.seen):
        return None
    if cause in (Cause.LOW_ACCUMULATION, Cause.LOW_PRECISION):
        low = _low(trace.seen, sums=cause is Cause.LOW_ACCUMULATION)
        if low is not None:
            return source_line(candidate, low.file, low.line, what=f"{low.op} in {low.dtype}")
    right = _values(trial, answer.case, None)
    if not right.sketches:
        return None
    made = _made(trace.seen)
    known = [right.hold(one) for one in made]
    if found is not None:
        broken = _values(trial, answer.case, found).beside(right)
        for one, is_right in zip(made, known, strict=True):
            if one.line and not is_right and broken.hold(one):
                return source_line(candidate, one.file, one.line, what="makes the wrong value")
    last = max((n for n, is_known in enumerate(known) if is_known), default=-1)
    unknown = (one for n, one in enumerate(made) if n > last and not known[n])
    after = next((one for one in unknown if one.line and one.sketches), None)
    if after is None:
        if last < len(known) - 1 or right.answers.hold(made[-1]):
            return None  # few of its numbers are wrong: values as a whole do not tell
        # Every value is one of the reference's, and the last one is not its answer.
        end = next((one for one in reversed(made) if one.line), None)
        what = "ends before what the reference still does"
        return source_line(candidate, end.file, end.line, what=what) if end is not None else None
    what = "makes the first value that the reference has not"
    return source_line(candidate, after.file, after.line, what=what)


def of_ranges(
    trial: JudgeTrial,
    launches: Sequence[LaunchEvidence],
    candidate: Candidate,
    answer: WrongOutputs,
    found: Alike | None,
) -> SourceLine | None:
    """Return the line of a kernel that makes the first wrong value, by the machine's magnitudes.

    A value of the reference has a largest and a smallest magnitude, and so has what the
    instructions of a line gave over all threads. `launches` are those of a call on the answer's
    case. Where no value of the kernel is known, it is the line that stores.
    """
    right = _values(trial, answer.case, None)
    floats = [one for launch in launches for one in launch.floats if one.line]
    if not right.elements or not floats:
        return None
    # `wholes` is what all instructions of one kind on a line gave: an unrolled one has parts.
    wholes: dict[tuple[str, int, str], FloatRange] = {}
    for part in floats:
        whole = wholes.get(_kind(part), part)
        wholes[_kind(part)] = dataclasses.replace(
            part,
            largest=max(part.largest, whole.largest),
            smallest=min(part.smallest, whole.smallest),
        )
    known = [right.span(one) or right.span(wholes[_kind(one)]) for one in floats]
    if found is not None:
        broken = _values(trial, answer.case, found).beside(right)
        for n, (one, is_right) in enumerate(zip(floats, known, strict=True)):
            if not is_right and (broken.span(one) or broken.span(wholes[_kind(one)])):
                if found.mutant.kind in _PARTIAL:  # the terms that are missing were not read
                    begun = max((m for m in range(n) if known[m]), default=-1) + 1
                    one = floats[begun]
                what = "makes the wrong value"
                return source_line(candidate, one.file, one.line, what=what)
    # The last place at which the reference's numbers are still made, -1 for none. A kernel reads
    # its inputs again at the end, whatever it made of them before.
    given = [right.given.span(one) for one in floats]
    computed = [n for n, is_known in enumerate(known) if is_known and not given[n]]
    last = max(computed, default=next((n for n, is_known in enumerate(known) if is_known), -1))
    multiples = [
        one for one in floats[last + 1 :] if right.scaled(one) or right.scaled(wholes[_kind(one)])
    ]
    if multiples and not any(known[last + 1 :]):
        one = multiples[-1]
        what = "makes a multiple of a value of the reference, and no later value is right"
        return source_line(candidate, one.file, one.line, what=what)
    if not any(known):
        stores = next((one for one in reversed(floats) if one.stored), floats[-1])
        return source_line(candidate, stores.file, stores.line, what="stores the wrong value")
    unknown = (one for n, one in enumerate(floats) if n > last and not known[n])
    after = next(unknown, None)
    if after is None:
        return None  # the last number is right: what is wrong is no number, or of another output
    what = "makes the first value that the reference has not"
    return source_line(candidate, after.file, after.line, what=what)


def _kind(one: FloatRange) -> tuple[str, int, str]:
    return one.file, one.line, one.opcode


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What one operation of one line gave, over all its runs: a loop makes a value in parts.

    With `rounded` 16-bit values went into it: it agrees with other values to 16 bits only.
    """

    file: str
    line: int
    dtype: str
    rounded: bool
    sketches: tuple[tuple[float, ...], ...]
    sample: tuple[float, ...]


def _made(seen: Sequence[SeenOperation]) -> list[_Made]:
    """Return the operations of a call by line and turn on it, in the order of their first run."""
    first_low = next((n for n, one in enumerate(seen) if _rounds(one)), len(seen))
    runs: dict[tuple[str, int, str, int], list[int]] = {}
    turns: dict[tuple[str, int, str], int] = {}
    before: Line = "", 0
    for number, one in enumerate(seen):
        if (one.file, one.line) != before:
            turns.clear()  # another run of the line counts its operations anew
        before = one.file, one.line
        key = one.file, one.line, one.op
        turns[key] = turns.get(key, -1) + 1
        runs.setdefault((*key, turns[key]), []).append(number)
    return [
        _Made(
            file=file,
            line=line,
            dtype=seen[numbers[0]].dtype,
            rounded=numbers[0] > first_low,
            sketches=tuple(seen[n].sketch for n in numbers if seen[n].sketch),
            sample=tuple(value for n in numbers for value in seen[n].sample)[:_MOST_SAMPLED],
        )
        for (file, line, _, _), numbers in runs.items()
    ]


def _rounds(one: SeenOperation) -> bool:
    """Whether an operation makes 16-bit values, which inputs that are picked from are not."""
    return one.dtype in _LOW and one.op not in _PICKS and one.op not in _MAKES


@dataclass(frozen=True, kw_only=True)  # without slots: what is worked out once stays in it
class _Values:
    """The values of a reference: their sketches, and the sorted elements of each.

    The first `inputs` of the elements are what it was given, the last `outputs` of both are what it
    answers.
    """

    sketches: tuple[tuple[float, ...], ...]
    elements: tuple[torch.Tensor, ...]
    inputs: int = 0
    outputs: int = 0

    @functools.cached_property
    def magnitudes(self) -> tuple[tuple[float, float], ...]:
        """The largest and the smallest magnitude of each value: every line is asked about them."""
        sizes = [one.abs() for one in self.elements]
        return tuple((float(size.max()), float(size.min())) for size in sizes)

    @functools.cached_property
    def given(self) -> _Values:
        """The inputs alone."""
        return _Values(sketches=(), elements=self.elements[: self.inputs])

    @property
    def answers(self) -> _Values:
        """The outputs alone."""
        last = slice(-self.outputs, None) if self.outputs else slice(0)
        return _Values(sketches=self.sketches[last], elements=self.elements[last])

    def hold(self, made: _Made) -> bool:
        """Whether what an operation gave is one of these values, or rows or tiles of one."""
        dtype = "bfloat16" if made.rounded else made.dtype
        if len(made.sketches) == 1 and any(
            _near(made.sketches[0], other, dtype) for other in self.sketches
        ):
            return True
        if dtype in _LOW or len(made.sample) < _TELLING:
            return False  # of 16 bits any value is near one of many
        wanted = torch.tensor(made.sample, dtype=torch.float64)
        # A large value has a number near any other: of a whole one its sketch has said no.
        whole = len(made.sketches) == 1 and any(made.sketches[0][0] == o[0] for o in self.sketches)
        return any(
            _among(wanted, elements) and not (whole and _among(wanted * _BESIDE, elements))
            for elements in self.elements
        )

    def span(self, made: FloatRange) -> bool:
        """Whether one of these values has the magnitudes that instructions of a line gave."""
        for largest, smallest in self.magnitudes:
            near = _SAME_LARGEST * largest
            if abs(largest - made.largest) <= near and abs(smallest - made.smallest) <= max(
                _SAME_SMALLEST * smallest, _CANCELLED * largest
            ):
                return True
        return False

    def scaled(self, made: FloatRange) -> bool:
        """Whether what instructions gave is a value that they were not given, times a factor."""
        if made.largest < _SPREAD * made.smallest:
            return False
        for largest, smallest in self.magnitudes[self.inputs :]:
            factor = made.largest / largest
            if abs(made.smallest / (factor * smallest) - 1.0) <= _SAME_LARGEST * _SPREAD:
                return abs(factor - 1.0) > _SAME_LARGEST
        return False

    def beside(self, right: _Values) -> _Values:
        """Return those of these values that are not among the right ones."""
        return _Values(
            sketches=tuple(
                one for one in self.sketches if not any(_near(one, o, "") for o in right.sketches)
            ),
            elements=tuple(
                one
                for one in self.elements
                if not any(one.shape == o.shape and torch.allclose(one, o) for o in right.elements)
            ),
        )


def _among(wanted: torch.Tensor, elements: torch.Tensor) -> bool:
    """Whether nearly all numbers are elements of a sorted tensor, to float32's accuracy."""
    places = torch.searchsorted(elements, wanted)
    most = elements.numel() - 1
    low, high = elements[(places - 1).clamp(0, most)], elements[places.clamp(0, most)]
    apart = torch.minimum((low - wanted).abs(), (high - wanted).abs())
    return bool((apart <= _SAME_ELEMENT * wanted.abs()).double().mean() >= _NEARLY_ALL)


def source_line(candidate: Candidate, file: str, line: int, *, what: str = "") -> SourceLine | None:
    """Return a line of the candidate with its text; None where the file is not one of its own."""
    for source in candidate.sources:
        same = source.path == file or PurePosixPath(source.path).name == PurePosixPath(file).name
        rows = source.text.splitlines() if same else []
        if 0 < line <= len(rows):
            return SourceLine(file=source.path, line=line, text=rows[line - 1].strip(), what=what)
    return None


def with_text(made: Diagnosis, candidate: Candidate) -> Diagnosis:
    """Return a diagnosis whose line has the candidate's path and text, where its file is known."""
    line = made.line
    known = source_line(candidate, line.file, line.line, what=line.what) if line else None
    return made if known is None else dataclasses.replace(made, line=known)


def _held(trace: Traced) -> Line | None:
    return next(((s.file, s.line) for s in trace.seen if s.writes == "held" and s.line), None)


def _low(seen: Sequence[SeenOperation], *, sums: bool) -> SeenOperation | None:
    """Return the operation that rounds: a sum in 16 bits, else a cast whose result is used."""
    named = [one for one in seen if one.line]
    counts: dict[Line, int] = {}
    for one in named:
        counts[one.file, one.line] = counts.get((one.file, one.line), 0) + 1
    if sums:
        adding = [s for s in named if s.op in _SUMS and s.dtype in _LOW]
        repeated = [s for s in adding if counts[s.file, s.line] > 1]
        found = next(iter(repeated or adding), None)
        if found is not None:
            made = [s for s in named if s.op in _MAKES and s.dtype == found.dtype]
            same = [s for s in made if s.sketch[:1] == found.sketch[:1]]
            return next(iter(same), found)  # where the accumulator gets its dtype
    casts = [
        s for s in named[:-1] if s.op in _CASTS and s.dtype in _LOW and s.read[:1] != s.read[1:2]
    ]
    return next((s for s in casts if s.read and s.read[-1] not in _LOW), None)


def _values(trial: JudgeTrial, case: Case, found: Alike | None) -> _Values:
    """Return every value of the reference, or of a broken version of it; none where it fails."""
    inputs = list(trial.inputs(case).values())
    watch = _Watch()
    for value in inputs:
        watch.note(value)
    given = len(watch.elements)
    right: Sequence[torch.Tensor] = ()
    try:
        with watch:
            if found is None:
                names = [spec.name for spec in trial.problem.outputs]
                right = lift(trial.reference.call, inputs, names=names)
            else:
                found.mutant.run(inputs)
    except (CuassayError, *CANNOT_RUN):
        return _Values(sketches=(), elements=())
    for value, spec in zip(right, trial.problem.outputs, strict=False):
        watch.note(value.to(getattr(torch, spec.dtype.value)))  # as a kernel stores it
    answers = [drawn for value in right if (drawn := sketch(value))]
    return _Values(
        sketches=(*dict.fromkeys(one.sketch for one in watch.seen if one.sketch), *answers),
        elements=tuple(watch.elements),
        inputs=given,
        outputs=len(answers),
    )


_ATEN = torch.ops.aten
_DECOMPOSED = torch._decomp.get_decompositions(
    [
        _ATEN._softmax,
        _ATEN._log_softmax,
        _ATEN.native_layer_norm,
        _ATEN.native_group_norm,
        _ATEN.gelu,
        _ATEN.silu,
        _ATEN.var,
        _ATEN.logsumexp,
        _ATEN.addmm,
        _ATEN.hardswish,
        _ATEN.mish,
        _ATEN.softplus,
    ]
)


class _Watch(OpWatch):
    """Notes what the reference makes, with the elements of each value in order."""

    def __init__(self) -> None:
        super().__init__(lambda: ("", 0))
        self.elements: list[torch.Tensor] = []

    def note(self, value: object) -> None:
        """Keep the elements of a value in order, where it has some."""
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return
        if 0 < value.numel() <= _MOST_ELEMENTS and len(self.elements) < _MOST_KEPT:
            flat = value.detach().double().reshape(-1).cpu()
            flat = flat[flat.isfinite() & (flat != 0)]
            self.elements += [flat.sort().values] if flat.numel() else []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and note what it gave."""
        result = super().__torch_dispatch__(func, types, args, kwargs)
        whole = _DECOMPOSED.get(func)
        if whole is not None:  # a kernel makes what such an operation is made of
            try:
                with self:
                    whole(*args, **(kwargs or {}))
            except (RuntimeError, NotImplementedError, TypeError):
                pass
        for value in result if isinstance(result, tuple | list) else (result,):
            self.note(value)
        return result


def _near(first: tuple[float, ...], second: tuple[float, ...], dtype: str) -> bool:
    if not second or first[0] != second[0]:
        return False
    mean, most = _NEAR.get(dtype, _NEAR_ELSE)
    size = max(abs(second[2]), abs(first[2]), 1e-30)
    allowed = (mean * size, mean * size, most * max(abs(first[3]), abs(second[3]), 1e-30))
    return all(
        abs(a - b) <= limit or a == b
        for a, b, limit in zip(first[1:], second[1:], allowed, strict=True)
    )
