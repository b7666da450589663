"""`cuassay prove`: launches recorded at many sizes, their law, and what holds for all sizes.

The candidate's host code runs in its worker, without its kernels; the proof is made in another
worker, into which nothing of it is loaded but PTX; a refutation is run once more with the
candidate's own launch before it is said.
"""

from __future__ import annotations

import ast
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuassay import build
from cuassay.build.machine.prove import LIMIT_ELEMENTS, packed
from cuassay.checks.endings.findings import first_raised
from cuassay.checks.machine.declared_sizes import without_memory
from cuassay.checks.machine.faults import recorded_call
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, CuassayError, UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.inputs.named_sizes import named_sizes
from cuassay.judge.environment import choose_device
from cuassay.judge.execute import recorded
from cuassay.judge.proofs.beyond import plan_beyond, record_beyond
from cuassay.judge.proofs.equal_reference import equality
from cuassay.judge.proofs.launch_samples import (
    MOST_ELEMENTS,
    LaunchSample,
    Samples,
    plan,
    record,
)
from cuassay.judge.proofs.on_gpu import shown as on_gpu_shown
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.run.machine_worker import asked
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model import serial
from cuassay.model.axes import resolve
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.digest import candidate_digest, sha256_fields
from cuassay.model.domain import Index, IntegerRange, Lengths, Offsets
from cuassay.model.dtype import DType
from cuassay.model.events import Event, Progress
from cuassay.model.jobs import ProveJob
from cuassay.model.problem import ConstAxis, ExprAxis, Problem, TensorSpec, VarAxis
from cuassay.model.proofs import (
    LAUNCHES,
    Claim,
    Datum,
    LaunchProof,
    Proof,
    ProofAnswer,
    ProofEvidence,
    Property,
    proofs_of,
)
from cuassay.model.recording import Recording, decode, encode
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Outline
from cuassay.model.trace import done_steps
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.call import Caller
from cuassay.sandbox.host.nursery import Nursery

LIMIT_S = 60.0  # for one launch
_RECORD_S = 90.0
_BEYOND_S = 30.0  # for calls at sizes beyond those that laws are fitted to
_FUNCTION = "cuassay.build.machine.prove:prove"
_FAULTS = {
    Property.MEMORY: ("out-of-bounds", "address-overflow", "misaligned"),
    Property.RACES: ("race", "unordered", "divergent-barrier", "deadlock"),
    Property.INITIALIZED: ("uninitialised",),
}
_INTEGER_BYTES = {DType.INT32: 4, DType.INT64: 8}


def prove(job: ProveJob, emit: Callable[[Event], None], nursery: Nursery | None) -> dict[str, Any]:
    """Return the document of a proof. Raises UsageError and CannotJudgeError."""
    if not job.problem:
        raise UsageError("give --problem: it says which sizes are legal")
    host = HostNursery(nursery)
    try:
        return _prove(job, emit, host)
    finally:
        host.close()


def _prove(job: ProveJob, emit: Callable[[Event], None], host: HostNursery) -> dict[str, Any]:
    notes: list[str] = []
    problem = load_problem(job.problem, strict=job.strict, notes=notes)
    candidate = load_candidate(job.candidate, problem, strict=job.strict, notes=notes)
    for note in notes:
        emit(Progress(text=note))
    build.prepare(candidate, device=CPU, notify=lambda text: emit(Progress(text=text)))
    digest = candidate_digest(candidate, build.toolchain(CPU))
    trial = open_trial(
        problem,
        load_reference(problem),
        profile=job.profile,
        device=CPU,
        root_seed=job.seed or 0,
    )
    evidence, samples = evidence_of(
        trial, candidate, digest, host, limit_s=job.limit_s, emit=emit, wanted=job.properties,
        elements=job.elements,
    )  # fmt: skip
    if evidence.refused and evidence.equality is None:
        raise CannotJudgeError(f"nothing can be proved: {evidence.refused}")
    return {
        "candidate": candidate.name,
        "problem": problem.name,
        "proof": serial.to_json(evidence),
        "proved": serial.to_json(proofs_of(evidence)),
        "answer": str(evidence.answer),
        "sizes_recorded": len(samples.found),
        "refused": [{"axes": dict(axes), "reason": why[:300]} for axes, why in samples.refused],
    }


