"""What a rank is sent reaches its device, and its memory outlives the stream that reads it."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from cuassay.model.device import CPU
from cuassay.sandbox.guest.ranks.member import Member, Place
from cuassay.sandbox.guest.ranks.messages import pack


def _member() -> Member:
    place = Place(rank=0, world=1, groups=1, store="", device=CPU, apart=False)
    return Member(cast(Any, None), place, lambda: None, cast(Any, None))


def test_inputs_that_another_stream_reads_are_not_given_away_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next call's inputs came into their memory: an honest kernel of two GPUs read NaN."""
    recorded: list[tuple[list[float], object]] = []
    monkeypatch.setattr(
        torch.Tensor,
        "record_stream",
        lambda tensor, stream: recorded.append((tensor.tolist(), stream)),
    )
    stream: Any = object()
    sent: Any = [pack(torch.tensor([1.0, 2.0])), 3]
    values = _member()._on_device(sent, stream)
    assert recorded == [([1.0, 2.0], stream)]
    assert values[0].tolist() == [1.0, 2.0]
    assert values[1] == 3
    _member()._on_device(sent, None)
    assert len(recorded) == 1
