"""Steps of a scenario that bring about production conditions: streams, graphs, load, layouts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from cuassay.model.step import CallOfSlot, Held, OfResult, OfSlot, StepBase


class Layout(enum.StrEnum):
    """How a tensor's elements lie in memory; its values are the same in all of them."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"  # the last two axes exchanged in memory
    STEPPED = "stepped"  # every second element of a buffer twice as long in the last axis
    EXPANDED = "expanded"  # stride 0 along every axis whose slices are equal
    OFFSET = "offset"  # begins one element into its allocation
    PACKED = "packed"  # a view into one buffer that holds the other packed inputs as well
    CHANNELS_LAST = "channels_last"  # four axes, the second one innermost in memory
    AT_END = "at_end"  # ends where its device allocation ends


class Load(enum.StrEnum):
    """What else runs on the GPU while a candidate is called."""

    NONE = "none"
    BANDWIDTH = "bandwidth"  # large copies on another stream
    MULTIPROCESSORS = "multiprocessors"  # blocks that leave few multiprocessors free
    DELAYS = "delays"  # random pauses in the candidate's own kernels, drawn from a seed


class Upstream(enum.StrEnum):
    """How the gradient of an output lies in memory as it reaches a backward pass."""

    CONTIGUOUS = "contiguous"
    ONES = "ones"  # one number with stride 0 in every axis, as `.sum()` hands out
    TRANSPOSED = "transposed"  # the last two axes exchanged in memory
    SLICED = "sliced"  # a slice of a buffer wider in the last axis, as `cat` hands out


class Use(enum.StrEnum):
    """What becomes of a differentiated call: one of many ways that training code has."""

    ONCE = "once"
    FORWARD = "forward"  # called while nothing requires a gradient; no backward pass
    TWICE = "twice"  # two calls on the same leaves, half the sum of their gradients
    BESIDE = "beside"  # another call before this backward pass, its backward pass after
    RETAINED = "retained"  # a backward pass before this one through the same graph
    CHECKPOINT = "checkpoint"  # recomputed in the backward pass


class Moments(enum.StrEnum):
    """When an asynchronous collective reads its tensors and fills them, of what is allowed."""

    EARLY = "early"  # both at once: it reads as it begins, and fills when all ranks have begun
    LATE = "late"  # both when somebody waits for it
    CROSSED = "crossed"  # it reads once all ranks have begun, and fills at once then


