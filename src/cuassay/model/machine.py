"""What the PTX machine saw in a candidate's launches, as data that crosses processes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from cuassay.model.recording import CallerOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """One access or arrival: who did what on which line. Lines are from 1; 0 is unknown."""

    what: str
    ptx_line: int
    file: str = ""
    line: int = 0
    block: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()


REFUSED = "refused-launch"  # kind of a fault: no GPU accepts the launch
WRAPPED = "address-overflow"  # kind of a fault: so far outside that 32 bits have wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFault:
    """One fault of a launch (`kind` as in machine.findings), its first example and its count.

    `severity` is wrong, note or advice. `touches` holds the access at fault, then its partner
    in a race. `offset` and `nbytes` are bytes, from the start of `allocation`.
    """

    kind: str
    severity: str
    text: str
    touches: tuple[Touch, ...] = ()
    space: str = ""
    allocation: str = ""
    offset: int | None = None
    nbytes: int = 0
    count: int = 1
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTrace:
    """A source line: how many PTX instructions it became, and how many of them were executed.

    `error` is the largest relative error of one of its floating results against the float64
    shadow, `made` the largest that one of its instructions made by itself.
    """

    file: str
    line: int
    instructions: int
    executed: int
    error: float = 0.0
    made: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What instructions of one kind at a place of a source came to, over all threads of a launch.

    `values` has at most two: of a comparison whether it held, of an integer minimum or maximum
    whether the first operand was the smaller one, of a float instruction a magnitude. Nothing came
    of one that did not run. `compares` says that it is a comparison.
    """

    file: str
    line: int
    column: int
    what: str
    values: tuple[str, ...]
    compares: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatRange:
    """What one float instruction gave over all threads: magnitudes of finite nonzero results.

    `line` is the user's; where the compiler names none, that of the instruction before. `stored`
    says that it stores to global memory.
    """

    file: str
    line: int
    opcode: str
    largest: float
    smallest: float
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A file of the candidate with what the machine saw on its lines.

    `marks` are findings as (line, class of finding, code, text); `heat` maps a line to the
    relative error of its results; `executed` holds lines of which something ran.
    """

    file: str
    text: str
    marks: tuple[tuple[int, str, str, str], ...] = ()
    heat: Mapping[str, float] = field(default_factory=dict)
    executed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a launch left in an allocation: the machine's bytes beside those recorded on a GPU.

    `nbytes` counts the bytes that either of them changed, `equal` those of them on which both
    agree; `offset` is the first byte (from the start of the allocation) on which they do not.
    `largest` is the largest difference of two finite elements, `scale` the largest finite
    magnitude recorded, both as float64; 0 where `dtype` is unknown.
    """

    allocation: str
    nbytes: int
    equal: int
    offset: int | None = None
    dtype: str = ""
    largest: float = 0.0
    scale: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvidence:
    """One launch executed: its faults, and how far what was seen reaches.

    With `oblivious` no branch and no address depended on what buffers hold, so that races,
    bounds, initialisation and barriers are settled for all data at this launch.
    `inconclusive` says why it was not executed to its end, if so. `agreement` compares what it
    left with the recorded result: None where no GPU's result was recorded, empty where nothing
    changed. `failure` is what that GPU reported of a launch that did not end well. `title` is the
    kernel's name as its source spells it. `floats` stand in the order of the PTX. `order` says for
    which callers the launch is in order with their work, where it chose its stream.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    target: str
    title: str = ""
    faults: tuple[MachineFault, ...] = ()
    oblivious: bool = False
    inconclusive: str = ""
    not_covered: tuple[str, ...] = ()
    lane_instructions: int = 0
    compile_s: float = 0.0
    run_s: float = 0.0
    printed: tuple[str, ...] = ()
    lines: tuple[LineTrace, ...] = ()
    floats: tuple[FloatRange, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    agreement: tuple[Agreement, ...] | None = None
    failure: str = ""
    order: CallerOrder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDependence:
    """Memory that two schedules of the same launches left different."""

    allocation: str
    first: str
    second: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCount:
    """How many launches of recorded calls were made, as far as they were seen, and judged.

    `causes` counts those that were not judged by why they were not.
    """

    made: int = 0
    judged: int = 0
    causes: Mapping[str, int] = field(default_factory=dict)


class InstructionChange(enum.StrEnum):
    """What an edit of instructions changes."""

    NUMBER = "number"  # a constant of floats becomes another
    ARGUMENT = "argument"  # a constant becomes what a scalar argument is
    SIZE = "size"  # a constant becomes a size of the call
    INDEX = "index"  # a constant in integer arithmetic becomes another
    BOUND = "bound"  # a comparison holds at its bound too, or no longer
    BRANCH = "branch"  # a condition becomes always or never true
    PARAMETER = "parameter"  # another parameter of the kernel is read
    REGISTER = "register"  # another integer is used
    SIGN = "sign"  # an integer is read with its sign, or without
    OPERATOR = "operator"  # a sum becomes a difference, a maximum a minimum, and back
    PART = "part"  # an instruction gives a part of itself
    ZERO = "zero"  # an instruction gives zero


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionEdit:
    """One change of all instructions alike that the compiler made of a source line.

    `words` say what was changed; `key` names the change in other compilations of the source. One
    that was `lifted` out of its line, as out of a loop, has the line at which its result is used.
    """

    change: InstructionChange
    file: str
    line: int
    words: str
    key: str
    lifted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedCall:
    """What a recorded call gives with an edit: the bytes of each output, in base64."""

    edit: InstructionEdit
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedCalls:
    """A recorded call executed with edits of its instructions, those that came to their end.

    `same` are edits with which all outputs kept their bytes, `broken` the keys of those with which
    a launch did not end well. `lines` are those of a source, by file, that became instructions of
    kernels that ran. `refused` says why none was tried, if so; `cut` that there was no
    time for all, of which `spent_s` of processor time went by.
    """

    calls: tuple[EditedCall, ...] = ()
    same: tuple[InstructionEdit, ...] = ()
    broken: tuple[str, ...] = ()
    lines: tuple[tuple[str, int], ...] = ()
    cut: bool = False
    spent_s: float = 0.0
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityEvidence:
    """How many output elements of two kernels are the same expression in real numbers.

    `output` and `element` name the first one that is not. `seeds` counts the choices of random
    residues modulo `prime`; with `roots` one of them has to show an element equal, else all.
    `refused` says why nothing can be said, if so. `kernels` are the names of what the call
    launched, `operations` those of torch that it ran, each once and in order; `numbers` are the
    floats that host code gave to them.
    """

    elements: int = 0
    equal: int = 0
    output: str = ""
    element: int = 0
    seeds: int = 0
    prime: int = 0
    roots: bool = False
    refused: str = ""
    run_s: float = 0.0
    kernels: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineEvidence:
    """Everything seen in the launches of one call. `refused` says why nothing was, if so.

    `device` names the GPU that the launches were recorded on; `notes` say what was not recorded,
    and `left_out` counts those launches.
    """

    launches: tuple[LaunchEvidence, ...] = ()
    order: tuple[OrderDependence, ...] = ()
    refused: str = ""
    device: str = ""
    notes: tuple[str, ...] = ()
    left_out: int = 0

    @property
    def oblivious(self) -> bool:
        """Whether what was seen holds for all data at the launches' shapes."""
        return bool(self.launches) and all(one.oblivious for one in self.launches)

    @property
    def made(self) -> int:
        """How many launches were made, as far as they were seen."""
        return len(self.launches) + self.left_out

    @property
    def judged(self) -> int:
        """How many launches were executed to the end."""
        return sum(not one.inconclusive for one in self.launches)

    @property
    def causes(self) -> tuple[str, ...]:
        """Why each launch that was not judged was not."""
        noted = next(iter(self.notes), "it was not recorded")
        unfinished = (one.inconclusive for one in self.launches if one.inconclusive)
        return (*[noted] * self.left_out, *unfinished)

    @property
    def gap(self) -> str:
        """Why the first launch that was not judged was not, an empty string where all were."""
        unfinished = [one.inconclusive for one in self.launches if one.inconclusive]
        return next(iter((*self.notes, *unfinished)), "")

    @property
    def faults(self) -> tuple[tuple[LaunchEvidence, MachineFault], ...]:
        """Every fault with its launch, in order."""
        return tuple((launch, fault) for launch in self.launches for fault in launch.faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLimits:
    """Of one call without memory: its launches, those that CUDA refuses, and notes.

    `refused` has (kernel, why) of each kernel's first refused launch.
    """

    launches: int
    refused: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