def proofs(
    problem: Problem,
    candidate: Candidate,
    host: HostNursery,
    *,
    profile: Profile,
    seed: int,
    emit: Callable[[Event], None],
    wanted: tuple[Property, ...],
) -> tuple[Proof, ...]:
    """Return which wanted properties hold of a candidate, for its verdict."""
    try:
        build.prepare(candidate, device=CPU, notify=lambda text: emit(Progress(text=text)))
        trial = open_trial(
            problem,
            load_reference(problem),
            profile=profile,
            device=CPU,
            root_seed=seed,
        )
        digest = candidate_digest(candidate, build.toolchain(CPU))
        evidence, _ = evidence_of(
            trial, candidate, digest, host, limit_s=LIMIT_S, emit=emit, wanted=wanted
        )
    except CuassayError as error:
        evidence = ProofEvidence(refused=str(error), wanted=wanted)
    return proofs_of(evidence)


def evidence_of(
    trial: JudgeTrial,
    candidate: Candidate,
    digest: str,
    host: HostNursery,
    *,
    limit_s: float,
    emit: Callable[[Event], None],
    wanted: tuple[Property, ...],
    elements: int = 0,
) -> tuple[ProofEvidence, Samples]:
    """Return what is proved of a candidate, and what its launches were recorded at.

    `limit_s` is the time for one launch, `elements` what tensors stay below; 0: as usual.
    """
    evidence, samples = ProofEvidence(), Samples(found=(), refused=())
    if set(LAUNCHES) & set(wanted):
        try:
            evidence, samples = _launches_proved(
                trial, candidate, digest, host, limit_s=limit_s, elements=elements, emit=emit
            )
        except CuassayError as error:
            evidence = ProofEvidence(refused=str(error))
    if Property.EQUAL in wanted:
        found = equality(trial, candidate, digest, host, limit_s=limit_s, emit=emit)
        evidence = dataclasses.replace(evidence, equality=found)
    return dataclasses.replace(evidence, wanted=wanted), samples


def _launches_proved(
    trial: JudgeTrial,
    candidate: Candidate,
    digest: str,
    host: HostNursery,
    *,
    limit_s: float,
    elements: int,
    emit: Callable[[Event], None],
) -> tuple[ProofEvidence, Samples]:
    case = trial.cases("small")[0]
    samples = sampled(trial, candidate, case, host, emit, elements=elements)
    emit(Progress(text=f"launches recorded at {len(samples.found)} sizes; proving"))
    request = request_of(trial.problem, samples, limit_s=limit_s, elements=elements)
    with Caller(host.get(), name=sha256_fields("ptx-machine", digest)) as caller:
        evidence = asked(
            caller,
            _FUNCTION,
            [memoryview(request)],
            ProofEvidence,
            timeout_s=60.0 + 24 * limit_s,
        )
    confirmed = _confirmed(evidence, trial, candidate, case, digest, host)
    return _on_gpu(confirmed, trial, candidate, case, host, emit), samples


def request_of(problem: Problem, samples: Samples, *, limit_s: float, elements: int = 0) -> bytes:
    """Return what a proof is made of, as bytes for `build.machine.prove.prove`."""
    free = {axis.name for axis in problem.var_axes()}

    def outlines(samples: Sequence[LaunchSample]) -> list[tuple[dict[str, int], Recording]]:
        return [
            ({name: one.axes[name] for name in one.axes if name in free}, one.recording)
            for one in samples
        ]

    asked = {**wanted(problem), "limit_s": limit_s, "elements": elements}
    asked["values"] = {
        name: one for name, one in asked["values"].items() if name not in samples.changed
    }
    return packed(outlines(samples.found), asked, outlines(samples.beyond))


