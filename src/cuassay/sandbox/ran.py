"""What came of a scenario: the records of its steps and the tensors that were sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from cuassay.model.reached import Reached
from cuassay.model.trace import (
    Finished,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    StepRecord,
)

_NOT_FOLLOWED = Reached()


class Ran:
    """What a scenario's steps reported, and the tensors that its Read steps sent.

    `reached` is the candidate's code that ran, as its process says.
    """

    def __init__(
        self,
        result: ScenarioResult,
        tensors: Sequence[torch.Tensor],
        reached: Reached = _NOT_FOLLOWED,
    ) -> None:
        self._result, self._tensors, self.reached = result, tensors, reached

    @property
    def result(self) -> ScenarioResult:
        """Records of the steps, how the process ended, and what it printed."""
        return self._result

    def tensor(self, item: ResultItem) -> torch.Tensor:
        """Return the tensor that was sent with `item`; KeyError where none was."""
        if not 0 <= item.buffer < len(self._tensors):
            raise KeyError(f"no bytes were sent for '{item.name or item.kind}'")
        return self._tensors[item.buffer]


def ended_cleanly(run: Ran) -> bool:
    """Whether a run came to its end without an exception."""
    raised = any(isinstance(record, StepRaised) for record in run.result.records)
    return isinstance(run.result.termination, Finished) and not raised


def renumbered(record: StepRecord, base: int) -> StepRecord:
    """Return a record whose items' buffers count from `base`, after those of earlier steps."""
    if not isinstance(record, StepDone):
        return record
    moved = (replace(i, buffer=i.buffer + base) if i.buffer >= 0 else i for i in record.items)
    return replace(record, items=tuple(moved))
