"""The judge's side of a comparison: what it sends, what it believes of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
import torch

from cuassay.algebra import programs as equal
from cuassay.errors import CannotJudgeError
from cuassay.judge.proofs import equality
from cuassay.judge.run.machine import HostNursery
from cuassay.model import serial
from cuassay.model.machine import EqualityEvidence

EVIDENCE = EqualityEvidence(elements=6, equal=5, output="y", element=3, seeds=2, prime=7)


class _Caller:
    """What answers for the process that holds the machine."""

    answer: ClassVar[bytes | None] = b""
    sent: ClassVar[tuple[int, ...]] = ()

    def __init__(self, nursery: object, *, name: str) -> None:
        pass

    async def ask(self, function: str, buffers: Sequence[memoryview], *, timeout_s: float) -> bytes:
        type(self).sent = tuple(buffer.nbytes for buffer in buffers[:2])
        if self.answer is None:
            raise CannotJudgeError("MemoryError: too large")
        return self.answer

    def __enter__(self) -> _Caller:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality, "Caller", _Caller)
    monkeypatch.setattr(equal, "prepare", lambda: None)
    monkeypatch.setattr(HostNursery, "get", lambda self: None)


def told(answer: bytes | None) -> EqualityEvidence:
    _Caller.answer = answer
    recordings = [torch.full((size,), 7, dtype=torch.uint8) for size in (3, 4)]
    return equality.compare(recordings[0], recordings[1], digest="d", host=HostNursery(None))


def test_both_recordings_are_sent_and_the_answer_is_read() -> None:
    assert told(serial.dumps(EVIDENCE).encode()) == EVIDENCE
    assert _Caller.sent == (3, 4)


def test_an_answer_that_is_none_decides_nothing() -> None:
    with pytest.raises(CannotJudgeError, match="no valid answer"):
        told(b"{]")
    with pytest.raises(CannotJudgeError, match="no answer: MemoryError: too large"):
        told(None)