def sampled(
    trial: JudgeTrial,
    candidate: Candidate,
    case: Case,
    host: HostNursery,
    emit: Callable[[Event], None],
    *,
    elements: int = 0,
) -> Samples:
    """Return a candidate's launches at many sizes, recorded without running a kernel.

    Calls on tensors of fewer than `elements` elements say how far their law holds (0: as many as
    proofs are asked for as usual). Raises CannotJudgeError where nothing was recorded.
    """
    with Replayer(candidate, "", profile=trial.profile, host=host) as machine:
        if machine.absent:
            raise CannotJudgeError(machine.absent)
    sizes = plan(trial.problem)
    emit(Progress(text=f"recording what is launched at {len(sizes)} sizes"))
    with Executor(trial, candidate, device=CPU, nursery=host.get(), host=host) as runner:
        until: list[float] = []

        def going() -> bool:
            if len(until) < 2:  # the first call builds the candidate
                until.append(time.monotonic() + _RECORD_S)
            return time.monotonic() < until[-1]

        watched = []
        for name, (low, high, nbytes, *_) in wanted(trial.problem)["values"].items():
            most = (1 << 8 * nbytes - 1) - 1
            if (low, high) != ([-most - 1], [most]):  # more than its type says
                watched.append(name)
        samples = record(trial, runner, case, sizes, watched=watched, going=going)
        if samples.found:
            numbers = (one.value for one in named_sizes(one.text for one in candidate.sources))
            end = time.monotonic() + _BEYOND_S
            beyond = record_beyond(
                runner, trial.problem, case,
                plan_beyond(trial.problem, sizes[0], numbers, limit=elements or LIMIT_ELEMENTS),
                going=lambda: time.monotonic() < end,
            )  # fmt: skip
            samples = dataclasses.replace(samples, beyond=beyond)
    if not any(one.recording.launches for one in samples.found):
        said = f": {samples.refused[0][1]}" if samples.refused else ""
        raise CannotJudgeError(f"'{candidate.name}' launched no kernel that was recorded{said}")
    return samples


def _confirmed(
    evidence: ProofEvidence,
    trial: JudgeTrial,
    candidate: Candidate,
    case: Case,
    digest: str,
    host: HostNursery,
) -> ProofEvidence:
    """Run refutations with the candidate's own launches; what then shows no fault is unknown."""

    def judged(kernel: str, one: Claim) -> Claim:
        if one.answer is not ProofAnswer.REFUTED:
            return one
        again = placed(case, resolve(trial.problem.axes, one.sizes))
        try:
            with Replayer(candidate, digest, profile=trial.profile, host=host) as machine:
                recording = _whole(trial, candidate, again, host, one)
                if recording is not None:
                    seen = machine.execute(recording, recorded_call(again))
                else:
                    hollow = _outlined(trial, candidate, without_memory(case, again), host)
                    named = {
                        "kernel": kernel, "block": one.block or (0, 0, 0), "line": one.ptx_line,
                        "data": [[d.input, d.offset, d.nbytes, d.value] for d in one.data],
                    }  # fmt: skip
                    seen = machine.again(hollow, named)
        except CuassayError as error:
            why = f"the law's launch shows a fault ({one.reason}), but: {error}"
            return dataclasses.replace(one, answer=ProofAnswer.UNKNOWN, reason=why[:600])
        if any(fault.kind in _FAULTS[one.what] for _, fault in seen.faults):
            return one
        why = (
            f"the law's launch shows a fault ({one.reason}), the candidate's own does not: "
            "what is launched follows another law"
        )
        return dataclasses.replace(one, answer=ProofAnswer.UNKNOWN, reason=why[:600])

    def launch(one: LaunchProof) -> LaunchProof:
        claims = tuple(judged(one.kernel, claim) for claim in one.claims)
        return dataclasses.replace(one, claims=claims)

    calls = tuple(
        dataclasses.replace(call, launches=tuple(map(launch, call.launches)))
        for call in evidence.calls
    )
    return dataclasses.replace(evidence, calls=calls)


