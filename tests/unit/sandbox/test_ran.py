"""What came of a scenario: tensors by their record, and whether it ended as it should."""

from __future__ import annotations

import pytest
import torch

from cuassay.model.trace import (
    Exited,
    Finished,
    ResultItem,
    ScenarioResult,
    StepDone,
    StepRaised,
    StepRecord,
    Termination,
)
from cuassay.sandbox.ran import Ran, ended_cleanly, renumbered

_SENT = ResultItem(kind="tensor", type_name="Tensor", shape=(2,), buffer=1, name="y")
_NOT_SENT = ResultItem(kind="tensor", type_name="Tensor", shape=(2,), name="z")
_RAISED = StepRaised(index=1, exception="ValueError", message="no")


def _ran(*records: StepRecord, termination: Termination | None = None) -> Ran:
    result = ScenarioResult(records=records, termination=termination or Finished())
    return Ran(result, [torch.zeros(2), torch.ones(2)])


def test_a_tensor_is_found_by_the_number_of_its_bytes() -> None:
    assert _ran().tensor(_SENT).tolist() == [1.0, 1.0]
    with pytest.raises(KeyError, match="no bytes were sent for 'z'"):
        _ran().tensor(_NOT_SENT)
    beyond = ResultItem(kind="tensor", type_name="Tensor", buffer=2)
    with pytest.raises(KeyError, match="no bytes were sent for 'tensor'"):
        _ran().tensor(beyond)


@pytest.mark.parametrize(
    ("run", "is_clean"),
    [
        (_ran(StepDone(index=0)), True),
        (_ran(StepDone(index=0), _RAISED), False),
        (_ran(termination=Exited(index=0, exit_code=0)), False),
        (_ran(), True),
    ],
)
def test_a_run_is_clean_where_it_finished_and_nothing_raised(run: Ran, is_clean: bool) -> None:
    assert ended_cleanly(run) is is_clean


def test_bytes_count_on_after_those_of_earlier_steps() -> None:
    moved = renumbered(StepDone(index=0, items=(_SENT, _NOT_SENT)), 10)
    assert isinstance(moved, StepDone)
    assert [item.buffer for item in moved.items] == [11, -1]
    assert renumbered(_RAISED, 10) is _RAISED
