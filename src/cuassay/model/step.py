"""What every step of a scenario says of itself, beside its data.

A step is defined in one class (`model/scenario.py`, `model/steps.py`): its fields, what it does in
the words of a message, what it needs of the judge and what it sends back, and what slots, results
and graphs hold after it. `sandbox/guest/callers` and `observe` say how each is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True)
class Held:
    """What slots, results and graphs hold after the steps seen so far.

    `slots` and `graphs` map to positions in the scenario's cases and to slots; `results` to
    the position of the case that the call was made on and the number of that call, from 1.
    """

    slots: dict[str, int] = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)
    results: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: int = 0

    def called(self, slot: str, result: str) -> int | None:
        """Note a call on `slot`; return the position of its case, None for an empty slot."""
        position = self.slots.get(slot)
        if position is not None:
            self.calls += 1
            self.results[result] = position, self.calls
        return position

    def case_of(self, result: str) -> int | None:
        """Return the position of the case that a result's call was made on."""
        return self.results[result][0] if result in self.results else None


class StepBase:
    """A step. `words` say what happens to the candidate; `sends` whether tensors come back."""

    __slots__ = ()

    words: ClassVar[str]
    sends: ClassVar[bool] = False

    def follow(self, held: Held) -> int | None:
        """Note what the step changes; return the position of the case it works on, if any."""
        return None

    @property
    def fills(self) -> tuple[str, int] | None:
        """The slot that gets values of a case, and the position of that case."""
        return None

    @property
    def wants_answers(self) -> str:
        """The slot whose right answers the judge sends, or ''."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSlot(StepBase):
    """A step on the inputs in `slot`."""

    slot: str

    def follow(self, held: Held) -> int | None:
        """Return the position of the case in the slot."""
        return held.slots.get(self.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class FillOfSlot(StepBase):
    """A step that gives `slot` the values of `case`, an index into Scenario.cases."""

    slot: str
    case: int

    @property
    def fills(self) -> tuple[str, int]:
        """The slot that gets the values of `case`."""
        return self.slot, self.case

    def follow(self, held: Held) -> int | None:
        """Note which case the slot holds; return its position."""
        held.slots[self.slot] = self.case
        return self.case


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOfSlot(StepBase):
    """A call on the inputs in `slot`, whose outputs are held under `result`."""

    slot: str
    result: str

    def follow(self, held: Held) -> int | None:
        """Note what the result is of; return the position of the case in the slot."""
        return held.called(self.slot, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfResult(StepBase):
    """A step on the outputs that are held under `result`."""

    result: str

    def follow(self, held: Held) -> int | None:
        """Return the position of the case that the result is of."""
        return held.case_of(self.result)
