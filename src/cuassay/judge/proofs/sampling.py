"""Launches of a candidate recorded at many sizes, without running a kernel."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable

from cuassay.build.machine.prove import LIMIT_ELEMENTS
from cuassay.errors import CannotJudgeError
from cuassay.inputs.named_sizes import named_sizes
from cuassay.judge.proofs.beyond import plan_beyond, record_beyond
from cuassay.judge.proofs.launch_samples import Samples, plan, record
from cuassay.judge.proofs.request import wanted
from cuassay.judge.run.executor import Executor
from cuassay.judge.run.machine import HostNursery, Replayer
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.events import Event, Progress

_RECORD_S = 90.0
_BEYOND_S = 30.0  # for calls at sizes beyond those that laws are fitted to


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
