"""Snapshots of calls stay within their memory."""

from __future__ import annotations

import torch

from cuassay_guard.calls.snapshot import SnapshotBudget, take


def test_snapshots_stay_within_their_memory_and_survive_changes() -> None:
    memory = SnapshotBudget(100)
    x = torch.ones(4)
    snapshot = take((x,), {}, memory)
    assert snapshot is not None
    assert memory.used_bytes == 16
    assert take((torch.ones(64),), {}, memory) is None
    x.zero_()
    assert snapshot.finish(torch.ones(2), [])
    assert memory.used_bytes == 24
    assert snapshot.tensors[0].tolist() == [1, 1, 1, 1]
    assert not snapshot.finish(torch.ones(64), [])
    snapshot.release()
    snapshot.release()
    assert memory.used_bytes == 0
    with torch.inference_mode():
        inferred = torch.ones(3)
    kept = take((inferred,), {}, memory)
    assert kept is not None
    assert not kept.tensors[0].is_inference()
