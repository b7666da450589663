"""What is wrong with a kernel, in the words of the person who has to repair it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Cause(enum.StrEnum):
    """The causes that a diagnosis can name: a closed set, from the contract to the numbers."""

    # Nothing was computed that could be compared.
    NOT_BUILT = "not-built"
    WRONG_STRUCTURE = "wrong-structure"  # count, type, shape, dtype or device of the outputs
    RAISES = "raises"
    REFUSES_SIZES = "refuses-sizes"  # an exception at a legal size that is not listed
    ENDS_PROCESS = "ends-process"
    CRASHES = "crashes"
    HANGS = "hangs"
    FORGES = "forges"  # wrote to the result channel
    PRINTS = "prints"
    LAUNCH_FAILED = "launch-failed"
    # The call does more, or keeps more, than its arguments say.
    INPUT_CHANGED = "input-changed"
    OUTPUT_SHARES_INPUT = "output-shares-input"
    OUTPUT_SHARES_OUTPUT = "output-shares-output"
    OUTPUT_REUSED = "output-reused"  # a later call overwrites what an earlier one returned
    STALE_ANSWER = "stale-answer"  # the answer, or a part of it, belongs to an earlier call
    FIRST_CALL = "first-call"  # wrong once, right afterwards
    AUTOTUNER = "autotuner"  # the first call keeps what an autotuner's trial runs left
    CALL_HISTORY = "call-history"  # wrong only after other calls
    HOW_CALLED = "how-called"  # wrong from another thread, on a stream, or in a gradient mode
    PROCESS_STATE = "process-state"
    UNNECESSARY_KERNEL = "kernel-without-effect"
    # Memory and order.
    OUT_OF_BOUNDS = "out-of-bounds"
    MISALIGNED = "misaligned"
    FALSE_ASSUMPTION = "false-assumption"  # what the kernel tells its compiler is not so
    UNINITIALISED = "uninitialised"
    UNWRITTEN = "unwritten-output"
    UNDEFINED_READ = "undefined-read"  # depends on elements that no output is defined by
    RACE = "race"
    BARRIER = "barrier"
    RANKS = "ranks"  # right while ranks arrive together, or in one group alone
    NOT_DETERMINISTIC = "not-deterministic"
    # Numbers.
    LOW_ACCUMULATION = "low-accumulation"
    LOW_PRECISION = "low-precision"
    OUT_OF_RANGE = "out-of-range"  # NaN or infinity from finite values
    INPUT_IGNORED = "input-ignored"
    INITIAL_VALUES = "initial-values"  # a module that starts with other values than the reference
    LOADED_STATE = "loaded-state"  # right until a state is loaded
    EVALUATION_MODE = "evaluation-mode"  # built in evaluation mode, and right in it alone
    # The same, and right until a state is loaded.
    BUILT_EVALUATION = "built-evaluation"
    TRAINING_MODE = "training-mode"  # right until it is put into evaluation mode
    INPUT_MISREAD = "input-misread"  # a scalar or rows of an input taken for others
    TERM_OMITTED = "term-omitted"
    WRONG_CONSTANT = "wrong-constant"
    OTHER_FORM = "other-form"  # of a function: gelu's tanh form for the one with erf
    WRONG_REDUCTION = "wrong-reduction"
    TAIL = "tail"  # a last partial tile
    SIZES = "some-sizes"  # right at some sizes and wrong at others, whatever tiles they fill
    TRIVIAL_ANSWER = "trivial-answer"
    MAGNITUDE = "magnitude"  # right for the same values times a thousand, or divided by it
    SPECIAL_CASE = "special-case"  # right for some values or rows, wrong for others
    WRONG_VALUES = "wrong-values"
    # Conditions of use.
    LAYOUT = "layout"
    STREAM = "stream"
    GRAPH = "graph"
    DEVICE = "device"
    LARGE_SIZES = "large-sizes"
    GRADIENT = "gradient"
    COMPILED = "compiled"
    CUSTOM_OPERATOR = "custom-operator"
    SLOW_HOST = "slow-host"
    TRAINING = "training"


class Basis(enum.StrEnum):
    """How a diagnosis knows its cause: what a reader may trust it for."""

    CHECK = "check"  # the check looks for exactly this
    MACHINE = "machine"  # the PTX machine saw it in an instruction of the line
    MUTANT = "mutant"  # a reference broken in this way gives the same wrong numbers
    TRACE = "trace"  # the lines and values of one call of the candidate
    REPAIR = "repair"  # a copy with this line edited was right on the cases tried


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of the candidate: `line` counts from 1, `text` is untrusted, `what` says what it does.

    `file` is the path in the candidate, or the name that the toolchain wrote into the PTX.
    """

    file: str
    line: int
    text: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One cause: in plain words, the line where it happens, the smallest input, what to do.

    `findings` are the ids of the findings that it explains, the most telling first. `example` is
    Python-like text, or empty.
    """

    cause: Cause
    words: str
    remedy: str
    basis: Basis = Basis.CHECK
    line: SourceLine | None = None
    example: str = ""
    findings: tuple[str, ...] = ()
