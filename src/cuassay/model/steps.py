"""Steps of a scenario that bring about production conditions: streams, graphs, load, layouts."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Layout(enum.StrEnum):
    """How a tensor's elements lie in memory; its values are the same in all of them."""

    CONTIGUOUS = "contiguous"
    TRANSPOSED = "transposed"  # the last two axes exchanged in memory
    STEPPED = "stepped"  # every second element of a buffer twice as long in the last axis
    EXPANDED = "expanded"  # stride 0 along the first axis: its slices must be equal
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
    CHECKPOINT = "checkpoint"  # recomputed in the backward pass


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
class Arrange:
    """Lay the inputs of `slot` out anew: values as they are, `layouts` by input name.

    `device` is the index of the CUDA device that the tensors go to; the process's current
    device stays what it is. The answer names the layouts that an input cannot have.
    """

    slot: str
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    device: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallInto:
    """Call a destination-style candidate with outputs that share memory with inputs.

    `into` maps an output to the input whose tensor is passed in its place.
    """

    slot: str
    result: str
    into: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall:
    """Call on a stream with work before and after it, while the host waits for nothing.

    On `stream` in this order: `delay_ms` of other work, a copy of the values of `case` into
    `slot` where one is given, the call, a copy of what it returned, held under `result`.
    `stream` is any name, or "default" for the legacy default stream.
    """

    slot: str
    result: str
    case: int | None = None
    stream: str = "side"
    delay_ms: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Call on several slots at once, `rounds` times, each slot on a stream of its own.

    From one thread a slot with `threads`, else from this thread in turn. A slot's outputs are
    copied on its stream, round after round; the last copy is held under its result name.
    """

    slots: tuple[str, ...]
    results: tuple[str, ...]
    threads: bool = False
    rounds: int = 1
    delay_ms: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """Warm up on a side stream, then capture one call on `slot` in a CUDA graph named `graph`."""

    slot: str
    graph: str
    warmups: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Replay a graph; a copy of what its call returned is held under `result`."""

    graph: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """Call `count` times on the same inputs under `load`; send up to `kept` different results.

    Calls are made in bursts without waiting in between, and no more after `budget_s`. The
    answer's facts count the calls, the different results and how often each came; its items
    are those results one after another, most frequent first. `seed` draws the pauses of
    Load.DELAYS: `kernels` says which have how many, and no call is made where none has.
    """

    slot: str
    count: int
    load: Load = Load.NONE
    kept: int = 3
    seed: int = 0
    budget_s: float = 25.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """Write NaN (0xFF bytes) into every tensor held under `result`, as its owner may."""

    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlices:
    """Send slices `places` along `axis` of the tensors held under `result`."""

    result: str
    axis: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """Send what differs from before the candidate was imported: process-wide state as facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGuards:
    """Send, as facts, which guard zones no longer hold their pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLaunches:
    """Send, as facts, which kernels of its own the candidate has launched, and how often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLaunches:
    """Keep every launch that the PTX machine executes from now on, with the memory it began on.

    With `on_gpu` those that the GPU executes in calls, with the memory that they left. With
    `outline` only what is launched with which arguments is kept: no memory, and no kernel runs.
    """

    on_gpu: bool = False
    outline: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRecording:
    """Send the launches kept so far as one uint8 tensor: a file as `machine.recording` has it.

    With `result` it says where in memory the tensors held under that result lie.
    """

    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configurations:
    """Call once with each configuration that the candidate's Triton autotuners may choose.

    At most `most` calls, and none begins after `budget_s`. The facts name them: `configurations`
    the number of the longest list, `configuration K` what was launched, `result K` where its
    result lies among the answer's items (`start:count`), `refused K` why a GPU cannot run it.
    Equal results are sent once, `kept` different ones at most.
    """

    slot: str
    most: int = 64
    budget_s: float = 60.0
    kept: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Disarm:
    """Turn the candidate's own kernels into ones that do nothing, from now on (or back)."""

    active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """Call `count` times in a row and wait; with `flush` the L2 cache is overwritten before each.

    With `idle` nothing is called: what the rest costs. The judge's clock times the step.
    """

    slot: str
    count: int
    result: str = ""
    flush: bool = True
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspect:
    """Call on `slot` under a profiler; facts say which kernels ran and what they need."""

    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCall:
    """Call on `slot` and note which of the candidate's lines run and what their operations give.

    Facts, in order: `line` for the lines of Python that ran, `op` for the operations of torch
    (see `sandbox.guest.call_trace`). The answer is held under `result`. Diagnoses read it, verdicts
    never do: the candidate's own process says so.
    """

    slot: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCheck:
    """Call on `slot` and put every custom operator that was called through opcheck.

    Facts: `operator NAME` for each, `failed NAME TEST` with the reason for what fails.
    """

    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCall:
    """Call inside a function that torch.compile has compiled; hold copies under `result`.

    The fact `skipped` says why that was not done; then `result` is not there.
    """

    slot: str
    result: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backward:
    """Call on copies of the inputs of which `wanted` require gradients, and differentiate.

    The gradients of `wanted` are held under `result` in that order, what the call returned
    under `outputs`. Upstream gradients are drawn from `seed`. Facts say which outputs carry a
    gradient, whether the candidate brings a derivative of its own, and what was written to.
    Once a call brought none, later steps of the scenario do nothing: torch differentiates.
    """

    slot: str
    result: str
    outputs: str
    wanted: tuple[str, ...]
    seed: int
    upstream: Upstream = Upstream.CONTIGUOUS
    use: Use = Use.ONCE