def _on_gpu(
    evidence: ProofEvidence,
    trial: JudgeTrial,
    candidate: Candidate,
    case: Case,
    host: HostNursery,
    emit: Callable[[Event], None],
) -> ProofEvidence:
    """Run the first refutation of each property on the GPU, if there is one; say what it shows."""
    refuted = [one for what in LAUNCHES for call in evidence.calls for one in call.claims(what)]
    refuted = [one for one in refuted if one.answer is ProofAnswer.REFUTED]
    device = choose_device(None)
    if not refuted or not device.on_gpu:
        return evidence
    on_gpu = open_trial(
        trial.problem, load_reference(trial.problem), profile=trial.profile, device=device,
        root_seed=0,
    )  # fmt: skip
    said: dict[int, str] = {}
    for one in {each.what: each for each in reversed(refuted)}.values():
        again = placed(case, resolve(trial.problem.axes, one.sizes))
        emit(Progress(text=f"running the refutation of {one.what} on the GPU"))
        said[id(one)] = on_gpu_shown(
            on_gpu, candidate, again, one, host, notify=lambda text: emit(Progress(text=text))
        )
    calls = tuple(
        dataclasses.replace(
            call,
            launches=tuple(
                dataclasses.replace(
                    launch,
                    claims=tuple(
                        dataclasses.replace(one, gpu=said.get(id(one), "")) for one in launch.claims
                    ),
                )
                for launch in call.launches
            ),
        )
        for call in evidence.calls
    )
    return dataclasses.replace(evidence, calls=calls)


def _whole(
    trial: JudgeTrial, candidate: Candidate, again: Case, host: HostNursery, claim: Claim
) -> torch.Tensor | None:
    """Return the launches of a call with their memory, which holds a claim's data; None where that
    is too much to record and a block can show the fault alone.
    """
    if elements_of(trial.problem, again.axes) > MOST_ELEMENTS:
        return None
    try:
        recording = recorded(trial, candidate, again, host)
    except CannotJudgeError:
        if claim.what is not Property.MEMORY or claim.block is None:
            raise
        return None
    return _placed(recording, claim.data) if claim.data else recording


def _placed(recording: torch.Tensor, data: tuple[Datum, ...]) -> torch.Tensor:
    """Return a recording whose inputs hold integers, before the first launch that reads them."""
    found = decode(bytes(recording.cpu().contiguous().numpy()))
    waiting, launches = {one.input: one for one in data}, list(found.launches)
    for number, launch in enumerate(launches):
        contents = dict(launch.contents)
        for place, region in enumerate(launch.regions):
            for one in [each for each in data if each.input == region.name and place in contents]:
                raw = bytearray(contents[place])
                bits = one.value & ((1 << 8 * one.nbytes) - 1)
                raw[one.offset : one.offset + one.nbytes] = bits.to_bytes(one.nbytes, "little")
                contents[place] = bytes(raw)
                waiting.pop(one.input, None)
        launches[number] = dataclasses.replace(launch, contents=contents)
        if not waiting:
            break
    kept = dataclasses.replace(found, launches=tuple(launches))
    return torch.frombuffer(bytearray(encode(kept)), dtype=torch.uint8)


def _outlined(
    trial: JudgeTrial, candidate: Candidate, scenario: Scenario, host: HostNursery
) -> torch.Tensor:
    """Return the launches of a call on tensors without memory."""
    with Executor(trial, candidate, device=CPU, nursery=host.get(), host=host) as runner:
        run = runner(scenario)
        items = [record.items for _, record in done_steps(scenario, run.result, Outline)]
        if not items or not items[0]:
            raised = first_raised(run)
            why = f": {raised.exception}: {raised.message}" if raised else ""
            raise CannotJudgeError(f"the call without memory did not end{why}")
        return run.tensor(items[0][0])


