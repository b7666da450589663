"""What experiments with a rejected candidate say about the cause of its findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuassay.model.diagnosis import Basis, Cause, SourceLine

# Causes that are said only where calls of their own confirmed them; what is tried of each is in
# `judge.diagnose.hypotheses`.
TESTED = frozenset(
    {
        Cause.STALE_ANSWER,
        Cause.CALL_HISTORY,
        Cause.FIRST_CALL,
        Cause.OUTPUT_REUSED,
        Cause.INPUT_IGNORED,
        Cause.LOW_ACCUMULATION,
        Cause.OUT_OF_RANGE,
        Cause.TAIL,
        Cause.SIZES,
        Cause.MAGNITUDE,
        Cause.SPECIAL_CASE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """A cause of wrong numbers, in words, and how it is known."""

    cause: Cause
    words: str
    basis: Basis
    line: SourceLine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clues:
    """What the experiments gave.

    `numbers` is why the numbers are wrong. `confirmed` are the causes whose prediction came true
    (`TESTED`), `refuted` those whose prediction did not, whatever a check says; `instead` is what
    an experiment showed in the place of another cause. `alone` says
    that the first call of a new process is wrong too: earlier calls are not at fault. `some_sizes`
    says that a kernel that raises does not at listed sizes. `lines` maps a cause to the line of the
    candidate that it would be found at; `repaired` are those causes whose line, once edited, makes
    the candidate right.
    """

    numbers: Clue | None = None
    confirmed: frozenset[Cause] = frozenset()
    refuted: frozenset[Cause] = frozenset()
    instead: Mapping[Cause, Cause] = field(default_factory=dict)
    alone: bool = False
    some_sizes: bool = False
    lines: Mapping[Cause, SourceLine] = field(default_factory=dict)
    repaired: frozenset[Cause] = frozenset()
