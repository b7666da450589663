"""Refutations are run once more with the candidate's own launch before they are said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch

from cuassay.checks.endings.findings import first_raised
from cuassay.checks.machine.declared_sizes import without_memory
from cuassay.checks.machine.faults import recorded_call
from cuassay.checks.numeric.listed_sizes import elements_of
from cuassay.checks.state.answers import placed
from cuassay.errors import CannotJudgeError, CuassayError
from cuassay.formats.execute import load_reference
from cuassay.judge.environment import choose_device
from cuassay.judge.execute import recorded
from cuassay.judge.proofs.launch_samples import MOST_ELEMENTS
from cuassay.judge.proofs.on_gpu import shown as on_gpu_shown
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.axes import resolve
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.events import Event, Progress
from cuassay.model.proofs import (
    LAUNCHES,
    Claim,
    Datum,
    LaunchProof,
    ProofAnswer,
    ProofEvidence,
    Property,
)
from cuassay.model.recording import decode, encode
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Outline
from cuassay.model.trace import done_steps

_FAULTS = {
    Property.MEMORY: ("out-of-bounds", "address-overflow", "misaligned"),
    Property.RACES: ("race", "unordered", "divergent-barrier", "deadlock"),
    Property.INITIALIZED: ("uninitialised",),
}


def run_again(
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


def run_on_gpu(
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
