"""The judge's side of a comparison: what it sends, what it believes of the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from cuassay.errors import CannotJudgeError
from cuassay.judge import equality, machine_worker
from cuassay.judge.machine import HostNursery
from cuassay.model import serial
from cuassay.model.machine import EqualityEvidence
from cuassay.model.scenario import Scenario
from cuassay.model.trace import Finished, ResultItem, ScenarioResult, StepDone, StepRaised
from cuassay.sandbox.local import LocalRun

EVIDENCE = EqualityEvidence(elements=6, equal=5, output="y", element=3, seeds=2, prime=7)


class _Pool:
    """Answers with fixed bytes, or raises in the worker."""

    answer: bytes | None = b""
    sent: tuple[Mapping[str, torch.Tensor], ...] = ()

    def __init__(self, *_: object, **__: object) -> None:
        self.closed = False

    def run(self, scenario: Scenario, values: Callable[[object], Mapping[str, Any]]) -> LocalRun:
        type(self).sent = (values(scenario.cases[0]),)
        if self.answer is None:
            raised = StepRaised(index=1, exception="MemoryError", message="too large", traceback="")
            return LocalRun(
                result=ScenarioResult(records=(raised,), termination=Finished()), tensors=()
            )
        data = torch.frombuffer(bytearray(self.answer), dtype=torch.uint8)
        item = ResultItem(
            kind="tensor", type_name="torch.Tensor", dtype="uint8", shape=(data.numel(),),
            strides=(1,), device="cpu", buffer=0, name="0",
        )  # fmt: skip
        done = StepDone(index=2, items=(item,))
        return LocalRun(
            result=ScenarioResult(records=(done,), termination=Finished()), tensors=(data,)
        )

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def _pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_worker, "WorkerPool", _Pool)
    monkeypatch.setattr(equality, "prepare", lambda: None)
    monkeypatch.setattr(HostNursery, "get", lambda self: None)


def told(answer: bytes | None) -> EqualityEvidence:
    _Pool.answer = answer
    recordings = [torch.full((size,), 7, dtype=torch.uint8) for size in (3, 4)]
    return equality.compare(recordings[0], recordings[1], digest="d", host=HostNursery(None))


def test_both_recordings_are_sent_and_the_answer_is_read() -> None:
    assert told(serial.dumps(EVIDENCE).encode()) == EVIDENCE
    (values,) = _Pool.sent
    assert [values[name].numel() for name in ("first", "second")] == [3, 4]


def test_an_answer_that_is_none_decides_nothing() -> None:
    with pytest.raises(CannotJudgeError, match="no valid answer"):
        told(b"{]")
    with pytest.raises(CannotJudgeError, match="no answer: MemoryError: too large"):
        told(None)
