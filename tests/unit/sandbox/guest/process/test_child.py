"""A worker's preparations before anything of a candidate is loaded."""

from __future__ import annotations

import os

import pytest
import torch

from cuassay.model.device import CUDA
from cuassay.sandbox.guest.process import child

_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"


@pytest.mark.parametrize("users", [None, "4"])
def test_the_driver_is_told_of_one_queue_and_the_candidate_is_not(
    monkeypatch: pytest.MonkeyPatch, users: str | None
) -> None:
    seen = []
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: seen.append(os.environ.get(_QUEUES)))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.delenv(_QUEUES, raising=False)
    if users is not None:
        monkeypatch.setenv(_QUEUES, users)
    child.warm_up(CUDA, queues=1)
    child.warm_up(CUDA, queues=None)
    assert seen == ["1", users]
    assert os.environ.get(_QUEUES) == users
