"""Lanes of an audit: how many share a GPU, and what is judged again without neighbors."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay.audit import driver
from cuassay.audit.discover import discover
from cuassay.audit.plan import WantedCandidates, make_plan
from cuassay.engine import executors
from cuassay.engine.executors import DeviceLane, LocalExecutor, audit_lanes
from cuassay.inputs.budget import booked_bytes, planned_memory_gib, room_bytes
from cuassay.model.audit import Audit
from cuassay.model.device import CPU, CUDA, Device
from cuassay.model.verdict import Decision, Profile
from cuassay.store import audits as store
from tests.support import audits, fake_judge, trees


def _gpus(monkeypatch: pytest.MonkeyPatch, folder: Path, *mib: int, cores: int) -> None:
    """Let a machine have GPUs of so many MiB, and so many processors."""
    listed = "".join(f"GPU {number}: one (UUID: GPU-{number})\n" for number in range(len(mib)))
    sizes = "".join(f"{size}\n" for size in mib)
    folder.mkdir()
    tool = folder / "nvidia-smi"
    tool.write_text(f'#!/bin/sh\n[ "$1" = -L ] && printf "{listed}" || printf "{sizes}"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(executors, "_cores", lambda: cores)


def test_processors_bound_the_trials_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gpus(monkeypatch, tmp_path / "bin", 143_771, cores=16)
    lanes = audit_lanes(None, None)
    assert [lane.name for lane in lanes] == ["cuda:0", "cuda:0.1", "cuda:0.2"]
    assert {lane.environment["CUDA_VISIBLE_DEVICES"] for lane in lanes} == {"0"}
    _gpus(monkeypatch, tmp_path / "two", 143_771, 143_771, cores=10)
    names = [lane.name for lane in audit_lanes(None, None)]
    assert names == ["cuda:0", "cuda:1", "cuda:0.1", "cuda:1.1"]


def test_memory_bounds_the_trials_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gpus(monkeypatch, tmp_path / "bin", 32_768, 65_536, cores=64)
    assert len(audit_lanes(None, None)) == 4  # two on the smaller, and as many on the other
    _gpus(monkeypatch, tmp_path / "small", 8_192, cores=64)
    assert [lane.name for lane in audit_lanes(None, None)] == ["cuda:0"]


def test_a_number_that_is_asked_for_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _gpus(monkeypatch, tmp_path / "bin", 8_192, 8_192, cores=4)
    assert [lane.name for lane in audit_lanes(None, 3)] == ["cuda:0", "cuda:1", "cuda:0.1"]
    assert [lane.name for lane in audit_lanes(Device("cuda:1"), 2)] == [
        "cuda:1",
        "cuda:1.1",
    ]
    assert [lane.name for lane in audit_lanes(CPU, 2)] == ["cpu:0", "cpu:1"]


def test_what_a_trial_needs_of_a_gpu_is_what_it_books() -> None:
    planned = planned_memory_gib(Profile.QUICK, None)
    assert planned is not None
    assert booked_bytes(room_bytes(planned)) == int(executors.GIB_OF_A_TRIAL * 2**30)


def _audit(tmp_path: Path, names: tuple[str, ...]) -> tuple[Audit, list[str]]:
    trees.native(tmp_path / "t" / "p")
    for number, words in enumerate(("# stop", "# accept", "# reject # theirs", "# accept")):
        path = tmp_path / "t" / "p" / "candidates" / f"k{number}.py"
        trees.write(path, f"{words}\n# {number}\n")
    root = str(tmp_path / "t")
    plan = make_plan(discover(root), WantedCandidates(), root=root, judged_as={"profile": "quick"})
    place = {"CUDA_VISIBLE_DEVICES": "0"}
    lanes = [DeviceLane(name=name, device=CUDA, environment=place) for name in names]
    ended: list[str] = []
    audit = driver.run_audit(
        plan,
        audits.header(tree=root),
        store.AuditFolder(tmp_path / "audit"),
        executor=LocalExecutor(lanes, spares=False),
        report=lambda result, done, total: ended.append(result.item.candidate_name),
    )
    return audit, ended


def test_what_has_no_verdict_beside_others_is_judged_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    fake_judge.install(monkeypatch)
    audit, ended = _audit(tmp_path, ("cuda:0", "cuda:0.1"))
    assert ended[-1] == "k0"  # first in the plan, and asked again when the others had ended
    assert [r.attempts for r in audit.results] == [2, 1, 1, 1]
    assert [r.verdict for r in audit.results] == [
        Decision.INCONCLUSIVE, Decision.ACCEPTED, Decision.REJECTED, Decision.ACCEPTED
    ]  # fmt: skip
    assert audit.results[0].lane == "cuda:0"


def test_a_lane_without_neighbors_judges_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path / "home"))
    fake_judge.install(monkeypatch)
    audit, _ = _audit(tmp_path, ("cuda:0",))
    assert [r.attempts for r in audit.results] == [1, 1, 1, 1]
