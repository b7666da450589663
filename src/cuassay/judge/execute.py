"""`cuassay run`: one call of a candidate in the PTX machine, or a file of recorded launches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from cuassay import build
from cuassay.checks.endings.findings import first_raised, inconclusive_reason, termination_finding
from cuassay.checks.machine.faults import machine_cases, recorded_call, recording_of
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, UsageError
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.environment import choose_device
from cuassay.judge.proofs.equality import compare
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model import serial
from cuassay.model.axes import resolve
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.digest import candidate_digest, sha256_fields
from cuassay.model.events import Event, Progress
from cuassay.model.jobs import ExecuteJob
from cuassay.model.machine import MachineEvidence
from cuassay.model.scenario import Scenario
from cuassay.sandbox.host.nursery import Nursery

SUFFIX = ".safetensors"
_CASES = 0  # which of the cases that checks execute is run: the smallest
_RECORDING = Scenario(label="a file of recorded launches", cases=(), steps=())


def execute(
    job: ExecuteJob, emit: Callable[[Event], None], nursery: Nursery | None
) -> dict[str, Any]:
    """Return the document of a run: the evidence, the sources, and what was called on.

    Raises UsageError for a job that names nothing to run, and CannotJudgeError where the
    candidate's launches cannot be had.
    """
    host = HostNursery(nursery)
    try:
        return _execute(job, emit, host)
    finally:
        host.close()


def _execute(job: ExecuteJob, emit: Callable[[Event], None], host: HostNursery) -> dict[str, Any]:
    if job.candidate.endswith(SUFFIX):
        from cuassay.model.recording import decode

        path = Path(job.candidate)
        data = _read(path)
        recording = decode(data)
        nobody = Candidate(name=path.name, sources=(), entry_file="", entry_function="")
        digest = sha256_fields(data)
        with Replayer(nobody, digest, profile=job.profile, host=host) as machine:
            held = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            evidence = machine.execute(held, _RECORDING, launches=len(recording.launches))
        return _document(evidence, path.name, {}, recording.sources)
    if not job.problem:
        raise UsageError("give --problem: it says which tensors the kernel is called on")
    notes: list[str] = []
    problem = load_problem(job.problem, strict=job.strict, notes=notes)
    candidate = load_candidate(job.candidate, problem, strict=job.strict, notes=notes)
    for note in notes:
        emit(Progress(text=note))
    device = choose_device(job.device or CPU)
    build.prepare(candidate, device=CPU, notify=lambda text: emit(Progress(text=text)))
    digest = candidate_digest(candidate, build.toolchain(device))
    trial = open_trial(
        problem,
        load_reference(problem),
        profile=job.profile,
        device=device,
        root_seed=job.seed or 0,
    )
    cases = machine_cases(trial)
    if not cases:
        raise CannotJudgeError("no case is small enough to execute on a CPU; give --axes")
    case = cases[_CASES]
    known = {axis.name for axis in trial.problem.var_axes()}
    for name in job.axes:
        if name not in known:
            raise UsageError(f"--axes: '{name}' is no axis; expected one of {sorted(known)}")
    bound = {name: job.axes.get(name, case.axes[name]) for name in known}
    sizes = resolve(trial.problem.axes, bound)
    case = dataclasses.replace(
        placed(case, sizes),
        label=", ".join(f"{axis.name}={sizes[axis.name]}" for axis in trial.problem.var_axes()),
    )
    if job.against:
        other = load_candidate(job.against, problem, strict=job.strict, notes=[])
        pair = (candidate, other)
        # Both candidates are called on one case, in the algebra.
        digests = [candidate_digest(one, build.toolchain(CPU)) for one in pair]
        recordings = []
        for one, its_digest in zip(pair, digests, strict=True):
            with Replayer(one, its_digest, profile=trial.profile, host=host) as machine:
                if machine.absent:
                    raise CannotJudgeError(f"'{one.name}': {machine.absent}")
            recordings.append(recorded(trial, one, case, host))
        equality = compare(*recordings, digest=sha256_fields(*digests), host=host)
        if equality.refused:
            raise CannotJudgeError(f"the kernels cannot be compared: {equality.refused}")
        return {
            "candidate": pair[0].name,
            "against": pair[1].name,
            "axes": dict(case.axes),
            "equality": serial.to_json(equality),
        }
    with Replayer(candidate, digest, profile=job.profile, host=host) as machine:
        if machine.absent:
            raise CannotJudgeError(machine.absent)
        held = recorded(trial, candidate, case, host)
        if job.record:
            _write(Path(job.record), bytes(held.numpy()))
        evidence = machine.execute(held, recorded_call(case))
    sources = {source.path: source.text for source in candidate.sources}
    return _document(evidence, candidate.name, case.axes, sources)


def _read(path: Path) -> bytes:
    """Return a recording's bytes, the size looked at first. Raises UsageError."""
    from cuassay.model.recording import LIMIT_BYTES

    try:
        size = path.stat().st_size
        if size > LIMIT_BYTES:
            raise UsageError(
                f"{path} has {size} bytes, and a recording of launches {LIMIT_BYTES} at most; "
                "record fewer launches"
            )
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(
            f"--record: {path} cannot be written: {error.strerror or error}; name another file"
        ) from None


def recorded(
    trial: JudgeTrial, candidate: Candidate, case: Case, host: HostNursery
) -> torch.Tensor:
    # A GPU's launches of compiled host code are not seen: it runs on the CPU.
    on_gpu = trial.device.on_gpu and not candidate.compiles_cuda
    scenario = recorded_call(case, on_gpu=on_gpu)
    nursery = host.given_for(trial.device) if on_gpu else host.get()
    device = trial.device if on_gpu else CPU
    with Executor(trial, candidate, device=device, nursery=nursery, host=host) as runner:
        run = runner(scenario)
        reason = inconclusive_reason(run)
        ended = termination_finding(scenario, run, problem=trial.problem)
        recording = recording_of(scenario, run)
        if reason or ended is not None or recording is None:
            raised = first_raised(run)
            told = f"{raised.exception}: {raised.message}" if raised else "nothing was recorded"
            why = reason or (ended.message if ended else told)
            hint = "; without --device its launches are executed on the CPU" if on_gpu else ""
            raise CannotJudgeError(f"{why}{hint}")
        return recording.cpu().contiguous()


def _document(
    evidence: MachineEvidence, name: str, axes: Mapping[str, int], sources: Mapping[str, str]
) -> dict[str, Any]:
    if evidence.refused:
        raise CannotJudgeError(f"the launches cannot be executed: {evidence.refused}")
    if not evidence.launches:
        why = f": {evidence.notes[0]}" if evidence.notes else ""
        raise CannotJudgeError(f"'{name}' launched no kernel of its own that was recorded{why}")
    return {
        "candidate": name,
        "axes": dict(axes),
        "evidence": serial.to_json(evidence),
        "sources": dict(sources),
    }