class Mode(enum.StrEnum):
    """How the process of a scenario was started."""

    PLAIN = "plain"
    GUARDED = "guarded"  # every allocation lies between guard zones and is filled first
    BLOCKING = "blocking"  # every launch is waited for: an error belongs to its call
    APART = "apart"  # it holds nothing of cuassay: no module, variable or path
    # Below a tool of compute-sanitizer, in a process for one call (see worker.sanitizer).
    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    SYNCCHECK = "synccheck"
    INITCHECK = "initcheck"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrange(OfSlot):
    """Lay the inputs of `slot` out anew: values as they are, `layouts` by input name.

    `same` maps an input to another one of the same values, whose tensor is passed in its place, or
    a view of it with the last two axes exchanged. `device` is the index of the CUDA device that the
    tensors go to; the process's current device stays what it is. The answer names the layouts that
    an input cannot have.
    """

    words: ClassVar = "its inputs were laid out anew"

    layouts: Mapping[str, Layout] = field(default_factory=dict)
    same: Mapping[str, str] = field(default_factory=dict)
    device: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInto(CallOfSlot):
    """Call a destination-style candidate with outputs that share memory with inputs.

    `into` maps an output to the input whose tensor is passed in its place.
    """

    words: ClassVar = "being called with outputs in its inputs' memory"

    into: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall(StepBase):
    """Call on a stream with work before and after it, while the host waits for nothing.

    On `stream` in this order: `delay_ms` of other work, a copy of the values of `case` into
    `slot` where one is given, the call, a copy of what it returned, held under `result`.
    `stream` is any name, or "default" for the legacy default stream. First the legacy default
    stream gets `default_delay_ms` of other work: only a kernel that does not run on `stream` waits
    for it. Free memory of the device is poisoned before all of this.
    """

    words: ClassVar = "being called on a busy stream"

    slot: str
    result: str
    case: int | None = None
    stream: str = "side"
    delay_ms: float = 20.0
    default_delay_ms: float = 0.0

    @property
    def fills(self) -> tuple[str, int] | None:
        """The slot that gets the values of `case`."""
        return None if self.case is None else (self.slot, self.case)

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        if self.case is not None:
            held.slots[self.slot] = self.case
        return held.called(self.slot, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Together(StepBase):
    """Call on several slots at once, `rounds` times, each slot on a stream of its own.

    From one thread a slot with `threads`, else from this thread in turn. A slot's outputs are
    copied on its stream, round after round; the last copy is held under its result name.
    """

    words: ClassVar = "being called several times at once"

    slots: tuple[str, ...]
    results: tuple[str, ...]
    threads: bool = False
    rounds: int = 1
    delay_ms: float = 20.0

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        found = [held.called(*pair) for pair in zip(self.slots, self.results, strict=True)]
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture(StepBase):
    """Warm up on a side stream, then capture one call on `slot` in a CUDA graph named `graph`."""

    words: ClassVar = "being captured in a CUDA graph"

    slot: str
    graph: str
    warmups: int = 3

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        held.graphs[self.graph] = self.slot
        return held.slots.get(self.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(StepBase):
    """Replay a graph; a copy of what its call returned is held under `result`."""

    words: ClassVar = "its CUDA graph was replayed"

    graph: str
    result: str

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        return held.called(held.graphs.get(self.graph, ""), self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(OfSlot):
    """Call `count` times on the same inputs under `load`; send up to `kept` different results.

    Calls are made in bursts without waiting in between, and no more after `budget_s`. The
    answer's facts count the calls, the different results and how often each came; its items
    are those results one after another, most frequent first. `seed` draws the pauses of
    Load.DELAYS: `kernels` says which have how many, and no call is made where none has.
    """

    words: ClassVar = "being called many times"
    sends: ClassVar = True

    count: int
    load: Load = Load.NONE
    kept: int = 3
    seed: int = 0
    budget_s: float = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOften(StepBase):
    """Call on the same inputs again and again, drop each result, and look in between.

    The report says what the process holds after each of three spans of as many calls as fit into
    `budget_s`, `most` each, after the first calls. Garbage is collected before each look. A kernel
    whose call takes long is looked at after each two of its first calls. Without `looks` there is
    one look, after the last span. With `result` one more call is made at the end, whose result is
    held under that name.
    """

    words: ClassVar = "being called many times"

    slot: str
    most: int = 512
    budget_s: float = 0.5
    looks: bool = True
    result: str = ""

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        if not self.result:
            return held.slots.get(self.slot)
        return held.called(self.slot, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve(StepBase):
    """Call `count` times as a server does, on `slots` in turn, and hold every result.

    The result of call k, from 0, is held under `name(k)`. With `values` the tensors of the one
    slot are refilled before each call, with those of these slots in turn; of a slot that is called
    anew they are the same. No call begins after `budget_s` or once results of `most_bytes` are
    held, except in a turn that has begun: what a name of a later call then holds is the result of
    an earlier one in the same place of its turn. The report says how many calls were made.
    """

    words: ClassVar = "being called many times"

    slots: tuple[str, ...]
    count: int
    result: str
    values: tuple[str, ...] = ()
    budget_s: float = 0.2
    most_bytes: int = 1 << 26

    def name(self, number: int) -> str:
        """Return the name of the result of call `number`, from 0."""
        return f"{self.result}.{number}"

    @property
    def turn(self) -> int:
        """How many calls there are until tensors and values are those of the first again."""
        return max(len(self.slots), len(self.values))

    def follow(self, held: Held) -> int | None:
        """Return the case that it works on at last."""
        position = None
        for number in range(self.count):
            slot = self.slots[number % len(self.slots)]
            if self.values:
                source = self.values[number % len(self.values)]
                if source in held.slots:
                    held.slots[slot] = held.slots[source]
            position = held.called(slot, self.name(number))
        return position


class Issued(enum.StrEnum):
    """How a rank makes its calls on a GPU."""

    PLAINLY = "plainly"
    ON_SIDE_STREAM = "on a side stream"
    BY_GRAPH = "by replays of a CUDA graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRanks(StepBase):
    """Let each rank make the calls of its group in a row, and wait for no other rank in between.

    `slots` and `results` are, for each group of ranks, those of its calls. Results are read once
    all calls are over. The rank at place `late` of its group goes on when the others cannot, or
    `delay_ms` after it could, before each call and in each collective; on a GPU `busy_ms` of other
    work come before its calls. `moments` says when collectives read and fill their tensors on a
    CPU. With `refill` a rank writes the inputs of its later calls into the tensors of its first.
    `issued` says how a rank makes its calls on a GPU: on a side stream, `busy_ms` of other work and
    the writing of its inputs come before each call there; a CUDA graph is captured with the inputs
    of the first call, all of which have one size, and replayed for each.
    The report says whether the groups were at work at once.
    """

    words: ClassVar = "being called on several ranks"

    slots: tuple[tuple[str, ...], ...]
    results: tuple[tuple[str, ...], ...]
    late: int | None = None
    delay_ms: float = 50.0
    busy_ms: float = 0.0
    moments: Moments = Moments.LATE
    refill: bool = False
    issued: Issued = Issued.PLAINLY

    def follow(self, held: Held) -> int | None:
        """Return the case that it works on at last."""
        position = None
        for slots, results in zip(self.slots, self.results, strict=True):
            for slot, result in zip(slots, results, strict=True):
                position = held.called(slot, result)
        return position


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite(OfResult):
    """Write NaN (0xFF bytes) into every tensor held under `result`, as its owner may."""

    words: ClassVar = "its result was overwritten by the caller"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepMemory(OfResult):
    """Hold the memory of the tensors under `result` instead of these, as who keeps a view does.

    The tensors that the call returned are gone then: others, which no autograd knows to be views,
    have their places in the same memory.
    """

    words: ClassVar = "the caller kept a view of its result"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallVaried(OfSlot):
    """Call once with each change: element `place` of input `name` is `value`, and is put back.

    The first call is made without a change. The report says which calls returned the same bytes
    though they changed different elements, and neither had what the first call returned. No call
    begins after `budget_s` of the processor's time.
    """

    words: ClassVar = "being called many times"

    changes: tuple[tuple[str, int, float], ...]
    budget_s: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Misuse(OfSlot):
    """Call with None in the place of input `name` of `slot`, and ignore what comes of it.

    A caller who catches the exception calls again, as a server does after a bad request.
    """

    words: ClassVar = "being called with arguments that no caller may pass"

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlices(OfResult):
    """Send slices `places` along `axis` of the tensors held under `result`."""

    words: ClassVar = "its traces were read"
    sends: ClassVar = True

    axis: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState(StepBase):
    """Send what differs from before the candidate was imported: process-wide state as facts."""

    words: ClassVar = "its traces were read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGuards(StepBase):
    """Send, as facts, which guard zones no longer hold their pattern."""

    words: ClassVar = "its traces were read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLaunches(StepBase):
    """Send, as facts, which kernels of its own the candidate has launched, and how often."""

    words: ClassVar = "its traces were read"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLaunches(StepBase):
    """Keep every launch that the PTX machine executes from now on, with the memory it began on.

    With `on_gpu` those that the GPU executes in calls, with the memory that they left. With
    `outline` only what is launched with which arguments is kept: no memory, and no kernel runs.
    With `operations` those of torch on a CPU are kept as well, also of a candidate without kernels.
    """

    words: ClassVar = "its launches were about to be recorded"

    on_gpu: bool = False
    outline: bool = False
    operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecording(StepBase):
    """Send the launches kept so far as one uint8 tensor: a file as `machine.recording` has it.

    With `result` it says where in memory the tensors held under that result lie.
    """

    words: ClassVar = "its traces were read"
    sends: ClassVar = True

    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline(StepBase):
    """Call once on tensors that have the shapes of `case` and take no memory; no kernel runs.

    Scalars, and tensors of the same shape, are those of `slot`. What is launched with which
    arguments comes back as one uint8 tensor, as of a ReadRecording: as far as the call went
    without asking for data, and for `budget_s` at most. What it raises is a note of the recording.
    Inputs of indices hold large legal values. The input named `packed` is a part of a
    tensor three times as wide.
    """

    words: ClassVar = "being called on tensors without memory"
    sends: ClassVar = True

    slot: str
    case: int
    budget_s: float = 30.0
    packed: str = ""

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        return self.case


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations(OfSlot):
    """Call once with each configuration that the candidate's Triton autotuners may choose.

    At most `most` calls, and none begins after `budget_s`. The facts name them: `configurations`
    the number of the longest list, `autotuners` how many have chosen, `configuration K` what was
    launched, `result K` where its result lies among the answer's items (`start:count`), `refused K`
    why a GPU cannot run it. Equal results are sent once, `kept` different ones at most. In a last
    call the autotuners tune as in the first of a size: `tuned` names them, `first` says where its
    result lies.

    With `covering` only so many are called, beside the one that is chosen first, that each value of
    each parameter occurs once, and no results are sent: their launches are recorded.
    """

    words: ClassVar = "being called with each configuration of its autotuner"
    sends: ClassVar = True

    most: int = 64
    budget_s: float = 60.0
    kept: int = 4
    covering: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disarm(StepBase):
    """Turn the candidate's own kernels into ones that do nothing, from now on (or back)."""

    words: ClassVar = "its kernels were made to do nothing"

    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(StepBase):
    """Call `count` times in a row and wait; with `flush` the L2 cache is overwritten before each.

    With `idle` nothing is called: what the rest costs. The judge's clock times the step.
    """

    words: ClassVar = "being called many times"

    slot: str
    count: int
    result: str = ""
    flush: bool = True
    idle: bool = False

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        if self.idle or not self.result:
            return held.slots.get(self.slot)
        return held.called(self.slot, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect(OfSlot):
    """Call on `slot` under a profiler; facts say which kernels ran and what they need."""

    words: ClassVar = "its kernels were looked at"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCall(CallOfSlot):
    """Call on `slot` and note which of the candidate's lines run and what their operations give.

    Facts, in order: `line` for the lines of Python that ran, `op` for the operations of torch
    (see `sandbox.guest.observe.call_trace`). The answer is held under `result`. Diagnoses read it,
    verdicts never do: the candidate's own process says so.
    """

    words: ClassVar = "its lines were traced"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCheck(OfSlot):
    """Call on `slot` and put every custom operator that was called through opcheck.

    Facts: `operator NAME` for each, `failed NAME TEST` with the reason for what fails.
    """

    words: ClassVar = "its custom operators were checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCall(CallOfSlot):
    """Call inside a function that torch.compile has compiled; hold copies under `result`.

    The fact `skipped` says why that was not done; then `result` is not there.
    """

    words: ClassVar = "being called from a compiled function"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward(StepBase):
    """Call on copies of the inputs of which `wanted` require gradients, and differentiate.

    The gradients of `wanted` are held under `result` in that order, what the call returned
    under `outputs`. Upstream gradients are drawn from `seed`. Facts say which outputs carry a
    gradient, whether the candidate brings a derivative of its own, and what was written to.
    Once a call brought none, later steps of the scenario do nothing: torch differentiates.
    """

    words: ClassVar = "being differentiated"

    slot: str
    result: str
    outputs: str
    wanted: tuple[str, ...]
    seed: int
    upstream: Upstream = Upstream.CONTIGUOUS
    use: Use = Use.ONCE

    def follow(self, held: Held) -> int | None:
        """Return the case it works on."""
        position = held.called(self.slot, self.result)
        if position is not None:
            held.results[self.outputs] = held.results[self.result]
        return position
