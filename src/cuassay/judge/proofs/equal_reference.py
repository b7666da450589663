"""Is what a candidate computes the reference's expression? Both in residues, on the same data.

The reference runs here, in float64 with residues beside its values (`cuassay.algebra`); the
candidate is called in its worker, and its recorded launches are executed once more, in residues, in
another worker into which nothing of it is loaded. Equal residues are equal expressions. Where they
differ, an input is looked for on which the float results differ as well, and run once more.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from cuassay.algebra.follow import expressions
from cuassay.checks.base import Run
from cuassay.checks.endings.findings import first_raised, inconclusive_reason, termination_finding
from cuassay.checks.judgement import Answers
from cuassay.checks.machine.faults import machine_cases, recorded_call, recording_of
from cuassay.checks.numeric.listed_sizes import elements_of, refusal_condition
from cuassay.checks.state.answers import reads_of
from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.inputs.regimes import Regime, fill, fills_for
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery
from cuassay.judge.run.machine_worker import asked
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.digest import sha256_fields
from cuassay.model.events import Event, Progress
from cuassay.model.machine import EqualityEvidence
from cuassay.model.problem import Scalar
from cuassay.model.proofs import Equality, ProofAnswer
from cuassay.model.scenario import Scenario, call_steps
from cuassay.sandbox.guest.items import host_memory
from cuassay.sandbox.host.call import Caller

SEEDS = (1, 2)
_FUNCTION = "cuassay.algebra.programs:match"
_ELEMENTS = 1 << 15  # of inputs and outputs of the larger size
# Numbers of both signs, and large enough that what is clamped, or decided at 1, 3 or 6, is so.
_DATA = (
    Regime(name="scale 1", main=fill("normal"), side=fill("normal", mean=0.5, scale=1.0)),
    Regime(name="scale 4", main=fill("normal", scale=4.0), side=fill("normal", scale=1.0)),
)
_SEARCHED = (
    *_DATA,
    Regime(name="scale 0.01", main=fill("normal", scale=0.01)),
)
_GROSS, _MOST = 0.25, 0.5
_ZEROS = 1 / 32  # of an input: more than chance makes
_SHOWN = 6
_STATE = (
    "with the reference's weights given to the candidate: what it draws for itself is not compared"
)
_REAL = "Triton's log, exp, sin, cos and tanh of libdevice are taken for what they approximate"
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.int64}


@dataclass(frozen=True, slots=True)
class _Seen:
    """One call in residues: the evidence, and whether the float results differ as well.

    `undefined`: the reference gives NaN for these data.
    """

    evidence: EqualityEvidence
    wrong: str
    undefined: bool


def equality(
    trial: JudgeTrial,
    candidate: Candidate,
    digest: str,
    host: HostNursery,
    *,
    limit_s: float,
    emit: Callable[[Event], None],
) -> Equality:
    """Return whether the candidate's outputs are the reference's expressions.

    `limit_s` is the time for one launch. What cannot be decided is UNKNOWN, with the reason.
    """
    started = time.monotonic()
    try:
        found = _equality(trial, candidate, digest, host, limit_s, emit)
    except CuassayError as error:
        found = Equality(answer=ProofAnswer.UNKNOWN, reason=str(error)[:600])
    return replace(found, seconds=time.monotonic() - started)


def _equality(
    trial: JudgeTrial,
    candidate: Candidate,
    digest: str,
    host: HostNursery,
    limit_s: float,
    emit: Callable[[Event], None],
) -> Equality:
    from cuassay.algebra.programs import prepare

    prepare()  # here, for a worker cannot write the runtime's folder
    with Caller(host.get(), name=sha256_fields("ptx-machine", digest)) as caller:

        def compared(cases: Sequence[Case], note: str = "") -> Equality | _Different:
            return _compared(trial, candidate, cases, host, caller, limit_s, emit, note)

        cases = list(_cases(trial, _DATA))
        if not cases:
            raise CannotJudgeError("the reference accepts no data at a size that a CPU executes")
        found = compared(cases)
        searched = [*_cases(trial, _SEARCHED)]
        if isinstance(found, _Different):
            undefined = found.seen.undefined
            own = list(_own_cases(trial, zeros=not undefined))
            if own:  # others may be of no concern to the candidate
                searched = own
                note = "with zeros where the problem's own generator makes them"
                if undefined:
                    note = "for data of the problem's own generator: of others the reference is NaN"
                found = compared(own, note)
        if isinstance(found, Equality):
            return found
    return _other(trial, candidate, found, searched, host)


class _RefusedSizesError(CannotJudgeError):
    """The candidate raised at sizes that nobody promised: it may be written for others."""


@dataclass(frozen=True, slots=True)
class _Different:
    """A case in which an output is another expression."""

    case: Case
    seen: _Seen


def _compared(
    trial: JudgeTrial,
    candidate: Candidate,
    cases: Sequence[Case],
    host: HostNursery,
    caller: Caller,
    limit_s: float,
    emit: Callable[[Event], None],
    note: str,
) -> Equality | _Different:
    """Return PROVED, or the first case with a difference. Raises CannotJudgeError."""
    seen: list[EqualityEvidence] = []
    proved: list[Case] = []
    notes = [note] if note else []
    numbers: dict[str, tuple[float, ...]] = {}
    most = 0.0
    for case in cases:
        emit(Progress(text=f"in residues: {case.label}"))
        inputs = trial.inputs(case)
        try:
            one = _called(trial, candidate, case, inputs, host, caller, limit_s)
        except _RefusedSizesError as refusal:
            if case is cases[-1] and not seen:
                raise
            notes.append(str(refusal))
            continue
        most, proved = max(most, shared(inputs)), [*proved, case]
        if one.evidence.refused:
            raise CannotJudgeError(f"{one.evidence.refused} ({case.label})")
        if one.evidence.equal < one.evidence.elements:
            return _Different(case, one)
        if one.wrong:
            raise CannotJudgeError(
                f"expressions agree and float results do not: {one.wrong} ({case.label})"
            )
        scalars = [one for one in inputs.values() if not isinstance(one, torch.Tensor)]
        sizes = str((sorted(case.axes.items()), scalars))
        if not _same(numbers.setdefault(sizes, one.evidence.numbers), one.evidence.numbers):
            raise CannotJudgeError(
                "host code gives its kernels or torch a number that depends on data: with "
                f"other data of the same sizes it is another one ({case.label})"
            )
        seen.append(one.evidence)
    prime = seen[0].prime
    count = len(SEEDS) * len(proved)
    again = f"; {most:.1%} of the numbers of inputs have the size of another, and are one with it"
    scope = (
        *(f"at {case.label}" for case in proved),
        "for all floats that decide comparisons and roundings to integers as these do, "
        "with the integers and scalars of these and contiguous inputs",
        f"a difference of degree d is missed with probability (d / {prime})^{count}"
        + (again if most else ""),
    )
    return Equality(
        answer=ProofAnswer.PROVED,
        scope=(
            *scope,
            *dict.fromkeys(notes),
            *([_STATE] if trial.problem.state else []),
            *_programs(seen),
            *([_REAL] if candidate.names_triton else []),
        ),
        elements=sum(one.elements for one in seen),
        seeds=len(SEEDS),
        data=len(proved),
        prime=seen[0].prime,
        shared=most,
    )


def _own_cases(trial: JudgeTrial, *, zeros: bool) -> Iterator[Case]:
    """Yield data of the problem's own generator, two a size; with `zeros` only if it makes some.

    Zeros at places of their own (triangles, masks) may be what a candidate is right by.
    """
    if trial.problem.reference.generator is None:
        return
    drawn = [(base, sizes, turn) for base, sizes in _bases(trial) for turn in (1, 2)]
    for number, (base, sizes, turn) in enumerate(drawn):
        own = replace(
            base,
            label=f"{sizes}; the problem's own data {turn}",
            fills={},
            seed=trial.seed("equal", "own", number),
            generator=True,
            benchmark=False,
        )
        floats = [
            one
            for one in trial.inputs(own).values()
            if isinstance(one, torch.Tensor) and one.is_floating_point()
        ]
        if zeros and not any(_ZEROS * one.numel() < int((one == 0).sum()) for one in floats):
            return
        yield own


def _bases(trial: JudgeTrial) -> Iterator[tuple[Case, str]]:
    """Yield a case of a small size and one of a larger, each with its sizes in words."""
    found = machine_cases(trial)
    fitting = [one for one in found if elements_of(trial.problem, one.axes) <= _ELEMENTS]
    larger = max(fitting[1:], key=lambda one: elements_of(trial.problem, one.axes), default=None)
    for base in [*found[:1], *([larger] if larger else [])]:
        sizes = ", ".join(
            f"{axis.name}={base.axes[axis.name]}" for axis in trial.problem.var_axes()
        )
        yield base, sizes or "its only size"


def _cases(trial: JudgeTrial, regimes: Sequence[Regime]) -> Iterator[Case]:
    """Yield small sizes with data of each regime, as the reference accepts them."""
    for number, (base, sizes) in enumerate(_bases(trial)):
        for regime in regimes:
            case = replace(
                base,
                label=f"{sizes}; {regime.name}",
                fills=fills_for(trial.problem, regime),
                seed=trial.seed("equal", number, regime.name),
                generator=False,
                benchmark=False,
            )
            settled = trial.planned.learning.settle(case)
            yield settled or replace(base, seed=case.seed, label=f"{sizes}; the problem's own data")


def shared(inputs: Mapping[str, torch.Tensor | Scalar]) -> float:
    """Return the share of input elements whose size another has too, or that are 0 or 1.

    Raises CannotJudgeError for an input that is one number, 0 or 1 for the most part: the data
    would not show what a kernel makes of others.
    """
    found = []
    for name, one in inputs.items():
        if not isinstance(one, torch.Tensor) or not one.is_floating_point() or not one.numel():
            continue
        values = one.detach().double().abs().reshape(-1).numpy()
        _, count = np.unique(values, return_counts=True)
        plain = np.isin(values, (0.0, 1.0)) | ~np.isfinite(values)
        if (
            max(float(count.max()) if values.size > 1 else 0.0, float(plain.sum()))
            > _MOST * values.size
        ):
            raise CannotJudgeError(
                f"input '{name}' is the same number almost everywhere in the data that the "
                "reference accepts, which says nothing about others"
            )
        found.append(values)
    if not found:
        return 0.0
    every = np.concatenate(found)
    _, place, count = np.unique(every, return_inverse=True, return_counts=True)
    alone = (count[place] == 1) & ~np.isin(every, (0.0, 1.0))
    return 1.0 - float(alone.mean())


def _programs(seen: Sequence[EqualityEvidence]) -> Iterator[str]:
    """Yield what the calls ran: what is proved holds for these kernels and operations."""
    kernels = dict.fromkeys(name for one in seen for name in one.kernels)
    operations = dict.fromkeys(name for one in seen for name in one.operations)
    if not kernels:
        yield "the calls launch no kernel of the candidate: torch alone makes the outputs"
    else:
        shown = ", ".join(list(kernels)[:_SHOWN])
        yield f"the calls launch {shown}" + (" and others" if len(kernels) > _SHOWN else "")
    if operations:
        shown = ", ".join(name.removeprefix("aten::") for name in list(operations)[:_SHOWN])
        more = " and others" if len(operations) > _SHOWN else ""
        yield f"of torch they run {shown}{more}, taken for what torch documents"


def _same(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(
        a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(one, other, strict=True)
    )


def _called(
    trial: JudgeTrial,
    candidate: Candidate,
    case: Case,
    inputs: Mapping[str, torch.Tensor | Scalar],
    host: HostNursery,
    caller: Caller,
    limit_s: float,
) -> _Seen:
    """Call the candidate once and compare what its launches compute in residues."""
    names = [spec.name for spec in trial.problem.outputs]
    expected = [
        expressions(trial.reference.call, list(inputs.values()), seed=seed, names=names)
        for seed in SEEDS
    ]
    dtypes = [getattr(torch, spec.dtype.value) for spec in trial.problem.outputs]
    parts, described = [], []
    for (value, slots), dtype in zip(expected[0], dtypes, strict=True):
        flat = value.detach().contiguous().reshape(-1)
        described.append((flat.numel(), slots is not None))
        if slots is not None:
            parts.append(flat.double().numpy().view(np.int64))
        else:
            codes = flat.to(dtype).view(torch.uint8).numpy().view(_UNSIGNED[dtype.itemsize])
            parts.append(codes.astype(np.int64))
    for one in expected:
        parts += [slots.contiguous().reshape(-1).numpy() for _, slots in one if slots is not None]
    buffer, outputs = b"".join(part.tobytes() for part in parts), described
    wanted = json.dumps({"seeds": SEEDS, "limit_s": limit_s, "outputs": outputs}).encode()
    scenario = recorded_call(case, operations=True)
    with Executor(trial, candidate, device=CPU, nursery=host.get(), host=host) as runner:
        run = runner(scenario)
        recording = recording_of(scenario, run)
        ended = termination_finding(scenario, run, problem=trial.problem)
        if inconclusive_reason(run) or ended is not None or recording is None:
            raised = first_raised(run)
            sizes = refusal_condition(trial.problem, case) if raised else ""
            if sizes:
                raise _RefusedSizesError(f"{sizes}: at others the candidate raises")
            said = f"{raised.exception}: {raised.message}" if raised else "nothing was recorded"
            raise CannotJudgeError(inconclusive_reason(run) or (ended.message if ended else said))
        evidence = asked(
            caller,
            _FUNCTION,
            [host_memory(recording.cpu().contiguous()), memoryview(buffer), memoryview(wanted)],
            EqualityEvidence,
            timeout_s=60.0 + 8 * len(SEEDS) * limit_s,
        )
        undefined = any(bool(value.isnan().any()) for value, _ in expected[0])
        wrong = "" if evidence.refused else _wrong(trial, scenario, run)
        return _Seen(evidence, wrong, undefined)


def _wrong(trial: JudgeTrial, scenario: Scenario, run: Run) -> str:
    """Return how float results differ beyond all rounding; empty if they do not.

    The oracle has to find them wrong, and the worst element by a good part of the output's size:
    a cancellation is a fault of rounding, and leaves the expression what it is.
    """
    for read in reads_of(scenario, run):
        outputs = {one.name: one.value for one in trial.truth(read.case).outputs}
        for one in Answers(trial, run).wrong(read, closely=True):
            if one.mismatch:
                return one.mismatch
            size = float(outputs[one.output].double().square().mean().sqrt())
            error = abs(one.got - one.expected)
            if not one.undecided and _GROSS * max(size, abs(one.expected)) < error < math.inf:
                place = list(one.worst_index)
                return f"output '{one.output}'{place} is {one.got:g}, expected {one.expected:g}"
    return ""


def _other(
    trial: JudgeTrial,
    candidate: Candidate,
    different: _Different,
    searched: Sequence[Case],
    host: HostNursery,
) -> Equality:
    """Return the answer where expressions differ: REFUTED if float results do, twice."""
    case, seen, evidence = different.case, different.seen, different.seen.evidence
    where = f"element {evidence.element} of output '{evidence.output}' is another expression"
    tried = [case, *searched] if seen.wrong else searched
    for one in tried:
        scenario = Scenario(
            label=f"outputs: {one.label}",
            cases=(one,),
            steps=call_steps("a", 0, "r"),
            timeout_s=120.0,
        )
        said = []
        for _ in range(2):
            with Executor(trial, candidate, device=CPU, nursery=host.get(), host=host) as runner:
                said.append(_wrong(trial, scenario, runner(scenario)))
            if not said[-1]:
                break
        if len(said) == 2 and all(said):
            return Equality(
                answer=ProofAnswer.REFUTED, reason=f"{said[0]} ({one.label})", sizes=one.axes,
                elements=evidence.elements, seeds=evidence.seeds, prime=evidence.prime,
            )  # fmt: skip
    return Equality(
        answer=ProofAnswer.UNKNOWN,
        reason=f"{where} at {case.label}, of {evidence.elements - evidence.equal} in "
        f"{evidence.elements}; no data were found on which float results differ",
        sizes=case.axes,
    )
