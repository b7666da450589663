"""A worker's preparations before anything of a candidate is loaded."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future

import pytest
import torch

from cuassay.model.device import CUDA
from cuassay.sandbox.guest.process import child, preload

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


def test_what_triton_reads_meanwhile_is_no_time_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: Future[float] = Future()
    made.set_result(0.125)
    monkeypatch.setattr(child, "begin_context", lambda device: made)
    monkeypatch.setattr(preload, "hash_triton", lambda: time.sleep(0.3))
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    assert child.warm_up(CUDA) == 0.125
