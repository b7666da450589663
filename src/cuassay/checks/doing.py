"""What a step of a scenario does, in the words of a message."""

from __future__ import annotations

from cuassay.checks.follow import case_of_step
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    PoisonFreed,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
    Scenario,
    Step,
)
from cuassay.model.steps import (
    Arrange,
    Backward,
    CallInto,
    Capture,
    CompiledCall,
    Configurations,
    Disarm,
    Inspect,
    OpCheck,
    Overwrite,
    ReadGuards,
    ReadLaunches,
    ReadRecording,
    ReadSlices,
    ReadState,
    RecordLaunches,
    Repeat,
    Replay,
    StreamCall,
    Time,
    Together,
    TraceCall,
)


def doing(scenario: Scenario, index: int) -> str:
    """Return what step `index` does, in words."""
    if not 0 <= index < len(scenario.steps):
        return "starting up"
    case = case_of_step(scenario, index)
    on = f" on '{case.label}'" if case else ""
    return _words(scenario.steps[index]) + on


_HOW = {
    "StreamCall": "on a busy stream",
    "Together": "several times at once",
    "CallInto": "with outputs in its inputs' memory",
}


def _words(step: Step) -> str:
    match step:
        case Call():
            return "being called"
        case Allocate():
            return "its inputs were made"
        case Refill():
            return "its inputs were refilled in place"
        case ReadResult() | HashResult():
            return "its result was read"
        case ReadInputs():
            return "its inputs were read back"
        case Release() | PoisonFreed():
            return "memory was released"
        case StreamCall() | Together() | CallInto():
            return "being called " + _HOW[type(step).__name__]
        case Backward():
            return "being differentiated"
        case Configurations():
            return "being called with each configuration of its autotuner"
        case CompiledCall():
            return "being called from a compiled function"
        case TraceCall():
            return "its lines were traced"
        case Inspect():
            return "its kernels were looked at"
        case OpCheck():
            return "its custom operators were checked"
        case Capture():
            return "being captured in a CUDA graph"
        case Replay():
            return "its CUDA graph was replayed"
        case Repeat() | Time():
            return "being called many times"
        case Arrange():
            return "its inputs were laid out anew"
        case Overwrite():
            return "its result was overwritten by the caller"
        case RecordLaunches():
            return "its launches were about to be recorded"
        case Disarm():
            return "its kernels were made to do nothing"
        case ReadSlices() | ReadState() | ReadGuards() | ReadLaunches() | ReadRecording():
            return "its traces were read"
