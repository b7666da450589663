"""Which case each step of a scenario works on: slots, results and graphs followed in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cuassay.model.case import Case
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    ReadInputs,
    ReadResult,
    Refill,
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
    Inspect,
    OpCheck,
    Overwrite,
    ReadSlices,
    Repeat,
    Replay,
    StreamCall,
    Time,
    Together,
    TraceCall,
)


@dataclass(slots=True)
class Follower:
    """What slots, results and graphs hold after the steps seen so far.

    `slots` and `graphs` map to positions in the scenario's cases and to slots; `results` to
    the position of the case that the call was made on and the number of that call, from 1.
    """

    slots: dict[str, int] = field(default_factory=dict)
    graphs: dict[str, str] = field(default_factory=dict)
    results: dict[str, tuple[int, int]] = field(default_factory=dict)
    calls: int = 0

    def take(self, step: Step) -> int | None:
        """Follow one step; return the position of the case that it works on, if any."""
        match step:
            case Allocate(slot=slot, case=case) | Refill(slot=slot, case=case):
                self.slots[slot] = case
                return case
            case StreamCall(slot=slot, result=result, case=fresh):
                if fresh is not None:
                    self.slots[slot] = fresh
                return self._called(slot, result)
            case (
                Call(slot=slot, result=result)
                | CallInto(slot=slot, result=result)
                | CompiledCall(slot=slot, result=result)
                | TraceCall(slot=slot, result=result)
            ):
                return self._called(slot, result)
            case Backward(slot=slot, result=result, outputs=outputs):
                position = self._called(slot, result)
                if position is not None:
                    self.results[outputs] = self.results[result]
                return position
            case Together(slots=slots, results=results):
                found = [self._called(*pair) for pair in zip(slots, results, strict=True)]
                return found[0] if found else None
            case Capture(slot=slot, graph=graph):
                self.graphs[graph] = slot
                return self.slots.get(slot)
            case Replay(graph=graph, result=result):
                return self._called(self.graphs.get(graph, ""), result)
            case Time(slot=slot, result=result, idle=idle):
                return self._called(slot, result) if result and not idle else self.slots.get(slot)
            case (
                ReadInputs(slot=slot)
                | Repeat(slot=slot)
                | Configurations(slot=slot)
                | Arrange(slot=slot)
                | Inspect(slot=slot)
                | OpCheck(slot=slot)
            ):
                return self.slots.get(slot)
            case (
                ReadResult(result=result)
                | HashResult(result=result)
                | ReadSlices(result=result)
                | Overwrite(result=result)
            ):
                return self.results[result][0] if result in self.results else None
            case _:
                return None

    def _called(self, slot: str, result: str) -> int | None:
        position = self.slots.get(slot)
        if position is not None:
            self.calls += 1
            self.results[result] = position, self.calls
        return position


def followed(scenario: Scenario) -> Iterator[tuple[int, Step, Follower]]:
    """Yield each step's index, the step and what holds after it."""
    follower = Follower()
    for index, step in enumerate(scenario.steps):
        follower.take(step)
        yield index, step, follower


def case_of_step(scenario: Scenario, index: int) -> Case | None:
    """Return the case that step `index` works on, or None where it works on none."""
    follower = Follower()
    position: int | None = None
    for step in scenario.steps[: index + 1]:
        position = follower.take(step)
    return None if position is None else scenario.cases[position]