def wanted(problem: Problem) -> dict[str, Any]:
    """Return a problem's domain as the proof takes it: axes, tensors, bounds of integers in them.

    What cannot be said in its terms is left out: then more has to be shown.
    """
    known: dict[str, list[Any]] = {}
    axes: dict[str, Any] = {}
    for axis in problem.axes:
        match axis:
            case VarAxis():
                high = axis.maximum
                if axis.sizes:
                    high = max(axis.sizes)
                axes[axis.name] = [axis.minimum, high, axis.multiple_of]
                known[axis.name] = [axis.name]
            case ConstAxis():
                known[axis.name] = [axis.value]
            case ExprAxis():
                found = _polish(axis.expression, known)
                if found is not None:
                    known[axis.name] = found
    tensors = []
    values: dict[str, Any] = {}
    for spec in (*problem.inputs, *problem.outputs):
        if not isinstance(spec, TensorSpec):
            continue
        shape = [_polish(one, known) for one in spec.shape]
        if all(one is not None for one in shape):
            tensors.append(shape)
    for spec in problem.inputs:
        if isinstance(spec, TensorSpec) and spec.dtype in _INTEGER_BYTES:
            bounds = _bounds(spec, known)
            if bounds is not None:
                stated = any(fact.input == spec.name for fact in problem.stated)
                free = not stated and _is_free(spec)
                rising = not stated and isinstance(spec.domain, Offsets) and len(spec.shape) == 1
                values[spec.name] = [*bounds, _INTEGER_BYTES[spec.dtype], free, rising]
    listed = [
        {name: workload.axes[name] for name in axes}
        for workload in problem.workloads
        if all(name in workload.axes for name in axes)
    ]
    return {"axes": axes, "tensors": tensors, "values": values, "listed": listed}


def _is_free(spec: TensorSpec) -> bool:
    """Whether every integer within the bounds may stand anywhere in an input."""
    match spec.domain:
        case Index(sentinels=sentinels, unique=unique, lengths=""):
            return not unique and set(sentinels) == set(range(min((0, *sentinels)), 0))
        case IntegerRange() | Lengths():
            return True
        case _:
            return False


def _bounds(spec: TensorSpec, known: Mapping[str, list[Any]]) -> list[list[Any]] | None:
    match spec.domain:
        case Index(axis=axis, sentinels=sentinels, lengths=""):
            size = _polish(axis, known)
            if size is None or any(one >= 0 for one in sentinels):
                return None
            return [[min((0, *sentinels))], [*size, 1, "-"]]
        case Offsets(axis=axis):
            size = _polish(axis, known)
            return None if size is None else [[0], size]
        case Lengths(axis=axis, low=low):
            size = _polish(axis, known)
            return None if size is None else [[low], size]
        case IntegerRange(low=low, high=high):
            return [[low], [high]]
        case _:
            return None


def _polish(text: str, known: Mapping[str, list[Any]]) -> list[Any] | None:
    """Return an expression of axes in reverse Polish notation; None for what has no such form."""
    try:
        return _tokens(ast.parse(text.strip(), mode="eval").body, known)
    except (SyntaxError, ValueError):
        return None


def _tokens(node: ast.expr, known: Mapping[str, list[Any]]) -> list[Any]:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return [number]
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.BinOp(left=left, op=op, right=right):
            signs: dict[type[ast.operator], str] = {
                ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//",
            }  # fmt: skip
            if type(op) in signs:
                below = _tokens(right, known)
                if signs[type(op)] != "//" or (isinstance(below[0], int) and len(below) == 1):
                    return [*_tokens(left, known), *below, signs[type(op)]]
    raise ValueError(ast.unparse(node))
