"""Hands the steps that bring about production conditions to the module that executes each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from cuassay.model.case import Case
from cuassay.model.scenario import Production as ProductionStep
from cuassay.model.steps import (
    Arrange,
    Backward,
    CallInto,
    CallOften,
    CallRanks,
    CallVaried,
    Capture,
    CompiledCall,
    Configurations,
    Disarm,
    Inspect,
    KeepMemory,
    Misuse,
    OpCheck,
    Outline,
    Overwrite,
    ReadGuards,
    ReadLaunches,
    ReadRecording,
    ReadSlices,
    ReadState,
    RecordLaunches,
    Repeat,
    Replay,
    Serve,
    StreamCall,
    Time,
    Together,
    TraceCall,
)
from cuassay.sandbox.guest.callers import (
    autograd,
    compiled,
    graphs,
    ranks,
    serving,
    slices,
    streams,
    stress,
    timing,
    tuning,
)
from cuassay.sandbox.guest.interface import Around, Given, Host, Made
from cuassay.sandbox.guest.memory import guards, layouts
from cuassay.sandbox.guest.observe import (
    call_trace,
    custom_ops,
    inspection,
    launches,
    outlines,
    process_state,
    recordings,
)


class Production:
    """Executes the steps of `model.steps` for one interpreter; graphs live between them."""

    def __init__(self, host: Host, around: Around) -> None:
        self._host = host
        self.around = around
        self._graphs = graphs.Graphs(host)
        self._differentiator = autograd.Differentiator(host)
        self._compiler = compiled.Compiler(host)

    def execute(  # noqa: C901, PLR0911, PLR0912  # a line a step
        self, step: ProductionStep, cases: Sequence[Case], given: Given
    ) -> Made:
        """Execute a production step."""
        match step:
            case Arrange(device=int()) if self.around.bound:
                return Made(facts=(("skipped", self.around.bound),))
            case Arrange():
                return layouts.arrange(self._host, step)
            case CallInto():
                return layouts.call_into(self._host, step)
            case Backward():
                return self._differentiator.backward(step)
            case StreamCall():
                case_ = None if step.case is None else cases[step.case]
                return streams.stream_call(self._host, step, given, case_)
            case Together():
                return streams.together(self._host, step)
            case Capture():
                return self._graphs.capture(step)
            case Replay():
                return self._graphs.replay(step)
            case Repeat():
                return stress.repeat(self._host, step)
            case CallOften():
                return timing.call_often(self._host, step)
            case Serve():
                return serving.serve(self._host, step)
            case CallVaried():
                return serving.call_varied(self._host, step)
            case CallRanks():
                return ranks.call_ranks(self._host, step)
            case Configurations():
                return tuning.configurations(self._host, step)
            case Misuse():
                return serving.misuse(self._host, step)
            case KeepMemory():
                return slices.keep_memory(self._host, step)
            case Overwrite():
                return slices.overwrite(self._host, step)
            case ReadSlices():
                return slices.read(self._host, step)
            case ReadState():
                return process_state.read(self.around)
            case ReadGuards():
                return guards.read(self.around)
            case ReadLaunches():
                return launches.read(self.around)
            case RecordLaunches():
                return recordings.start(self._host, self.around, step)
            case ReadRecording():
                return recordings.read(self._host, self.around, step)
            case Disarm():
                return launches.disarm(self.around, step)
            case Inspect():
                return inspection.inspect(self._host, step, self.around)
            case OpCheck():
                return custom_ops.op_check(self._host, step, self.around)
            case CompiledCall():
                return self._compiler.call(step, self.around)
            case TraceCall():
                return call_trace.trace_call(self._host, step)
            case Outline():
                return outlines.outline(self._host, step, cases)
            case Time():
                return timing.time_calls(self._host, step)
            case _:
                assert_never(step)
