"""`cuassay prove`: launches recorded at many sizes, their law, and what holds for all sizes.

The candidate's host code runs in its worker, without its kernels; the proof is made in another
worker, into which nothing of it is loaded but PTX; a refutation is run once more with the
candidate's own launch before it is said.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from cuassay import build
from cuassay.errors import CannotJudgeError, CuassayError, UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.proofs.confirm import run_again, run_on_gpu
from cuassay.judge.proofs.equal_reference import equality
from cuassay.judge.proofs.launch_samples import Samples
from cuassay.judge.proofs.request import request_of
from cuassay.judge.proofs.sampling import sampled
from cuassay.judge.run.machine import HostNursery
from cuassay.judge.run.machine_worker import asked
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model import serial
from cuassay.model.candidate import Candidate
from cuassay.model.device import CPU
from cuassay.model.digest import candidate_digest, sha256_fields
from cuassay.model.events import Event, Progress
from cuassay.model.jobs import ProveJob
from cuassay.model.problem import Problem
from cuassay.model.proofs import LAUNCHES, Proof, ProofEvidence, Property, proofs_of
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.call import Caller
from cuassay.sandbox.host.nursery import Nursery

LIMIT_S = 60.0  # for one launch
_FUNCTION = "cuassay.build.machine.prove:prove"


def prove(job: ProveJob, emit: Callable[[Event], None], nursery: Nursery | None) -> dict[str, Any]:
    """Return the document of a proof. Raises UsageError and CannotJudgeError."""
    if not job.problem:
        raise UsageError("give --problem: it says which sizes are legal")
    host = HostNursery(nursery)
    try:
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
    finally:
        host.close()


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
            confirmed = run_again(evidence, trial, candidate, case, digest, host)
            evidence = run_on_gpu(confirmed, trial, candidate, case, host, emit)
        except CuassayError as error:
            evidence = ProofEvidence(refused=str(error))
    if Property.EQUAL in wanted:
        found = equality(trial, candidate, digest, host, limit_s=limit_s, emit=emit)
        evidence = dataclasses.replace(evidence, equality=found)
    return dataclasses.replace(evidence, wanted=wanted), samples
