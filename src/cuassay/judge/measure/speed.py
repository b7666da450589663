"""What the risk buys: the candidate's time beside eager torch, torch.compile and the memory.

All are timed on the same inputs, with the caches overwritten before each call (see PERF001): the
candidate by the judge's clock in its worker, the reference in one or, at `quick`, in the judge.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from cuassay.checks.gpu.timing import per_call_s, timed
from cuassay.inputs.geometry import all_bytes
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.steps import Time
from cuassay.model.trace import Finished, ScenarioResult, StepDone
from cuassay.model.verdict import Profile, Speed

if TYPE_CHECKING:
    from cuassay.judge.decide.control import RunScenario
    from cuassay.judge.trial import JudgeTrial
    from cuassay.model.scenario import Scenario

_COMPILED = "cuassay_compiled_reference"
_COPY_BYTES = 1 << 29
_COPIES = 40


def measure_speed(
    trial: JudgeTrial,
    candidate: RunScenario,
    reference: RunScenario,
    *,
    compiled: Callable[[], RunScenario] | None,
    known: tuple[Scenario, ScenarioResult] | None = None,
) -> Speed | None:
    """Return the times of one call, None where the candidate could not be timed.

    `known` are the candidate's timed calls and what came back, if a check made them already. The
    reference is timed by the same scenario: what is learned later may plan other cases.
    `compiled` opens a runner of the compiled reference; it is used on CUDA from standard on.
    """
    scenario = timed(trial) if known is None else known[0]
    own = None if known is None else per_call_s(*known)
    if own is None:
        own = per_call_s(scenario, candidate(scenario).result)
    if own is None:
        return None
    ran = reference(scenario)
    eager = per_call_s(scenario, ran.result)
    if eager is None:
        # What ran in that process before may have left it in no state to go on. Where it did go on,
        # the noise of others hid the time, and a new process, a context, would hear it too.
        went_on = all(isinstance(record, StepDone) for record in ran.result.records)
        ended = not went_on or not isinstance(ran.result.termination, Finished)
        eager = per_call_s(scenario, reference(dataclasses.replace(scenario, fresh=ended)).result)
    cuda = trial.device.on_gpu
    fused = None
    if compiled is not None and cuda and trial.profile is not Profile.QUICK:
        fused = per_call_s(scenario, compiled()(scenario).result)
    rate = _bandwidth() if cuda else None
    floor = None if rate is None else all_bytes(trial.problem, scenario.cases[0].axes) / rate
    return Speed(
        axes=dict(scenario.cases[0].axes),
        candidate_us=1e6 * own,
        eager_us=None if eager is None else 1e6 * eager,
        compiled_us=None if fused is None else 1e6 * fused,
        floor_us=None if floor is None else 1e6 * floor,
    )


def takes_s(trial: JudgeTrial) -> float:
    """Return the seconds that timing the reference in this process takes, by its second call."""
    scenario = timed(trial)
    values = list(trial.truths.inputs(scenario.cases[0]).values())
    for _ in range(2):
        started = time.perf_counter()
        trial.truths.as_written(values)
        if trial.device.on_gpu:
            torch.cuda.synchronize()
    calls = sum(step.count for step in scenario.steps if isinstance(step, Time) and not step.idle)
    return calls * (time.perf_counter() - started)


def compiled_reference(reference: Candidate) -> Candidate:
    """Return the reference as a candidate that torch.compile has compiled."""
    entry = next(s for s in reference.sources if s.path == reference.entry_file)
    text = (
        f"{entry.text}\n\nimport torch as _torch_of_cuassay\n\n"
        f"{_COMPILED} = _torch_of_cuassay.compile({reference.entry_function})\n"
    )
    return dataclasses.replace(
        reference,
        name="compiled reference",
        sources=(SourceFile(path=entry.path, text=text),),
        entry_function=_COMPILED,
    )


def _bandwidth() -> float | None:
    """Return the bytes/s that a copy within the device's memory moves, read and written.

    None where others have taken the memory for it.
    """
    try:
        source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda")
        target = torch.empty_like(source)
    except torch.OutOfMemoryError:
        return None
    target.copy_(source)
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(_COPIES):
        target.copy_(source)
    torch.cuda.synchronize()
    return 2.0 * _COPY_BYTES * _COPIES / (time.perf_counter() - started)
